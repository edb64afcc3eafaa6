"""Merchants, their terms and rates, and the checks after each step of a random history.

``HistoryState`` compares the rows of the database with ``exploration.reference_model``.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Final, TypeVar

import asyncpg
from hypothesis import event, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from exploration import reference_model
from opentill import merchants, rates
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.orders import PaymentAttempt
from support import world
from support.books import assert_books

T = TypeVar("T")
CURRENCIES: Final = sorted(reference_model.EXPONENTS)
SETTLED_IN: Final = ("USD", "JPY", "KWD", "HKD")
RATES: Final = {  # from, to
    ("EUR", "USD"): "1.0837",
    ("JPY", "USD"): "0.006693",
    ("USD", "KWD"): "0.30756",
    ("HKD", "USD"): "0.128",
    ("KWD", "JPY"): "485.12",
    ("EUR", "HKD"): "8.4671",
}
ANY: Final = st.integers(0, 10**6)
FEES: Final = (  # method, currency or every one, rate, fixed part
    ("CREDIT_CARD", None, "0.029", "1"),
    ("CREDIT_CARD", "USD", "0.034", "0.30"),
    ("CREDIT_CARD", "KWD", "0.01", "0.25"),
    ("ALIPAY", None, "0.007", "0"),
    ("BANK_TRANSFER", "JPY", "0", "40"),
    ("WECHAT_PAY", "EUR", "0.5", "2.22"),
)
RATE_TEXTS: Final = ["0", "0.04", "0.04", "0.0333", "0.5", "0.999999"]
TERMS: Final = {
    "platform_fee_rate": st.sampled_from(RATE_TEXTS),
    "refund_fee_policy": st.sampled_from(["KEPT", "RETURNED"]),
    "overdraft_minor": st.sampled_from([0, 50, 10_000, 10**9]),
    "settlement_delay_days": st.sampled_from([0, 1, 2, 5]),
    "settlement_calendar": st.sampled_from(["EVERY_DAY", "WEEKDAYS"]),
    "reserve_rate": st.sampled_from(["0", "0.1", "0.1", "0.999"]),
    "reserve_days": st.sampled_from([0, 3, 30]),
    "dispute_fee_minor": st.sampled_from([0, 1500, 30]),
    "payout_minimum_minor": st.sampled_from([0, 0, 1000]),
    "fees": st.lists(st.sampled_from(FEES), unique=True, max_size=4),
}


class OneConnection:
    """A pool with one connection in one transaction, for jobs that need a pool."""

    def __init__(self, tx: asyncpg.Connection) -> None:
        self.tx, self.lock = tx, asyncio.Lock()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Tx]:
        async with self.lock:
            yield self.tx

    async def run(self, step: Callable[[Tx], Awaitable[T]]) -> T:
        async with self.lock, self.tx.transaction():
            return await step(self.tx)


class Tracked:
    """A row of the database and its counterpart in the model."""

    # Set for some kinds of rows.
    order: Any
    ref: Any
    row: Any
    session: Any
    status: Any
    until: Any

    def __init__(self, key: str, shop_id: str, model: Any, **more: Any) -> None:
        self.key, self.shop_id, self.model = key, shop_id, model
        self.__dict__.update(more)


class HistoryState(RuleBasedStateMachine):
    """Several merchants at once; the database is rolled back after each history."""

    url: ClassVar[str] = ""
    loop: ClassVar[asyncio.AbstractEventLoop]
    tx: ClassVar[asyncpg.Connection]
    tally: ClassVar[dict[str, int]] = {}
    tables: ClassVar[str] = ""

    def __init__(self) -> None:
        super().__init__()
        self.now = world.NOW
        self.sound = False
        self.shops: dict[str, reference_model.Shop] = {}
        self.orders: list[Tracked] = []
        self.attempts: list[PaymentAttempt] = []
        self.refunds: list[Tracked] = []
        self.disputes: list[Tracked] = []
        self.payouts: list[Tracked] = []
        self.waiting: list[Tracked] = []
        self.quotes: dict[tuple[str, str], dict[int, Fraction]] = {}
        self.products: dict[tuple[str, str, str], str] = {}
        self.transaction = self.tx.transaction()
        self.run(self.transaction.start())
        self.db: Any = OneConnection(self.tx)

    # ── steps ──

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        self.sound = False
        return self.loop.run_until_complete(work)

    def take(self, name: str, work: Coroutine[Any, Any, T], *, fine: bool) -> T | None:
        """Take a step; if it is not ``fine``, it must be refused and change nothing."""
        what = f"{name}{'' if fine else ' refused'}"
        self.tally[what] = self.tally.get(what, 0) + 1
        event(what)

        async def inside() -> T | None:
            before = None if fine else await self.dump()
            try:
                async with self.tx.transaction():
                    done = await work
            except Invalid as refused:
                note(f"{name}: {refused}")
                assert not fine, f"{name} is refused: {refused}"
                assert await self.dump() == before
                return None
            assert fine, f"{name} is not refused"
            return done

        return self.run(inside())

    async def dump(self) -> str:
        """Return a digest of all rows of all tables, by one statement."""
        if not self.tables:
            names = await self.tx.fetch(
                "select tablename from pg_tables where schemaname = 'public' order by 1"
            )
            type(self).tables = " union all ".join(
                f"select '{n}', coalesce(string_agg(t::text, '|' order by t::text), '') from {n} t"
                for (n,) in names
            )
        rows = await self.tx.fetch(self.tables)
        ordered = sorted(map(tuple, rows))  # the tables may be read in any order
        return hashlib.sha256(repr(ordered).encode()).hexdigest()

    @staticmethod
    def pick(items: list[T], which: int) -> T:
        """Pick an item, most often one of the latest."""
        return items[-1 - which % len(items)] if which % 3 else items[which % len(items)]

    def order_of(self, which: int) -> Tracked:
        return self.pick(self.orders, which)

    # ── merchants ──

    @initialize(
        shops=st.lists(
            st.tuples(st.sampled_from(SETTLED_IN), st.fixed_dictionaries(TERMS)),
            min_size=2, max_size=3,
        ),
        bought=st.lists(
            st.tuples(ANY, st.integers(1, 30_000), st.sampled_from(CURRENCIES)),
            min_size=1, max_size=3,
        ),
    )  # fmt: skip
    def begins(self, shops, bought) -> None:
        for (base, quote), text in RATES.items():
            self._rate(base, quote, text, 0)
        for currency, drawn in shops:
            terms = {**drawn, "fees": self._fitting(drawn["fees"], currency)}
            plain_terms = {key: value for key, value in terms.items() if key != "fees"}
            created = self.run(
                world.create_merchant(
                    self.tx, settlement_currency=currency, **self._round(plain_terms, currency),
                    fee_changes=tuple(map(self._fee, terms["fees"])),
                )
            )  # fmt: skip
            self.shops[created.id] = reference_model.Shop(
                currency, {**terms, **self._round(terms, currency)}
            )
        for which, price, currency in bought:
            self._buys(which, price, currency)

    @staticmethod
    def _round(terms: dict[str, Any], currency: str) -> dict[str, Any]:
        """Round amounts so that two decimals can express them."""
        unit = reference_model.grain(currency)
        return {k: v // unit * unit if k.endswith("_minor") else v for k, v in terms.items()}

    @staticmethod
    def _fitting(fees: list[tuple[Any, ...]], currency: str) -> list[tuple[Any, ...]]:
        whole = reference_model.EXPONENTS[currency] == 0
        return [row for row in fees if not (whole and row[1] is None and "." in row[3])]

    @staticmethod
    def _fee(row: tuple[Any, ...]) -> str:
        method, currency, rate, fixed = row
        return f"{method}{':' + currency if currency else ''}={rate}+{fixed}"

    @rule(which=ANY, term=st.sampled_from(sorted(TERMS)), data=st.data())
    def terms_change(self, which: int, term: str, data: st.DataObject) -> None:
        """New terms apply to new orders only, except overdraft and payout minimum."""
        shop_id = list(self.shops)[which % len(self.shops)]
        shop = self.shops[shop_id]
        value = data.draw(TERMS[term])
        changes: tuple[str, ...] = ()
        new_terms = {}
        if term == "fees":
            value = self._fitting(value, shop.currency)
            gone = {row[:2] for row in shop.terms["fees"]} - {row[:2] for row in value}
            changes = tuple(f"{m}{':' + c if c else ''}=" for m, c in sorted(gone, key=str))
            changes += tuple(map(self._fee, value))
        else:
            value = self._round({term: value}, shop.currency)[term]
            new_terms[term] = Decimal(value) if term.endswith("rate") else value
        work = merchants.change(
            self.tx, shop_id, self.now, who="ann", reason="why", fee_changes=changes, **new_terms
        )
        self.take("terms", work, fine=True)
        shop.terms = {**shop.terms, term: value}

    def _rate(self, base: str, quote: str, text: str, at: int) -> None:
        self.run(rates.put(self.tx, base, quote, Decimal(text), at))
        self.quotes.setdefault((base, quote), {})[at] = Fraction(text)

    @rule(pair=st.sampled_from(sorted(RATES)), percent=st.integers(50, 200), turned=st.booleans())
    def rates_change(self, pair: tuple[str, str], percent: int, turned: bool) -> None:
        text = str(Decimal(RATES[pair]) * percent / 100)
        self._rate(*(pair[::-1] if turned else pair), text, self.now)

    def _worth(self, base: str, quote: str) -> Fraction | None:
        """Return the current rate: the newest one, a direct one before an inverted one."""
        if base == quote:
            return Fraction(1)
        pairs = ((1, (base, quote)), (0, (quote, base)))
        rates_until_now = [
            (at, straight, rate)
            for straight, pair in pairs
            for at, rate in self.quotes.get(pair, {}).items()
            if at <= self.now
        ]
        if not rates_until_now:
            return None
        _, straight, rate = max(rates_until_now)
        return rate if straight else self._turned(rate)

    @staticmethod
    def _turned(rate: Fraction) -> Fraction:
        """Return the inverse of a rate, with 12 significant digits."""
        whole, places = 1 / rate, 0
        while whole >= 10:
            whole, places = whole / 10, places + 1
        while whole < 1:
            whole, places = whole * 10, places - 1
        return reference_model.half_up(whole * 10**11) * Fraction(10) ** (places - 11)

    @rule(hours=st.sampled_from([1, 5, 24, 24, 48, 96, 720]))
    def time_passes(self, hours: int) -> None:
        self.now += hours * world.HOUR

    @rule()
    def the_clock_is_put_right(self) -> None:
        """Set the clock back by a minute."""
        self.now -= 60_000

    # ── checks ──

    @invariant()
    def all_is_well(self) -> None:
        """Check the books, and compare all rows with the model."""
        self.run(assert_books(self.tx))
        self._as_the_model_has_it()
        self.sound = True

    def _as_the_model_has_it(self) -> None:
        names = ", ".join(reference_model.ACCOUNTS)
        rows = self._rows(f"select merchant_id, currency, {names} from balances")
        ours = {
            row[0]: (row[1], dict(zip(reference_model.ACCOUNTS, row[2:], strict=True)))
            for row in rows
        }
        for shop_id, shop in self.shops.items():
            empty = (shop.currency, dict.fromkeys(reference_model.ACCOUNTS, 0))
            assert ours.get(shop_id, empty) == (shop.currency, shop.accounts)
        rows = self._rows(
            "select o.id, o.status, c.status, o.net_settled_minor, paid_at is not null,"
            " refund_held_minor, refund_debit_minor, refunded_minor, charged_back_minor,"
            " reserve_status, reserve_minor, settle_at, due_at"
            " from orders o join checkouts c on c.merchant_id = o.merchant_id and c.order_id = o.id"
            " where o.merchant_id = any($1)",
            list(self.shops),
        )
        assert {row[0]: row[1:] for row in rows} == {
            tracked.key: (
                (o := tracked.model).status, o.session, o.net, o.paid, o.held(), o.debits(),
                o.refunded(),
                o.lost(), o.reserve_status, o.reserve, o.due_at if o.waits() else None, o.due_at,
            )
            for tracked in self.orders
        }  # fmt: skip
        rows = self._rows(
            "select id, status, amount_minor, debit_minor, source from refunds"
            " where merchant_id = any($1)",
            list(self.shops),
        )
        assert {row[0]: row[1:] for row in rows} == {
            tracked.key: ((r := tracked.model).status, r.amount, r.debit, r.source)
            for tracked in self.refunds
        }
        rows = self._rows(
            "select id, status, amount_minor, debit_minor, fee_minor, offset_minor from disputes"
            " where merchant_id = any($1)",
            list(self.shops),
        )
        assert {row[0]: row[1:] for row in rows} == {
            tracked.key: ((d := tracked.model).status, d.amount, d.debit, d.fee, d.offset)
            for tracked in self.disputes
        }
        rows = self._rows(
            "select id, status, amount_minor, fee_minor from payouts where merchant_id = any($1)",
            list(self.shops),
        )
        assert {row[0]: row[1:] for row in rows} == {
            tracked.key: (tracked.model.status, tracked.model.amount, tracked.model.fee)
            for tracked in self.payouts
        }

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.run(self.tx.fetch(sql, *values))]
