"""A month of history for the demonstration's merchant.

The ordinary services create the history in chronological order, with the business time of each
action, in one transaction. Each run makes the same random choices. The sandbox bank gets the
payments, refunds and disputes too, so that payments can be refunded and the bank's report has all.
"""

import heapq
import itertools
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from opentill import (
    checkouts,
    disputes,
    gateways,
    orders,
    payment_links,
    payouts,
    products,
    refunds,
)
from opentill.checkouts.model import SessionBody
from opentill.cli import demo_images
from opentill.core import ids
from opentill.core.money import Money
from opentill.core.settings import Settings
from opentill.gateways.model import (
    Card,
    DisputeStatus,
    GatewayDisputeEvent,
    Method,
    PaymentOutcome,
    RefundOutcome,
)
from opentill.orders import Order, Payer
from opentill.payment_links import LinkBody
from opentill.refunds import RefundBody

if TYPE_CHECKING:
    from opentill.db.database import Tx

NAME: Final = "Demo Shop"
DAYS: Final = 31
_HOUR: Final = 3_600_000
_DAY: Final = 24 * _HOUR
_GATEWAY: Final = "sandbox"
_CARDS: Final = (
    ("visa", "4242"), ("mastercard", "5454"), ("visa", "1881"), ("amex", "8431"), ("visa", "5556"),
)  # fmt: skip
_LINK_EVERY: Final = 3  # this often a customer of the first product comes by the payment link
_OWNER: Final = "owner@example.com"  # who responded to the disputes
_EXPLANATION: Final = (
    "Carrier: DHL. Tracking number: 00340434161094042557. The box was delivered to the customer's"
    " address and signed for two days after the payment."
)
# Number of a paid order → how its dispute ends, 8 days after it was opened; None: not yet.
_DISPUTES: Final[dict[int, DisputeStatus | None]] = {34: "WON", 60: "LOST", 88: None, 101: None}
_UNANSWERED: Final = 101  # the dispute to which the merchant has not responded
_TO_RESPOND: Final = 14 * _DAY  # time until the deadline for responding to a dispute
_OFFERS: Final = (
    #  name            picture        description                      price    weight
    ("Sencha, 100 g", "sencha", "Green tea of the first flush.", "12.50", 9),
    ("Oolong, 100 g", "oolong", "Half fermented, lightly roasted.", "18.00", 6),
    ("Teapot", "teapot", "Cast iron, 0.8 l.", "48.00", 2),
    ("Matcha set", "matcha", "Bowl, whisk and 30 g of matcha.", "64.00", 2),
    ("Tasting box", "tasting-box", "Eight teas, enough for a week.", "25.00", 5),
)
_METHODS: Final[tuple[Method, ...]] = ("CREDIT_CARD", "ALIPAY", "WECHAT_PAY", "PAYNOW")
_METHOD_WEIGHTS: Final = (11, 4, 3, 2)
_PEOPLE: Final = (
    "Ada Brook", "Ben Carter", "Chen Wei", "Dora Ellis", "Emil Fischer", "Fang Li", "Grace Hall",
    "Hana Sato", "Ivo Janssen", "Julia Kern", "Kim Lee", "Lin Mei", "Mara Novak", "Noah Owens",
    "Olga Petrov", "Paul Quinn", "Rosa Silva", "Tariq Aziz", "Uma Varma", "Yuki Tanaka",
)  # fmt: skip
_DECLINES: Final = ("card_declined", "insufficient_funds", "expired_card")
_HOURS: Final = (8, 9, 10, 11, 12, 12, 13, 14, 15, 16, 17, 18, 19, 20, 20, 21, 22)

_BankStatus = Literal["opened", "won", "lost", "recovered"]
_BANK_STATUSES: Final[dict[DisputeStatus, _BankStatus]] = {
    "OPENED": "opened", "WON": "won", "LOST": "lost", "RECOVERED": "recovered",
}  # fmt: skip

Happening = Callable[["Tx", int], Awaitable[None]]


class BankPayment(msgspec.Struct, frozen=True):
    """A payment to be stored in the sandbox bank. Amounts are minor units, times Unix ms."""

    id: str
    amount_minor: int
    currency: str
    method: Method
    paid_at: int
    refunded_minor: int = 0


class BankRefund(msgspec.Struct, frozen=True):
    """A refund to be stored in the sandbox bank. Amounts are minor units, times Unix ms."""

    id: str
    payment_id: str
    amount_minor: int
    currency: str
    refunded_at: int


class BankDispute(msgspec.Struct, frozen=True):
    """A dispute to be stored in the sandbox bank. Amounts are minor units, times Unix ms."""

    id: str
    payment_id: str
    amount_minor: int
    currency: str
    reason: str
    status: _BankStatus
    opened_at: int
    updated_at: int
    lost_at: int | None = None


class History:
    """The history of one merchant.

    ``bank`` has the sandbox bank's payments by attempt id, ``bank_refunds`` its refunds and
    ``bank_disputes`` its disputes by id.
    """

    def __init__(self, merchant_id: str, public_url: str = "") -> None:
        """Start without history. ``public_url`` is where pictures are; "": products have none."""
        self._public_url = public_url
        self._link: payment_links.PaymentLink | None = None
        self.bank: dict[str, BankPayment] = {}
        self.bank_refunds: list[BankRefund] = []
        self.bank_disputes: dict[str, BankDispute] = {}
        self.merchant_id = merchant_id
        self._chance = random.Random(7)  # noqa: S311 - reproducible
        self._happenings: list[tuple[int, int, Happening]] = []
        self._numbers = itertools.count()
        self._visits = 0  # of the payment link's product

    async def record_at_bank(self, settings: Settings) -> None:
        """Store payments, refunds and disputes in the sandbox bank of the data directory."""
        from opentill.sandbox import PastDispute, PastPayment, PastRefund, add_past

        url = gateways.callback_url(settings.public_url, {}, _GATEWAY)
        await add_past(
            settings.data_dir,
            [
                PastPayment(
                    id=paid.id,
                    amount_minor=paid.amount_minor,
                    currency=paid.currency,
                    method=paid.method,
                    description="",
                    merchant_name=NAME,
                    return_url=settings.public_url,
                    callback_url=url,
                    refunded_minor=paid.refunded_minor,
                    paid_at=paid.paid_at,
                )
                for paid in self.bank.values()
            ],
            [
                PastRefund(**msgspec.structs.asdict(refund), callback_url=url)
                for refund in self.bank_refunds
            ],
            [
                PastDispute(**msgspec.structs.asdict(dispute))
                for dispute in self.bank_disputes.values()
            ],
        )

    @property
    def paid(self) -> int:
        """The number of paid orders so far."""
        return len(self.bank)

    async def happen(self, tx: "Tx", now: int) -> None:
        """Create the month before ``now`` (Unix ms), in chronological order."""
        first = now - DAYS * _DAY
        if self._public_url:
            await demo_images.store(tx, self.merchant_id, first)
        offers = [
            (await products.create(tx, self.merchant_id, self._product(offer), first)).id
            for offer in _OFFERS
        ]
        link = LinkBody(product_id=offers[0], max_quantity=5)
        with ids.made_at(first):
            self._link = await payment_links.create(tx, {}, self.merchant_id, link, first)
        often = [offer[-1] for offer in _OFFERS]
        for day in range(DAYS + 1):
            midnight = (first + day * _DAY) // _DAY * _DAY
            for _ in range(self._customers(day, midnight)):
                at = midnight + self._chance.choice(_HOURS) * _HOUR + self._random_number(_HOUR)
                (offer,) = self._chance.choices(offers, often)
                self._plan(at, partial(self._visit, offer))
            if day in (14, 21, 28):
                self._plan(midnight + 9 * _HOUR, partial(self._pay_out, f"week {day // 7 + 1}"))
        while self._happenings and self._happenings[0][0] < now:
            at, _, happening = heapq.heappop(self._happenings)
            with ids.made_at(at):
                await happening(tx, at)

    def _customers(self, day: int, midnight: int) -> int:
        """Return the number of customers of a day: more at weekends, and increasing."""
        weekend = (midnight // _DAY + 3) % 7 >= 5  # noqa: PLR2004 - 1970-01-01 was a Thursday
        return 2 + day // 12 + 3 * weekend + self._chance.randrange(3)

    def _random_number(self, end: int) -> int:
        return self._chance.randrange(1, end)

    def _plan(self, at: int, happening: Happening) -> None:
        heapq.heappush(self._happenings, (at, next(self._numbers), happening))

    async def _visit(self, product_id: str, tx: "Tx", now: int) -> None:
        """Open a session and, most of the time, pay it."""
        session = await self._open(product_id, tx, now)
        draw = self._chance.random()
        if draw < 0.06:  # noqa: PLR2004 - the customer does not pay
            expire = partial(self._expire, session.id)
            self._plan(session.expires_at, expire)
            return
        (method,) = self._chance.choices(_METHODS, _METHOD_WEIGHTS)
        pay = partial(self._pay, session.order_id, self._payer(), method)
        if draw < 0.16:  # noqa: PLR2004 - the first payment is declined
            self._plan(now + self._random_number(120_000), partial(pay, "DECLINED"))
            if draw < 0.11:  # noqa: PLR2004 - and the customer does not try again
                self._plan(session.expires_at + 1, partial(self._expire, session.id))
                return
        self._plan(now + 120_000 + self._random_number(180_000), partial(pay, "SUCCEEDED"))

    async def _open(self, product_id: str, tx: "Tx", now: int) -> checkouts.Session:
        """Open a session, by the payment link or by the shop."""
        link = self._link
        if link is not None and link.product_id == product_id:
            self._visits += 1
            if self._visits % _LINK_EVERY == 0:
                selection, settings = payment_links.Selection(), Settings(agreement_required=False)
                return await payment_links.open_session(tx, {}, link, selection, settings, now)
        body = SessionBody(product_id=product_id)
        return await checkouts.open_session(tx, self.merchant_id, body, now)

    def _payer(self) -> Payer:
        name = self._chance.choice(_PEOPLE)
        email = f"{name.lower().replace(' ', '.')}@example.com"
        ip = f"198.51.100.{self._random_number(250)}"
        return Payer(email=email, name=name, ip=ip, locale="en")

    async def _pay(
        self, order_id: str, payer: Payer, method: Method, status: str, tx: "Tx", now: int
    ) -> None:
        """Pay or decline an order; some paid orders are refunded or disputed later."""
        order = await orders.lock(tx, self.merchant_id, order_id)
        attempt = await orders.start_attempt(tx, order, _GATEWAY, method, payer, now)
        declined = status == "DECLINED"
        reason = self._chance.choice(_DECLINES) if declined else ""
        outcome = PaymentOutcome(
            status="DECLINED" if declined else "SUCCEEDED",
            provider_ref=attempt.id,
            # A wallet has neither a card that expires nor an issuer.
            reason="canceled" if reason and method != "CREDIT_CARD" else reason,
            card=_card_of(payer) if method == "CREDIT_CARD" else None,
        )
        await orders.apply_outcome(
            tx, self.merchant_id, attempt.id, outcome, now + 2000, gateway=_GATEWAY
        )
        if declined:
            return
        self.bank[attempt.id] = BankPayment(
            attempt.id, order.amount_minor, order.currency, method, now + 2000
        )
        paid = await orders.find(tx, self.merchant_id, order_id)
        # The worker settles a payment within seconds of its due time.
        self._plan(paid.due_at or now, self._settle)
        number = self.paid
        if number % 17 == 5:  # noqa: PLR2004 - refunded, every third time partially
            amount = "5.00" if number % 3 == 0 else None
            self._plan(
                now + _DAY + self._random_number(3 * _DAY), partial(self._refund, order_id, amount)
            )
        elif number == 110:  # noqa: PLR2004 - its refund fails
            self._plan(now + _DAY, partial(self._refund, order_id, "5.00", failure="declined"))
        elif number in _DISPUTES:
            self._plan_dispute(order_id, number, now)

    def _plan_dispute(self, order_id: str, number: int, now: int) -> None:
        self._plan(now + 3 * _DAY, partial(self._dispute, order_id, "OPENED"))
        if number != _UNANSWERED:
            self._plan(now + 4 * _DAY, partial(self._contest, order_id))
        end = _DISPUTES[number]
        if end is not None:
            self._plan(now + 8 * _DAY, partial(self._dispute, order_id, end))
            self._plan(now + 8 * _DAY, self._settle)

    async def _refund(
        self, order_id: str, amount: str | None, tx: "Tx", now: int, *, failure: str = ""
    ) -> None:
        body = RefundBody(amount=amount, reason="The customer sent it back")
        refund = await refunds.create(tx, self.merchant_id, order_id, body, now)
        outcome = RefundOutcome(
            status="REFUSED" if failure else "SUCCEEDED", provider_ref=refund.id, reason=failure
        )
        await refunds.apply_outcome(
            tx, self.merchant_id, refund.id, outcome, now + 3000, gateway=_GATEWAY
        )
        if failure:
            return
        payment = self.bank[refund.attempt_id]
        self.bank[payment.id] = msgspec.structs.replace(
            payment, refunded_minor=payment.refunded_minor + refund.amount_minor
        )
        self.bank_refunds.append(
            BankRefund(refund.id, payment.id, refund.amount_minor, refund.currency, now + 3000)
        )

    async def _contest(self, order_id: str, tx: "Tx", now: int) -> None:
        (dispute,) = await disputes.list_for_order(tx, self.merchant_id, order_id)
        ids_of = (self.merchant_id, dispute.id)
        await disputes.add_note(tx, *ids_of, _EXPLANATION, _OWNER, now, by_merchant=True)
        await disputes.respond(tx, *ids_of, "CONTESTED", who=_OWNER, now=now)
        await disputes.record_forwarding(tx, *ids_of, "sent in the bank's portal", now + 2 * _HOUR)

    async def _dispute(self, order_id: str, status: DisputeStatus, tx: "Tx", now: int) -> None:
        order: Order = await orders.find(tx, self.merchant_id, order_id)
        event = GatewayDisputeEvent(
            attempt_id=order.paid_attempt_id or "",
            dispute_ref=f"demo-{order_id}",
            status=status,
            amount=Money(order.amount_minor, order.currency),
            reason="product_not_received",
            respond_by=now + _TO_RESPOND if status == "OPENED" else None,
        )
        await disputes.apply_outcome(tx, self.merchant_id, event, now, gateway=_GATEWAY)
        opened = BankDispute(
            event.dispute_ref, event.attempt_id, order.amount_minor, order.currency, event.reason,
            "opened", now, now,
        )  # fmt: skip
        dispute = self.bank_disputes.get(event.dispute_ref, opened)
        self.bank_disputes[dispute.id] = msgspec.structs.replace(
            dispute,
            status=_BANK_STATUSES[status],
            updated_at=now,
            lost_at=now if status == "LOST" else dispute.lost_at,
        )

    async def _expire(self, session_id: str, tx: "Tx", now: int) -> None:
        await checkouts.expire(tx, self.merchant_id, session_id, checkouts.TIME_IS_OVER[0], now)

    async def _settle(self, tx: "Tx", now: int) -> None:
        await orders.settle_batch(tx, self.merchant_id, now)

    def _product(self, offer: tuple[str, str, str, str, int]) -> products.ProductBody:
        name, picture, description, price, _ = offer
        image = self._public_url and demo_images.url(self._public_url, self.merchant_id, picture)
        return products.ProductBody(
            name=name, description=description, price=price, currency="USD", image=image or None
        )

    async def _pay_out(self, reference: str, tx: "Tx", now: int) -> None:
        request = payouts.PayoutRequest(
            amount_minor=None, reference=reference, reason="Weekly payout", by="opentill demo"
        )
        payout = await payouts.create(tx, self.merchant_id, request, None, now)
        self._plan(now + _DAY, partial(self._arrive, payout.id))

    async def _arrive(self, payout_id: str, tx: "Tx", now: int) -> None:
        bank_reference = f"B{now // _DAY}"
        await payouts.pay(
            tx, payout_id, bank_reference, "Arrived at the bank", "opentill demo", now
        )


def _card_of(payer: Payer) -> Card:
    """Return the card of a customer, who always has the same one."""
    brand, last4 = _CARDS[len(payer.email) % len(_CARDS)]
    return Card(brand=brand, last4=last4)
