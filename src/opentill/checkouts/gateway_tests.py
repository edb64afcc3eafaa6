"""Test payments: ordinary sessions with which staff verify a gateway (decision 0100)."""

from collections.abc import Mapping
from typing import Final

import msgspec

from opentill import merchants, products
from opentill.checkouts import queries
from opentill.checkouts.model import (
    MIN_LIFETIME_MS,
    TEST_MARK,
    ItemBody,
    OpenedTest,
    Session,
    SessionBody,
)
from opentill.checkouts.service import open_session
from opentill.core import ids
from opentill.core.errors import Invalid
from opentill.core.payment_methods import BY_NAME, Method
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.gateways import Gateway, PaymentFacts, methods_of
from opentill.gateways.choice import Misfit, find_misfit
from opentill.merchants import Actor

_ACTION: Final = "gateways test"
_NAME: Final = "Test payment"


class GatewayTest(msgspec.Struct, frozen=True, kw_only=True):
    """A requested test payment as it was entered; ``amount`` is decimal text."""

    gateway: str
    method: str
    currency: str
    amount: str


class DoesNotFit(Invalid):
    """The account does not take the payment."""

    def __init__(self, account: str, misfit: Misfit) -> None:
        """``misfit`` says why."""
        super().__init__("gateway", f"gateway must fit the payment: {account} does not: {misfit}")
        self.misfit: Misfit = misfit


async def open_gateway_test(
    tx: Tx,
    gateways: Mapping[str, Gateway],
    merchant_id: str,
    test: GatewayTest,
    actor: Actor,
    now: int,
    settings: Settings,
) -> Session:
    """Open a session of 30 minutes that only one account can be paid through; record the actor.

    Raises NotFound, Invalid (on ``item.currency`` if there is no exchange rate), DoesNotFit, and
    NotPermitted like ``open_session``.
    """
    await merchants.find(tx, merchant_id)
    method = _method(gateways, merchant_id, test)
    body = SessionBody(
        item=ItemBody(name=_NAME, price=test.amount, currency=test.currency),
        payment_methods=[method],
        expires_in=MIN_LIFETIME_MS,
        metadata=msgspec.Raw(msgspec.json.encode({TEST_MARK: test.gateway})),
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


def _method(gateways: Mapping[str, Gateway], merchant_id: str, test: GatewayTest) -> Method:
    """Return the payment method of a requested test. Raises Invalid and DoesNotFit."""
    if test.gateway not in gateways:
        raise Invalid("gateway", f"gateway must be one of {', '.join(gateways)}")
    amount_minor = products.parse_price(test.amount, test.currency)
    offered = methods_of(gateways, test.gateway, test.currency)
    method = BY_NAME.get(test.method)
    if method is None or method not in offered:
        choices = ", ".join(offered) or "none"
        reason = f"method must be one that {test.gateway} offers in {test.currency}: {choices}"
        raise Invalid("method", reason)
    payment = PaymentFacts(
        method=method,
        currency=test.currency,
        amount_minor=amount_minor,
        merchant_id=merchant_id,
    )
    misfit = find_misfit(gateways, test.gateway, payment)
    if misfit is not None:
        raise DoesNotFit(test.gateway, misfit)
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
