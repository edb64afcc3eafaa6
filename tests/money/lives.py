"""Random lives of orders and refunds against a small pure model, driven by Hypothesis.

The model is written from the product's decisions and uses nothing of ours: whole minor units,
fractions and one rounding. After each step the books are checked and the balances are compared.
"""

import asyncio
from collections.abc import Coroutine
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Any, ClassVar, Final, TypeVar

import asyncpg
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from money import world
from opentill import checkouts, orders
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.orders import Attempt
from opentill.refunds.model import Refund

T = TypeVar("T")
EXPONENTS: Final = {"USD": 2, "EUR": 2, "JPY": 0, "KWD": 3}
MINUTE: Final = 60_000


def half_up(value: Fraction) -> int:
    return floor(value + Fraction(1, 2))


def grain(currency: str) -> int:
    """The least amount that is moved: a hundredth, or a whole unit."""
    return 10 ** max(0, EXPONENTS[currency] - 2)


def convert(minor: int, rate: Fraction, source: str, target: str) -> int:
    scale = Fraction(10) ** (EXPONENTS[target] - EXPONENTS[source])
    return half_up(minor * rate * scale / grain(target)) * grain(target)


class ModelRefund:
    """What a refund gives and takes."""

    def __init__(self, amount: int, debit: int) -> None:
        self.amount, self.debit, self.status = amount, debit, "PROCESSING"


class ModelOrder:
    """What an order is worth, and what became of it."""

    def __init__(self, shop: "ModelShop", price: int, currency: str, rate: Fraction) -> None:
        self.shop, self.price, self.currency, self.rate = shop, price, currency, rate
        fee = convert(price, shop.fee_rate, currency, currency)
        self.gross = convert(price, rate, currency, shop.currency)
        self.net = convert(price - fee, rate, currency, shop.currency)
        self.policy = shop.policy
        self.status = "PENDING"
        self.paid = False
        self.refunds: list[ModelRefund] = []

    def held(self) -> int:
        return sum(r.amount for r in self.refunds if r.status != "FAILED")

    def debits(self) -> int:
        return sum(r.debit for r in self.refunds if r.status != "FAILED")

    def debit_of(self, amount: int) -> int:
        """What a refund takes: what all accepted ones are worth together, less what they took."""
        held = self.held() + amount
        worth = convert(held, self.rate, self.currency, self.shop.currency)
        if held == self.price:
            worth = self.gross
        if self.policy == "RETURNED":
            unit = grain(self.shop.currency)
            fee = (self.gross - self.net) // unit
            worth -= half_up(Fraction(fee * held, self.price)) * unit
        return max(0, worth - self.debits())


class ModelShop:
    """A merchant's terms and accounts."""

    def __init__(self, currency: str, fee_rate: Fraction, policy: str, overdraft: int) -> None:
        self.currency, self.fee_rate, self.policy = currency, fee_rate, policy
        self.overdraft = overdraft
        self.pending = self.frozen = self.gateway = self.platform = 0

    def balances(self) -> tuple[int, int, int, int]:
        return self.pending, self.frozen, self.gateway, self.platform


RATES: Final = {"EUR": "1.0837", "JPY": "0.006693", "KWD": "3.2514"}  # in USD


class Lives(RuleBasedStateMachine):
    """Several merchants at once; the database is rolled back after each life."""

    url: ClassVar[str] = ""
    loop: ClassVar[asyncio.AbstractEventLoop]
    open_orders = Bundle("open_orders")
    running = Bundle("running")

    def __init__(self) -> None:
        super().__init__()
        self.now = world.NOW
        self.shops: dict[str, ModelShop] = {}
        self.orders: dict[str, ModelOrder] = {}
        self.attempts: dict[str, Attempt] = {}
        self.products: dict[tuple[str, int, str], str] = {}
        self.tx = self.run(asyncpg.connect(self.url))
        self.transaction = self.tx.transaction()
        self.run(self.transaction.start())
        for base, rate in RATES.items():
            sql = "insert into rates values ($1, 'USD', 0, $2)"
            self.run(self.tx.execute(sql, base, Decimal(rate)))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def attempt(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Do a step, or nothing at all if it is refused."""

        async def inside() -> T | None:
            try:
                async with self.tx.transaction():
                    return await work
            except Invalid as refused:
                note(str(refused))
                return None

        return self.run(inside())

    def teardown(self) -> None:
        self.run(self.transaction.rollback())
        self.run(self.tx.close())

    @initialize(
        terms=st.lists(
            st.tuples(
                st.sampled_from(["USD", "USD", "EUR", "JPY", "KWD"]),
                st.sampled_from(["0", "0.04", "0.0333", "0.5", "0.999999"]),
                st.sampled_from(["KEPT", "RETURNED"]),
                st.sampled_from([0, 5, 10_000, 10**9]),
            ),
            min_size=1, max_size=3,
        )
    )  # fmt: skip
    def merchants(self, terms) -> None:
        for currency, fee, policy, overdraft in terms:
            made = self.run(
                world.merchant(
                    self.tx, settlement_currency=currency, platform_fee_rate=fee,
                    refund_fee_policy=policy, overdraft_minor=overdraft,
                )
            )  # fmt: skip
            self.shops[made.id] = ModelShop(currency, Fraction(fee), policy, overdraft)

    @rule(
        target=open_orders,
        shop=st.integers(0, 2),
        price=st.integers(1, 3_000),
        currency=st.sampled_from(sorted(EXPONENTS)),
    )
    def opens(self, shop: int, price: int, currency: str) -> str:
        merchant_id = sorted(self.shops)[shop % len(self.shops)]
        model = self.shops[merchant_id]
        rate = Fraction(1)
        if currency != model.currency:  # by the rate that there is, in USD and back
            if "USD" not in {currency, model.currency}:
                currency = model.currency
            elif model.currency == "USD":
                rate = Fraction(RATES[currency])
            else:
                inverse = 1 / Fraction(RATES[model.currency])
                rate = Fraction(half_up(inverse * 10**12), 10**12)
        exponent = EXPONENTS[currency]
        text = f"{price}.00" if exponent == 0 else f"{price // 100}.{price % 100:02}"
        minor = price if exponent == 0 else price * 10 ** (exponent - 2)
        order_model = ModelOrder(model, minor, currency, rate)
        key = (merchant_id, price, currency)
        if key not in self.products:
            made = self.run(world.product(self.tx, merchant_id, text, currency))
            self.products[key] = made.id
        opened = self.attempt(world.session(self.tx, merchant_id, self.products[key], self.now))
        assert (opened is not None) == (order_model.gross > 0)
        if opened is None:
            return ""
        self.orders[opened.order_id] = order_model
        order = self.run(orders.find(self.tx, merchant_id, opened.order_id))
        assert (order.gross_settled_minor, order.net_settled_minor) == (
            order_model.gross, order_model.net,
        )  # fmt: skip
        return opened.order_id

    def find(self, order_id: str) -> orders.Order:
        merchant_id = next(
            key for key, shop in self.shops.items() if self.orders[order_id].shop is shop
        )
        return self.run(orders.find(self.tx, merchant_id, order_id))

    @rule(order_id=open_orders)
    def submits(self, order_id: str) -> None:
        if not order_id:
            return
        model = self.orders[order_id]
        done = self.attempt(world.submitted(self.tx, self.find(order_id), self.now))
        assert (done is not None) == (model.status == "PENDING")
        if done is not None:
            self.attempts[done.id] = done
            model.status = "CREATING"

    @precondition(lambda self: self.attempts)
    @rule(
        which=st.integers(0, 10**6),
        word=st.sampled_from([
            "SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "ACTION_REQUIRED", "PENDING", "DECLINED",
            "REFUSED", "VOIDED", "UNKNOWN", "NOT_FOUND", "UNREACHABLE",
        ]),
    )  # fmt: skip
    def says(self, which: int, word: str) -> None:
        """A gateway says something of any attempt there ever was."""
        keys = sorted(self.attempts)
        seen = self.attempts[keys[which % len(keys)]]
        model = self.orders[seen.order_id]
        amount = Money(seen.amount_minor, seen.currency) if word == "SUCCEEDED" else None
        before = seen.status
        after = self.run(world.said(self.tx, seen, word, self.now, amount=amount))
        self.attempts[seen.id] = after
        undecided = before in {"SUBMITTED", "ACTION_REQUIRED", "PENDING"}
        if word == "SUCCEEDED" and before not in {"SUCCEEDED", "DUPLICATE", "GIVEN_BACK"}:
            if model.status in {"CREATING", "PENDING", "CLOSED", "FAILED"}:
                model.status, model.paid = "PAID", True
                model.shop.pending += model.net
                model.shop.gateway -= model.gross
                model.shop.platform += model.gross - model.net
                assert after.status == "SUCCEEDED"
            else:
                assert after.status == "DUPLICATE"
        elif undecided and model.status in {"CREATING", "PENDING"}:
            self._not_paid(model, before, word, self.now - seen.created_at >= world.LATE)

    @staticmethod
    def _not_paid(model: ModelOrder, before: str, word: str, late: bool) -> None:
        fresh = before == "SUBMITTED"
        ended = word in {"DECLINED", "UNREACHABLE"} or (word == "NOT_FOUND" and fresh and late)
        if word == "REFUSED":
            model.status = "FAILED"
        elif word == "VOIDED":
            model.status = "REVOKED"
        elif fresh and (ended or word in {"ACTION_REQUIRED", "PENDING"}):
            model.status = "PENDING"

    @rule(order_id=open_orders)
    def expires(self, order_id: str) -> None:
        if not order_id:
            return
        model = self.orders[order_id]
        order = self.find(order_id)
        work = checkouts.expire(self.tx, order.merchant_id, order.checkout_id, "over", self.now)
        self.attempt(work)
        if model.status == "PENDING":
            model.status = "CLOSED"

    @rule(minutes=st.integers(-1, 60))
    def time_passes(self, minutes: int) -> None:
        """Also backwards: a server's clock is put right."""
        self.now += minutes * MINUTE

    @rule(
        target=running,
        order_id=open_orders,
        part=st.one_of(st.none(), st.integers(1, 3_500), st.integers(1, 20)),
    )
    def refunds(self, order_id: str, part: int | None) -> tuple[Refund, ModelRefund] | None:
        if not order_id:
            return None
        model = self.orders[order_id]
        shop = model.shop
        exponent = EXPONENTS[model.currency]
        left = model.price - model.held()
        amount, text = left, None
        if part is not None:
            text = f"{part}" if exponent == 0 else f"{part // 100}.{part % 100:02}"
            amount = part if exponent == 0 else part * 10 ** (exponent - 2)
        debit = model.debit_of(amount) if 0 < amount <= left else 0
        fine = (
            model.status == "PAID" and 0 < amount <= left
            and (debit == 0 or shop.pending - debit >= -shop.overdraft)
        )  # fmt: skip
        done = self.attempt(world.refunded(self.tx, self.find(order_id), text, self.now))
        assert (done is not None) == fine
        if done is None:
            return None
        assert (done.amount_minor, done.debit_minor) == (amount, debit)
        made = ModelRefund(amount, debit)
        model.refunds.append(made)
        shop.pending -= debit
        shop.frozen += debit
        return done, made

    @rule(pair=running, word=st.sampled_from(["SUCCEEDED", "REFUSED", "PENDING", "UNKNOWN"]))
    def refund_ends(self, pair: tuple[Refund, ModelRefund] | None, word: str) -> None:
        """A gateway says something of a refund, also of one that ended."""
        if pair is None:
            return
        refund, model = pair
        order = self.orders[refund.order_id]
        shop = order.shop
        self.run(world.refund_said(self.tx, refund, word, self.now))
        if model.status != "PROCESSING" or word not in {"SUCCEEDED", "REFUSED"}:
            return
        shop.frozen -= model.debit
        if word == "SUCCEEDED":
            model.status = "SUCCEEDED"
            shop.gateway += model.debit
            given = sum(r.amount for r in order.refunds if r.status == "SUCCEEDED")
            if given == order.price:
                order.status = "REFUNDED"
        else:
            model.status = "FAILED"
            shop.pending += model.debit

    @invariant()
    def the_books_are_right(self) -> None:
        self.run(world.assert_books(self.tx))

    @invariant()
    def the_balances_are_the_models(self) -> None:
        rows = self.run(
            self.tx.fetch("select merchant_id, pending, frozen, gateway, platform from balances")
        )
        ours = {row[0]: tuple(row)[1:] for row in rows}
        for merchant_id, shop in self.shops.items():
            assert ours.get(merchant_id, (0, 0, 0, 0)) == shop.balances()

    @invariant()
    def the_orders_are_the_models(self) -> None:
        rows = self.run(
            self.tx.fetch(
                "select id, status, paid_at is not null, refund_held_minor, refund_debit_minor"
                " from orders"
            )
        )
        assert {row[0]: tuple(row)[1:] for row in rows} == {
            order_id: (model.status, model.paid, model.held(), model.debits())
            for order_id, model in self.orders.items()
        }
