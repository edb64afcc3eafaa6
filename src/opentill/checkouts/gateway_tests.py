"""Test payments: ordinary sessions, by which staff see that a gateway works (decision 0100)."""

from collections.abc import Mapping
from typing import Final

import msgspec

from opentill import merchants, products
from opentill.checkouts.model import SHORTEST_MS, ItemBody, Session, SessionBody
from opentill.checkouts.service import open_session
from opentill.core.errors import Invalid
from opentill.core.ids import is_id
from opentill.core.payment_methods import BY_NAME, Method
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.gateways import Gateway, candidates, methods_of
from opentill.merchants import Actor, AuditRow, Sought

_ACTION: Final = "gateways test"
_NAME: Final = "Test payment"
_READ: Final = 200  # rows of the audit log that may name the action without being it


class GatewayTest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be paid through a gateway, as it was entered; ``amount`` is decimal text."""

    gateway: str
    method: str
    currency: str
    amount: str


class OpenedTest(msgspec.Struct, frozen=True):
    """A test payment that was opened: of which gateway and order, when and by whom."""

    merchant_id: str
    order_id: str
    gateway: str
    at: int
    who: str


class NotFirst(Invalid):
    """Another gateway would take the payment."""

    def __init__(self, gateway: str, first: str) -> None:
        """``first`` is the gateway that payments of this method and currency go to now."""
        reason = f"gateway must be the first choice for this method and currency: that is {first}"
        super().__init__("gateway", f"{reason}, and not {gateway}")
        self.first = first


async def open_gateway_test(
    tx: Tx,
    gateways: Mapping[str, Gateway],
    merchant_id: str,
    wanted: GatewayTest,
    actor: Actor,
    now: int,
    settings: Settings,
) -> Session:
    """Open a session of 30 minutes whose payment goes through a gateway, and record who did.

    Nothing pins it to the gateway: it must be the one that customers of this method and currency
    are sent to now. Raises NotFound, Invalid, on ``item`` if there is no exchange rate, NotFirst,
    and NotPermitted as ``open_session`` does.
    """
    await merchants.find(tx, merchant_id)
    method = _method(gateways, wanted)
    body = SessionBody(
        item=ItemBody(name=_NAME, price=wanted.amount, currency=wanted.currency),
        payment_methods=[method],
        expires_in=SHORTEST_MS,
        metadata=msgspec.Raw(msgspec.json.encode({"testPayment": wanted.gateway})),
    )
    session = await open_session(
        tx,
        merchant_id,
        body,
        now,
        rates_max_age_days=settings.rates_max_age_days,
        agreement_required=settings.agreement_required,
    )
    subject = f"{session.order_id}: {wanted.gateway}"
    await merchants.record_audit(tx, actor, _ACTION, merchant_id, subject, now)
    return session


def _method(gateways: Mapping[str, Gateway], wanted: GatewayTest) -> Method:
    """Return the method to pay by, of what is wanted. Raises Invalid and NotFirst."""
    if wanted.gateway not in gateways:
        raise Invalid("gateway", f"gateway must be one of {', '.join(gateways)}")
    products.price_minor(wanted.amount, wanted.currency)
    offered = methods_of(gateways, wanted.gateway, wanted.currency)
    method = BY_NAME.get(wanted.method)
    if method is None or method not in offered:
        known = ", ".join(offered) or "none"
        reason = f"method must be one that {wanted.gateway} offers in {wanted.currency}: {known}"
        raise Invalid("method", reason)
    first = candidates(gateways, method, wanted.currency)[0]
    if first != wanted.gateway:
        raise NotFirst(wanted.gateway, first)
    return method


async def opened_gateway_tests(tx: Tx, since: int, limit: int) -> list[OpenedTest]:
    """Return the test payments that were opened since then, newest first.

    The audit log is the list of them.
    """
    rows = await merchants.search_audit(tx, Sought(text=_ACTION, since=since), _READ)
    return [one for row in rows if row.action == _ACTION for one in [_opened(row)]][:limit]


def _opened(row: AuditRow) -> OpenedTest:
    order_id, _, gateway = row.subject.partition(": ")
    if not is_id(order_id):
        raise AssertionError  # nobody else writes of this action
    return OpenedTest(row.merchant_id, order_id, gateway, row.at, row.who)
