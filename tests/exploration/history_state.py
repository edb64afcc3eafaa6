"""Merchants, their terms and rates, and the checks after each step of a random history.

``HistoryState`` compares the rows of the database with ``exploration.reference_model``.
"""

import asyncio
import hashlib
from collections.abc import Coroutine
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
from opentill.orders import PaymentAttempt
from support import world
from support.books import assert_books
from support.list_connection import SingleTransactionDb

T = TypeVar("T")
CURRENCIES: Final = sorted(reference_model.EXPONENTS)
SETTLEMENT_CURRENCIES: Final = ("USD", "JPY", "KWD", "HKD")
RATES: Final = {  # for each pair of base and quote, the price of one unit of base in quote.
    ("EUR", "USD"): "1.0837",
    ("JPY", "USD"): "0.006693",
    ("USD", "KWD"): "0.30756",
    ("HKD", "USD"): "0.128",
    ("KWD", "JPY"): "485.12",
    ("EUR", "HKD"): "8.4671",
}
CHOICES: Final = st.integers(0, 10**6)
FEES: Final = (  # each row: method, currency (None: all), rate, fixed part
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


class TrackedRow:
    """A row of the database and its counterpart in the model."""

    # Each kind of row uses only some of these attributes.
    order: Any
    ref: Any
    row: Any
    session_id: Any
    status: Any
    expires_at: Any

    def __init__(self, key: str, shop_id: str, model: Any, **attributes: Any) -> None:
        self.key, self.shop_id, self.model = key, shop_id, model
        self.__dict__.update(attributes)


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
        self.is_consistent = False
        self.shops: dict[str, reference_model.Shop] = {}
        self.orders: list[TrackedRow] = []
        self.attempts: list[PaymentAttempt] = []
        self.refunds: list[TrackedRow] = []
        self.disputes: list[TrackedRow] = []
        self.payouts: list[TrackedRow] = []
        self.requested_adjustments: list[TrackedRow] = []
        self.rates: dict[tuple[str, str], dict[int, Fraction]] = {}
        self.product_ids: dict[tuple[str, str, str], str] = {}
        self.transaction = self.tx.transaction()
        self.run(self.transaction.start())
        self.db: Any = SingleTransactionDb(self.tx)

    # ── running steps ──

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        self.is_consistent = False
        return self.loop.run_until_complete(work)

    def run_step(self, name: str, work: Coroutine[Any, Any, T], *, is_allowed: bool) -> T | None:
        """Run and count a step. If it is not allowed, it must be refused and change nothing."""
        event_name = f"{name}{'' if is_allowed else ' refused'}"
        self.tally[event_name] = self.tally.get(event_name, 0) + 1
        event(event_name)

        async def run_in_transaction() -> T | None:
            digest_before = None if is_allowed else await self.digest_tables()
            try:
                async with self.tx.transaction():
                    result = await work
            except Invalid as error:
                note(f"{name}: {error}")
                assert not is_allowed, f"{name} is refused: {error}"
                assert await self.digest_tables() == digest_before
                return None
            assert is_allowed, f"{name} is not refused"
            return result

        return self.run(run_in_transaction())

    async def digest_tables(self) -> str:
        """Return a digest of all rows of all tables, which one statement reads."""
        if not self.tables:
            names = await self.tx.fetch(
                "select tablename from pg_tables where schemaname = 'public' order by 1"
            )
            type(self).tables = " union all ".join(
                f"select '{n}', coalesce(string_agg(t::text, '|' order by t::text), '') from {n} t"
                for (n,) in names
            )
        rows = await self.tx.fetch(self.tables)
        sorted_rows = sorted(map(tuple, rows))  # parallel queries return rows in any order
        return hashlib.sha256(repr(sorted_rows).encode()).hexdigest()

    @staticmethod
    def pick(items: list[T], choice: int) -> T:
        """Pick an item. Two of three choices count from the end, so that they favour new items."""
        return items[-1 - choice % len(items)] if choice % 3 else items[choice % len(items)]

    def pick_order(self, choice: int) -> TrackedRow:
        return self.pick(self.orders, choice)

    # ── merchants ──

    @initialize(
        shops=st.lists(
            st.tuples(st.sampled_from(SETTLEMENT_CURRENCIES), st.fixed_dictionaries(TERMS)),
            min_size=2, max_size=3,
        ),
        purchases=st.lists(
            st.tuples(CHOICES, st.integers(1, 30_000), st.sampled_from(CURRENCIES)),
            min_size=1, max_size=3,
        ),
    )  # fmt: skip
    def start(self, shops, purchases) -> None:
        for (base, quote), text in RATES.items():
            self._put_rate(base, quote, text, 0)
        for currency, drawn_terms in shops:
            fees = self._drop_unpayable_fees(drawn_terms["fees"], currency)
            terms = {**drawn_terms, "fees": fees}
            plain_terms = {key: value for key, value in terms.items() if key != "fees"}
            created = self.run(
                world.create_merchant(
                    self.tx, settlement_currency=currency, **self._round(plain_terms, currency),
                    fee_changes=tuple(map(self._format_fee, terms["fees"])),
                )
            )  # fmt: skip
            self.shops[created.id] = reference_model.Shop(
                currency, {**terms, **self._round(terms, currency)}
            )
        for choice, price, currency in purchases:
            self._buy(choice, price, currency)

    def _buy(self, choice: int, price: int, currency: str) -> None:
        """Open a session and pay it. ``OrderRules`` implements this."""
        raise NotImplementedError

    @staticmethod
    def _round(terms: dict[str, Any], currency: str) -> dict[str, Any]:
        """Round amounts down to multiples of the smallest amount that can be moved."""
        unit = reference_model.smallest_amount(currency)
        return {
            name: value // unit * unit if name.endswith("_minor") else value
            for name, value in terms.items()
        }

    @staticmethod
    def _drop_unpayable_fees(fees: list[tuple[Any, ...]], currency: str) -> list[tuple[Any, ...]]:
        """Drop fees for all currencies if their fixed part has decimals that ``currency`` lacks."""
        has_no_decimals = reference_model.EXPONENTS[currency] == 0
        return [row for row in fees if not (has_no_decimals and row[1] is None and "." in row[3])]

    @staticmethod
    def _format_fee(row: tuple[Any, ...]) -> str:
        method, currency, rate, fixed = row
        return f"{method}{':' + currency if currency else ''}={rate}+{fixed}"

    @rule(choice=CHOICES, term=st.sampled_from(sorted(TERMS)), data=st.data())
    def change_terms(self, choice: int, term: str, data: st.DataObject) -> None:
        """Change a term. Existing orders keep their terms, except for the overdraft limit."""
        shop_id = list(self.shops)[choice % len(self.shops)]
        shop = self.shops[shop_id]
        value = data.draw(TERMS[term])
        changes: tuple[str, ...] = ()
        new_terms = {}
        if term == "fees":
            value = self._drop_unpayable_fees(value, shop.currency)
            removed = {row[:2] for row in shop.terms["fees"]} - {row[:2] for row in value}
            changes = tuple(f"{m}{':' + c if c else ''}=" for m, c in sorted(removed, key=str))
            changes += tuple(map(self._format_fee, value))
        else:
            value = self._round({term: value}, shop.currency)[term]
            new_terms[term] = Decimal(value) if term.endswith("rate") else value
        work = merchants.change(
            self.tx, shop_id, self.now, who="ann", reason="why", fee_changes=changes, **new_terms
        )
        self.run_step("terms", work, is_allowed=True)
        shop.terms = {**shop.terms, term: value}

    def _put_rate(self, base: str, quote: str, text: str, at: int) -> None:
        self.run(rates.put(self.tx, base, quote, Decimal(text), at))
        self.rates.setdefault((base, quote), {})[at] = Fraction(text)

    @rule(
        pair=st.sampled_from(sorted(RATES)), percent=st.integers(50, 200), is_inverted=st.booleans()
    )
    def change_rates(self, pair: tuple[str, str], percent: int, is_inverted: bool) -> None:
        text = str(Decimal(RATES[pair]) * percent / 100)
        self._put_rate(*(pair[::-1] if is_inverted else pair), text, self.now)

    def _find_rate(self, base: str, quote: str) -> Fraction | None:
        """Return the newest valid rate. Of two rates of the same time, the direct one applies."""
        if base == quote:
            return Fraction(1)
        pairs = ((True, (base, quote)), (False, (quote, base)))
        rates_until_now = [
            (at, is_direct, rate)
            for is_direct, pair in pairs
            for at, rate in self.rates.get(pair, {}).items()
            if at <= self.now
        ]
        if not rates_until_now:
            return None
        _, is_direct, rate = max(rates_until_now)
        return rate if is_direct else self._invert(rate)

    @staticmethod
    def _invert(rate: Fraction) -> Fraction:
        """Return the inverse of a rate, with 12 significant digits."""
        mantissa, exponent = 1 / rate, 0
        while mantissa >= 10:
            mantissa, exponent = mantissa / 10, exponent + 1
        while mantissa < 1:
            mantissa, exponent = mantissa * 10, exponent - 1
        return reference_model.half_up(mantissa * 10**11) * Fraction(10) ** (exponent - 11)

    @rule(hours=st.sampled_from([1, 5, 24, 24, 48, 96, 720]))
    def advance_clock(self, hours: int) -> None:
        self.now += hours * world.HOUR

    @rule()
    def set_clock_back(self) -> None:
        """Set the clock back by a minute."""
        self.now -= 60_000

    # ── checks ──

    @invariant()
    def check_rows(self) -> None:
        """Check the ledger, and compare all rows with the model."""
        self.run(assert_books(self.tx))
        self._compare_rows_with_model()
        self.is_consistent = True

    def _compare_rows_with_model(self) -> None:
        names = ", ".join(reference_model.ACCOUNTS)
        rows = self._fetch_rows(f"select merchant_id, currency, {names} from balances")
        balances = {
            row[0]: (row[1], dict(zip(reference_model.ACCOUNTS, row[2:], strict=True)))
            for row in rows
        }
        for shop_id, shop in self.shops.items():
            empty_balance = (shop.currency, dict.fromkeys(reference_model.ACCOUNTS, 0))
            assert balances.get(shop_id, empty_balance) == (shop.currency, shop.accounts)
        rows = self._fetch_rows(
            "select o.id, o.status, c.status, o.net_settled_minor, paid_at is not null,"
            " refund_held_minor, refund_debit_minor, refunded_minor, charged_back_minor,"
            " reserve_status, reserve_minor, settle_at, due_at"
            " from orders o join checkouts c on c.merchant_id = o.merchant_id and c.order_id = o.id"
            " where o.merchant_id = any($1)",
            list(self.shops),
        )
        assert {row[0]: row[1:] for row in rows} == {
            tracked.key: (
                (o := tracked.model).status, o.session, o.net, o.paid,
                o.accepted_refunds(), o.refund_debits(), o.refunded(), o.chargeback_costs(),
                o.reserve_status, o.reserve, o.due_at if o.awaits_settlement() else None, o.due_at,
            )
            for tracked in self.orders
        }  # fmt: skip
        rows = self._fetch_rows(
            "select id, status, amount_minor, debit_minor, source from refunds"
            " where merchant_id = any($1)",
            list(self.shops),
        )
        assert {row[0]: row[1:] for row in rows} == {
            tracked.key: ((r := tracked.model).status, r.amount, r.debit, r.source)
            for tracked in self.refunds
        }
        rows = self._fetch_rows(
            "select id, status, amount_minor, debit_minor, fee_minor, offset_minor from disputes"
            " where merchant_id = any($1)",
            list(self.shops),
        )
        assert {row[0]: row[1:] for row in rows} == {
            tracked.key: ((d := tracked.model).status, d.amount, d.debit, d.fee, d.offset)
            for tracked in self.disputes
        }
        rows = self._fetch_rows(
            "select id, status, amount_minor, fee_minor from payouts where merchant_id = any($1)",
            list(self.shops),
        )
        assert {row[0]: row[1:] for row in rows} == {
            tracked.key: (tracked.model.status, tracked.model.amount, tracked.model.fee)
            for tracked in self.payouts
        }

    def _fetch_rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.run(self.tx.fetch(sql, *values))]
