"""Test payments: ordinary sessions, by which staff see that a gateway works (decision 0100)."""

from collections.abc import Mapping
from typing import Final

import msgspec

from opentill import merchants, products
from opentill.checkouts import queries
from opentill.checkouts.model import SHORTEST_MS, ItemBody, OpenedTest, Session, SessionBody
from opentill.checkouts.service import open_session
from opentill.core import ids
from opentill.core.errors import Invalid
from opentill.core.payment_methods import BY_NAME, Method
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.gateways import Gateway, candidates, methods_of
from opentill.merchants import Actor

_ACTION: Final = "gateways test"
_NAME: Final = "Test payment"


class GatewayTest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be paid through a gateway, as it was entered; ``amount`` is decimal text."""

    gateway: str
    method: str
    currency: str
    amount: str


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
    await queries.INSERT_GATEWAY_TEST.run(
        tx,
        merchant_id=merchant_id,
        order_id=session.order_id,
        gateway=wanted.gateway,
        who=actor.who,
        now=now,
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


async def opened_gateway_tests(tx: Tx, before: str, limit: int) -> list[OpenedTest]:
    """Return test payments of all merchants, newest first, from before an order on ("": all)."""
    return await queries.GATEWAY_TESTS.all(tx, before=before or ids.LAST, limit=limit)


async def is_gateway_test(tx: Tx, merchant_id: str, order_id: str) -> bool:
    """Return whether an order is that of a test payment."""
    found = await queries.IS_GATEWAY_TEST.get(tx, merchant_id=merchant_id, order_id=order_id)
    return bool(found)
