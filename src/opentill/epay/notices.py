"""The notification of a paid order: a signed query, for the shop's server and its customer."""

from typing import Final
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import structlog

from opentill import merchants
from opentill.context import App
from opentill.core import encryption, hostnames
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Tx
from opentill.epay import credentials, queries
from opentill.epay.model import (
    PAID,
    Credentials,
    EpayOrder,
    Notice,
    NoticeOfOrder,
    NoticeState,
    PaidTwice,
    Submission,
)
from opentill.gateways.epay import signature
from opentill.merchants import OPENTILL, Actor

_log: Final = structlog.get_logger()
MAX_ADDRESS: Final = 2048  # as long as outgoing/addresses.py lets one be
_AS_IT_IS: Final = "%/:?&=@!$'()*+,;-._~[]"


def message(kept: EpayOrder, pid: int, key: str) -> dict[str, str]:
    """Return a notification's parameters, signed.

    Nothing in it is empty: some clients sign empty values too, which the convention leaves out.
    """
    params = {**_fields(pid, kept.trade_no, kept), "type": kept.reported_type}
    return {**params, "sign": signature.sign(params, key), "sign_type": signature.SIGN_TYPE}


def _fields(pid: int, trade_no: str, order: EpayOrder | Submission) -> dict[str, str]:
    fields = {
        "pid": str(pid),
        "trade_no": trade_no,
        "out_trade_no": order.out_trade_no,
        "type": order.type,
        "name": order.name,
        "money": order.money,
        "trade_status": "TRADE_SUCCESS",
    }
    return fields | ({"param": order.param} if order.param else {})


def address(url: str, params: dict[str, str]) -> str:
    """Put a message on an address: encoded as PHP does, before a fragment, after a query."""
    parts = urlsplit(hostnames.with_ascii_host(url))
    query = "&".join(filter(None, (quote(parts.query, safe=_AS_IT_IS), _encoded(params))))
    path = quote(parts.path, safe=_AS_IT_IS)
    return urlunsplit((parts.scheme, parts.netloc, path, query, parts.fragment))


def _encoded(params: dict[str, str]) -> str:
    return urlencode(params).replace("~", "%7E")  # as PHP does


def fits(wanted: Submission) -> bool:
    """Return whether the notice of an order will be short enough to be sent at all."""
    longest = {
        **_fields(0, "order" + "0" * 26, wanted),
        "pid": "0" * 9,
        "type": wanted.type or "creditcard",
        "sign": "0" * 32,
        "sign_type": signature.SIGN_TYPE,
    }
    return len(address(wanted.notify_url, longest)) <= MAX_ADDRESS


async def signed_message(
    tx: Tx, merchant_id: str, order_id: str, secret_key: str
) -> tuple[EpayOrder, dict[str, str]]:
    """Return a paid order with its message under the key of this moment. Raises WrongKey."""
    kept = await queries.BY_ORDER.one(tx, merchant_id=merchant_id, order_id=order_id)
    found: Credentials = await queries.OF_MERCHANT.one(tx, merchant_id=merchant_id)
    return kept, message(kept, found.pid, credentials.decrypt(found, secret_key))


async def return_address(app: App, merchant_id: str, order_id: str) -> str | None:
    """Return where the customer of a paid order goes, signed; None unless it is paid.

    The address proves the payment as the notice does, so it is made only when it is shown.
    """
    async with app.db.connection() as tx:
        kept = await queries.BY_ORDER.first(tx, merchant_id=merchant_id, order_id=order_id)
        if kept is None or kept.status not in PAID or not kept.return_url:
            return None
        try:
            kept, params = await signed_message(tx, merchant_id, order_id, app.settings.secret_key)
        except encryption.WrongKey:
            _log.error("no signed return", reason=credentials.WRONG_KEY)
            return None
    return address(kept.return_url, params)


async def of_order(tx: Tx, merchant_id: str, order_id: str) -> Notice | None:
    """Return the notice of an order, None if none was ever to be sent."""
    return await queries.NOTICE.first(tx, merchant_id=merchant_id, order_id=order_id)


async def resend(
    tx: Tx, merchant_id: str, order_id: str, now: int, *, actor: Actor = OPENTILL
) -> Notice:
    """Notify the shop of a paid order again, with all tries, and write the audit log.

    Whatever came of the last tries. Raises NotFound, and Invalid for an order that was not paid.
    """
    kept = await queries.BY_ORDER.first(tx, merchant_id=merchant_id, order_id=order_id)
    if kept is None:
        raise NotFound(reason=f"there is no Epay order {order_id}")
    notice = await queries.RESEND.first(tx, merchant_id=merchant_id, order_id=order_id, now=now)
    if notice is None:
        reason = f"order must be one that was paid: this one is {kept.status}"
        raise Invalid("order", reason)
    await merchants.record_audit(tx, actor, "epay resend", merchant_id, order_id, now)
    return notice


async def newest(
    tx: Tx, merchant_id: str, state: NoticeState | None = None, limit: int = 100
) -> list[NoticeOfOrder]:
    """Return a merchant's notices, newest first."""
    return await queries.NEWEST_NOTICES.all(tx, merchant_id=merchant_id, state=state, limit=limit)


async def skip_waiting(tx: Tx, now: int) -> int:
    """Count every notification that waits as failed, and return how many there were.

    After a restore: they may have been sent since the backup. Each can be sent again.
    """
    return await queries.SKIP_NOTICES.run(tx, now=now)


async def failed(tx: Tx, since: int, limit: int) -> list[Notice]:
    """Return notices of all merchants, made since a time (Unix ms), that were given up."""
    return await queries.FAILED_NOTICES.all(tx, since=since, limit=limit)


async def paid_twice(tx: Tx, since: int, limit: int) -> list[PaidTwice]:
    """Return numbers of all merchants of which two orders are paid, and neither was given back.

    The newer one was placed since a time (Unix ms); newest first.
    """
    return await queries.PAID_TWICE.all(tx, since=since, limit=limit)
