"""Takes an order through the ordinary services, from its session to the payout, for a survey.

This runs statements that need existing rows, such as those of triggers.
"""

from typing import TYPE_CHECKING

from opentill import checkouts, disputes, merchants, orders, payouts, products, refunds, webhooks
from opentill.checkouts.model import SessionBody
from opentill.core.money import Money
from opentill.gateways.model import Card, GatewayDisputeEvent, PaymentOutcome, RefundOutcome
from opentill.orders import Payer
from opentill.refunds import RefundBody

if TYPE_CHECKING:
    from opentill.cli.survey import Action
    from opentill.db.database import Tx

_GATEWAY = "survey"
_SECRET_KEY = "k" * 32  # this encrypts only values that are rolled back


class PaidOrder:
    """The order of a survey; its actions run in sequence in one transaction."""

    def __init__(self, now: int) -> None:
        """``now`` is in Unix ms."""
        self._now = now
        self._merchant = self._product = self._order = self._attempt = ""

    def actions(self) -> "list[Action]":
        """Return the named actions in order."""
        return [
            ("make a merchant", self._make_merchant),
            ("make an endpoint", self._make_endpoint),
            ("make a product", self._make_product),
            ("open a session", self._open),
            ("begin a payment", self._begin),
            ("confirm a payment", self._confirm),
            ("settle an order", self._settle),
            ("refund a part of it", self._refund),
            ("open and lose a dispute", self._dispute),
            ("let a session expire", self._expire),
            ("pay another order", self._pay_another_order),
            ("pay out", self._pay_out),
        ]

    async def _make_merchant(self, tx: "Tx") -> None:
        merchant = await merchants.create(tx, name="Survey", now=self._now)
        self._merchant = merchant.id

    async def _make_endpoint(self, tx: "Tx") -> None:
        fields = webhooks.EndpointFields(url="https://survey.example/")
        check = webhooks.UrlCheck(lambda _: None)
        await webhooks.create(tx, self._merchant, fields, check, _SECRET_KEY, self._now)

    async def _make_product(self, tx: "Tx") -> None:
        body = products.ProductBody(name="Survey", price="100.00", currency="USD")
        self._product = (await products.create(tx, self._merchant, body, self._now)).id

    async def _open(self, tx: "Tx") -> None:
        body = SessionBody(product_id=self._product)
        session = await checkouts.open_session(tx, self._merchant, body, self._now)
        self._order = session.order_id

    async def _begin(self, tx: "Tx") -> None:
        order = await orders.lock(tx, self._merchant, self._order)
        payer = Payer(email="survey@example.com", name="Survey", ip="192.0.2.1", locale="en")
        attempt = await orders.start_attempt(tx, order, _GATEWAY, "CREDIT_CARD", payer, self._now)
        self._attempt = attempt.id

    async def _confirm(self, tx: "Tx") -> None:
        outcome = PaymentOutcome(
            status="SUCCEEDED", provider_ref=self._attempt, card=Card(brand="visa", last4="4242")
        )
        ids = (self._merchant, self._attempt)
        await orders.apply_outcome(tx, *ids, outcome, self._now, gateway=_GATEWAY)

    async def _settle(self, tx: "Tx") -> None:
        await orders.settle_one(tx, self._merchant, self._order, self._now, "survey")

    async def _refund(self, tx: "Tx") -> None:
        body = RefundBody(amount="1.00", reason="survey")
        refund = await refunds.create(tx, self._merchant, self._order, body, self._now)
        outcome = RefundOutcome(status="SUCCEEDED", provider_ref=refund.id)
        ids = (self._merchant, refund.id)
        await refunds.apply_outcome(tx, *ids, outcome, self._now, gateway=_GATEWAY)

    async def _dispute(self, tx: "Tx") -> None:
        for status in ("OPENED", "LOST"):
            event = GatewayDisputeEvent(
                attempt_id=self._attempt,
                dispute_ref="survey",
                status=status,
                amount=Money(9900, "USD"),
                reason="fraudulent",
            )
            await disputes.apply_outcome(tx, self._merchant, event, self._now, gateway=_GATEWAY)

    async def _expire(self, tx: "Tx") -> None:
        body = SessionBody(product_id=self._product)
        session = await checkouts.open_session(tx, self._merchant, body, self._now)
        await checkouts.expire(tx, self._merchant, session.id, "survey", self._now)

    async def _pay_another_order(self, tx: "Tx") -> None:
        for act in (self._open, self._begin, self._confirm, self._settle):
            await act(tx)

    async def _pay_out(self, tx: "Tx") -> None:
        request = payouts.PayoutRequest(
            amount_minor=None, reference="survey", reason="survey", by="opentill doctor"
        )
        payout = await payouts.create(tx, self._merchant, request, None, self._now)
        await payouts.pay(tx, payout.id, "survey", "survey", "opentill doctor", self._now)
