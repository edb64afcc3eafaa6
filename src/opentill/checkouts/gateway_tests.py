"""Test payments: ordinary sessions with which staff verify a gateway (decision 0100)."""

from collections.abc import Mapping
from typing import Final

import msgspec

from opentill import merchants, products
from opentill.checkouts import queries
from opentill.checkouts.model import MIN_LIFETIME_MS, ItemBody, OpenedTest, Session, SessionBody
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
    """A requested test payment as it was entered; ``amount`` is decimal text."""

    gateway: str
    method: str
    currency: str
    amount: str


class NotPreferred(Invalid):
    """Another gateway is preferred for the payment."""

    def __init__(self, gateway: str, first: str) -> None:
        """``first`` is the gateway that is preferred for this method and currency now."""
        reason = f"gateway must be the first choice for this method and currency: that is {first}"
        super().__init__("gateway", f"{reason}, and not {gateway}")
        self.first = first


async def open_gateway_test(
    tx: Tx,
    gateways: Mapping[str, Gateway],
    merchant_id: str,
    test: GatewayTest,
    actor: Actor,
    now: int,
    settings: Settings,
) -> Session:
    """Open a session of 30 minutes whose payment goes through a gateway, and record the actor.

    The session is not pinned to the gateway, which must be the preferred one for this method and
    currency now. Raises NotFound, Invalid (on ``item.currency`` if there is no exchange rate),
    NotPreferred, and NotPermitted like ``open_session``.
    """
    await merchants.find(tx, merchant_id)
    method = _method(gateways, test)
    body = SessionBody(
        item=ItemBody(name=_NAME, price=test.amount, currency=test.currency),
        payment_methods=[method],
        expires_in=MIN_LIFETIME_MS,
        metadata=msgspec.Raw(msgspec.json.encode({"testPayment": test.gateway})),
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
        gateway=test.gateway,
        who=actor.who,
        now=now,
    )
    subject = f"{session.order_id}: {test.gateway}"
    await merchants.record_audit(tx, actor, _ACTION, merchant_id, subject, now)
    return session


def _method(gateways: Mapping[str, Gateway], test: GatewayTest) -> Method:
    """Return the payment method of a requested test. Raises Invalid and NotPreferred."""
    if test.gateway not in gateways:
        raise Invalid("gateway", f"gateway must be one of {', '.join(gateways)}")
    products.parse_price(test.amount, test.currency)
    offered = methods_of(gateways, test.gateway, test.currency)
    method = BY_NAME.get(test.method)
    if method is None or method not in offered:
        choices = ", ".join(offered) or "none"
        reason = f"method must be one that {test.gateway} offers in {test.currency}: {choices}"
        raise Invalid("method", reason)
    first = candidates(gateways, method, test.currency)[0]
    if first != test.gateway:
        raise NotPreferred(test.gateway, first)
    return method


async def list_gateway_tests(tx: Tx, before: str, limit: int) -> list[OpenedTest]:
    """Return a page of the test payments of all merchants, newest first.

    ``before`` is the order id of the previous page's last payment, "" for the first page.
    """
    return await queries.GATEWAY_TESTS.all(tx, before=before or ids.LAST, limit=limit)


async def is_gateway_test(tx: Tx, merchant_id: str, order_id: str) -> bool:
    """Whether an order belongs to a test payment."""
    is_test = await queries.IS_GATEWAY_TEST.get(tx, merchant_id=merchant_id, order_id=order_id)
    return bool(is_test)
