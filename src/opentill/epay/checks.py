"""Check whether a shop's server would accept notifications (decision 0176).

Only addresses of the merchant's own orders are checked, and nothing of a response is returned, so
that a check is no way to read or to scan other servers.
"""

import time
from http import HTTPStatus
from typing import Final

import msgspec
import structlog

from opentill.core import encryption
from opentill.core.errors import Invalid, NotFound
from opentill.core.settings import Settings
from opentill.db.database import Db
from opentill.epay import credentials, jobs, notices, queries, recovery_queries
from opentill.epay.model import AddressToCheck, EpayOrder
from opentill.orders.statuses import PAID_STATUSES
from opentill.outgoing.client import Outgoing
from opentill.outgoing.faults import Fault

_log: Final = structlog.get_logger()
_MOST: Final = 5  # at most this many servers of the newest orders are offered
# A message that a shop refuses: it has no order, no payment and no valid signature.
_PROBE: Final = {
    "pid": "0",
    "trade_no": "opentillcheck",
    "out_trade_no": "opentillcheck",
    "type": "alipay",
    "name": "check",
    "money": "0.00",
    "trade_status": "WAIT_BUYER_PAY",
    "sign": "0" * 32,
    "sign_type": "MD5",
}
# Faults of a probe's response that come from the shop's own program, which is what was looked for.
_REFUSALS: Final = frozenset[Fault | None]({None, "bom", "no_success", "signature_refused"})


class AddressCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What a check of a server found. ``was_real``: the notification of a paid order was sent.

    Without a paid order, a message that the shop must refuse was sent: it shows that the shop's
    program is reached, and not whether it accepts the signature.
    """

    server: str
    works: bool
    was_real: bool
    fault: Fault | None
    duration_ms: int


async def list_addresses(db: Db, merchant_id: str) -> list[AddressToCheck]:
    """Return the servers of a merchant's newest orders, each with an order, newest first."""
    async with db.connection() as tx:
        return await recovery_queries.ADDRESSES.all(tx, merchant_id=merchant_id, limit=_MOST)


async def check_address(
    db: Db, outgoing: Outgoing, settings: Settings, merchant_id: str, order_id: str, now: int
) -> AddressCheck:
    """Check the address of an order. If it works, send the notices that wait for its server.

    Raises NotFound, and Invalid if a notification cannot be signed.
    """
    async with db.connection() as tx:
        order = await queries.BY_ORDER.first(tx, merchant_id=merchant_id, order_id=order_id)
        offered = await recovery_queries.ADDRESSES.all(tx, merchant_id=merchant_id, limit=_MOST)
        if order is None or order_id not in {each.order_id for each in offered}:
            raise NotFound(reason=f"{order_id} is no order whose server can be checked")
        params, is_paid = _PROBE, order.status in PAID_STATUSES
        if is_paid:
            try:
                _, params = await notices.signed_message(tx, settings, merchant_id, order_id)
            except encryption.WrongKey:
                raise Invalid("order", credentials.WRONG_KEY) from None
    started = time.perf_counter()
    attempt = await jobs.send_once(outgoing, notices.address(order.notify_url, params))
    works = attempt.is_acknowledged or (not is_paid and _refuses_properly(attempt))
    if works and is_paid:
        async with db.connection() as tx:
            await recovery_queries.RELEASE_OLDEST.run(
                tx, merchant_id=merchant_id, order_id=order_id, now=now
            )
    _log.info("Epay address checked", order=order_id, works=works, fault=attempt.fault)
    is_warning = not works or attempt.fault == "bom"
    return AddressCheck(
        server=_server(order),
        works=works,
        was_real=is_paid,
        fault=attempt.fault if is_warning else None,
        duration_ms=int((time.perf_counter() - started) * 1000),
    )


def _refuses_properly(attempt: jobs.NoticeAttempt) -> bool:
    """Whether the shop's program refused a probe, as it should."""
    return attempt.status == HTTPStatus.OK and attempt.fault in _REFUSALS


def _server(order: EpayOrder) -> str:
    scheme, _, rest = order.notify_url.partition("://")
    return f"{scheme}://{rest.partition('/')[0].partition('?')[0]}"
