"""Random lives of merchants, orders, refunds, disputes and payouts, driven by Hypothesis.

Every event of every table of contract.md#transitions through the services, against
``exploration.reference_model``. After each step the books are right and are the model's; a step
that the model refuses is refused, and changes nothing. When a life is over everything is brought to
its end and reckoned up.
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
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from exploration import reference_model
from opentill import adjustments, checkouts, disputes, merchants, orders, payouts, rates
from opentill.adjustments import Ask
from opentill.checkouts.jobs import expire_due
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.gateways.model import RefundOutcome
from opentill.orders import PaymentAttempt, settlement
from opentill.orders import service as order_service
from opentill.payouts.service import Wanted
from support import world
from support.world import fresh

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
WAYS: Final = {  # what a gateway says of a dispute, and the way that leads there
    "OPENED": ("OPEN",),
    "WON": ("OPEN", "WON"),
    "LOST": ("OPEN", "LOST"),
    "RECOVERED": ("OPEN", "LOST", "RECOVERED"),
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
SUM: Final = """
    select {} from entries e
    left join refunds r on e.source_type = 'refund' and r.id = e.source_id
    left join disputes d on e.source_type = 'dispute' and d.id = e.source_id
    where e.source_type in ('order', 'refund', 'dispute')
        and coalesce(r.order_id, d.order_id, e.source_id) = $1
""".format(
    ", ".join(
        f"coalesce(sum((to_account = '{name}')::int * e.amount_minor"
        f" - (from_account = '{name}')::int * e.amount_minor), 0)::bigint as {name}"
        for name in reference_model.ACCOUNTS
    ),
)


class OneConnection:
    """A pool that lends one connection inside one transaction, for jobs that want a pool."""

    def __init__(self, tx: asyncpg.Connection) -> None:
        self.tx, self.lock = tx, asyncio.Lock()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Tx]:
        async with self.lock:
            yield self.tx

    async def run(self, step: Callable[[Tx], Awaitable[T]]) -> T:
        async with self.lock, self.tx.transaction():
            return await step(self.tx)


class Kept:
    """Something of the database and what the model has of it."""

    def __init__(self, key: str, shop_id: str, of: Any, **more: Any) -> None:
        self.key, self.shop_id, self.of = key, shop_id, of
        self.__dict__.update(more)


class Lives(RuleBasedStateMachine):
    """Several merchants at once; the database is rolled back after each life."""

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
        self.orders: list[Kept] = []
        self.attempts: list[PaymentAttempt] = []
        self.refunds: list[Kept] = []
        self.disputes: list[Kept] = []
        self.payouts: list[Kept] = []
        self.waiting: list[Kept] = []
        self.quotes: dict[tuple[str, str], dict[int, Fraction]] = {}
        self.products: dict[tuple[str, str, str], str] = {}
        self.transaction = self.tx.transaction()
        self.run(self.transaction.start())
        self.db: Any = OneConnection(self.tx)

    # ── doing ──

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        self.sound = False
        return self.loop.run_until_complete(work)

    def take(self, name: str, work: Coroutine[Any, Any, T], *, fine: bool) -> T | None:
        """Take a step; one that is not ``fine`` is refused and leaves the database as it was."""
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
        """Return what all rows of all tables come to, in one question."""
        if not self.tables:
            names = await self.tx.fetch(
                "select tablename from pg_tables where schemaname = 'public' order by 1"
            )
            type(self).tables = " union all ".join(
                f"select '{n}', coalesce(string_agg(t::text, '|' order by t::text), '') from {n} t"
                for (n,) in names
            )
        rows = await self.tx.fetch(self.tables)
        found = sorted(map(tuple, rows))  # the tables may be read in any order
        return hashlib.sha256(repr(found).encode()).hexdigest()

    def teardown(self) -> None:
        try:
            if self.sound:
                self.closing_time()
        finally:
            self.loop.run_until_complete(self.transaction.rollback())

    @staticmethod
    def pick(kept: list[T], which: int) -> T:
        """Pick one, the latest most often."""
        return kept[-1 - which % len(kept)] if which % 3 else kept[which % len(kept)]

    def order_of(self, which: int) -> Kept:
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
            given = {key: value for key, value in terms.items() if key != "fees"}
            made = self.run(
                world.merchant(
                    self.tx, settlement_currency=currency, **self._round(given, currency),
                    fee_changes=tuple(map(self._fee, terms["fees"])),
                )
            )  # fmt: skip
            self.shops[made.id] = reference_model.Shop(
                currency, {**terms, **self._round(terms, currency)}
            )
        for which, price, currency in bought:
            self._buys(which, price, currency)

    @staticmethod
    def _round(terms: dict[str, Any], currency: str) -> dict[str, Any]:
        """Make amounts such as can be written with two decimals."""
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
        """New terms are for orders to come, but for overdraft and payout minimum."""
        shop_id = list(self.shops)[which % len(self.shops)]
        shop = self.shops[shop_id]
        value = data.draw(TERMS[term])
        changes: tuple[str, ...] = ()
        given = {}
        if term == "fees":
            value = self._fitting(value, shop.currency)
            gone = {row[:2] for row in shop.terms["fees"]} - {row[:2] for row in value}
            changes = tuple(f"{m}{':' + c if c else ''}=" for m, c in sorted(gone, key=str))
            changes += tuple(map(self._fee, value))
        else:
            value = self._round({term: value}, shop.currency)[term]
            given[term] = Decimal(value) if term.endswith("rate") else value
        work = merchants.change(
            self.tx, shop_id, self.now, who="ann", reason="why", fee_changes=changes, **given
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
        """The rate that counts now: the newest, as given before turned round."""
        if base == quote:
            return Fraction(1)
        pairs = ((1, (base, quote)), (0, (quote, base)))
        found = [
            (at, straight, rate)
            for straight, pair in pairs
            for at, rate in self.quotes.get(pair, {}).items()
            if at <= self.now
        ]
        if not found:
            return None
        _, straight, rate = max(found)
        return rate if straight else self._turned(rate)

    @staticmethod
    def _turned(rate: Fraction) -> Fraction:
        """One over a rate, with 12 significant digits."""
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
        """A minute back."""
        self.now -= 60_000

    # ── orders ──

    def _opens(self, which: int, price: int, currency: str) -> Kept | None:
        shop_id = list(self.shops)[which % len(self.shops)]
        shop = self.shops[shop_id]
        exponent = reference_model.EXPONENTS[currency]
        text = f"{price}.00" if exponent == 0 else f"{price // 100}.{price % 100:02}"
        rate, usd = self._worth(currency, shop.currency), self._worth(currency, "USD")
        made = None
        if rate is not None and usd is not None:
            made = reference_model.Order(
                shop, reference_model.minor(text, currency), currency, rate
            )
        key = (shop_id, text, currency)
        if key not in self.products:
            self.products[key] = self.run(world.product(self.tx, *key)).id
        work = world.session(self.tx, shop_id, self.products[key], self.now)
        opened = self.take("open", work, fine=made is not None and made.gross > 0)
        if opened is None:
            return None
        kept = Kept(opened.order_id, shop_id, made, session=opened.id, until=opened.expires_at)
        self.orders.append(kept)
        return kept

    @rule(which=ANY, price=st.integers(1, 30_000), currency=st.sampled_from(CURRENCIES))
    def opens(self, which: int, price: int, currency: str) -> None:
        self._opens(which, price, currency)

    @rule(which=ANY, price=st.integers(1, 30_000), currency=st.sampled_from(CURRENCIES))
    def buys(self, which: int, price: int, currency: str) -> None:
        self._buys(which, price, currency)

    @rule(
        which=ANY,
        price=st.integers(1, 30_000),
        word=st.sampled_from(["ACTION_REQUIRED", "DECLINED", "REFUSED", "VOIDED"]),
    )
    def tries_to_buy(self, which: int, price: int, word: str) -> None:
        self._buys(which, price, "USD", word)

    def _buys(self, which: int, price: int, currency: str, word: str = "SUCCEEDED") -> None:
        kept = self._opens(which, price, currency)
        if kept is not None:
            self._submits(kept)
            self._says(len(self.attempts) - 1, word, None)

    def find(self, kept: Kept) -> orders.Order:
        return self.run(orders.find(self.tx, kept.shop_id, kept.key))

    def _submits(self, kept: Kept) -> None:
        work = world.submitted(self.tx, self.find(kept), self.now)
        done = self.take("submit", work, fine=kept.of.submit())
        if done is not None:
            self.attempts.append(done)

    @precondition(lambda self: self.orders)
    @rule(which=ANY)
    def submits(self, which: int) -> None:
        self._submits(self.order_of(which))

    @precondition(lambda self: self.attempts)
    @rule(
        which=ANY,
        word=st.sampled_from([
            "SUCCEEDED", "SUCCEEDED", "ACTION_REQUIRED", "PENDING", "DECLINED", "REFUSED",
            "VOIDED", "UNKNOWN", "NOT_FOUND", "UNREACHABLE",
        ]),
        method=st.sampled_from([None, "ALIPAY", "WECHAT_PAY"]),
        wrong=st.sampled_from([False, False, False, True]),
    )  # fmt: skip
    def says(self, which: int, word: str, method: str | None, wrong: bool) -> None:
        """A gateway says something of any attempt there ever was."""
        place = self.attempts.index(self.pick(self.attempts, which))
        self._says(place, word, method, wrong)

    def _says(self, place: int, word: str, method: str | None, wrong: bool = False) -> None:
        seen = self.attempts[place]
        kept = next(kept for kept in self.orders if kept.key == seen.order_id)
        order, before = kept.of, seen.status
        what: dict[str, Any] = {}
        if word == "SUCCEEDED":
            what["amount"] = Money(seen.amount_minor + wrong, seen.currency)
            what["method"] = method
        after = self.take(
            f"gateway: {word}", world.said(self.tx, seen, word, self.now, **what), fine=True
        )
        assert after is not None
        self.attempts[place] = after
        if word == "SUCCEEDED":
            if before in {"SUCCEEDED", "DUPLICATE", "GIVEN_BACK"} or wrong:
                assert after.status == before
                return
            paid = order.confirm(method or seen.method, self.now)
            assert after.status == ("SUCCEEDED" if paid else "DUPLICATE")
        elif before in reference_model.UNDECIDED and order.status in {"CREATING", "PENDING"}:
            self._not_paid(order, before, word, self.now - seen.created_at >= world.LATE)

    @staticmethod
    def _not_paid(order: reference_model.Order, before: str, word: str, late: bool) -> None:
        fresh = before == "SUBMITTED"
        ended = word in {"DECLINED", "UNREACHABLE"} or (word == "NOT_FOUND" and fresh and late)
        if word in {"REFUSED", "VOIDED"}:
            order.end({"REFUSED": "FAILED", "VOIDED": "REVOKED"}[word])
        elif fresh and (ended or word in {"ACTION_REQUIRED", "PENDING"}):
            order.status = "PENDING"

    @precondition(lambda self: any(a.status == "DUPLICATE" for a in self.attempts))
    @rule(which=ANY, word=st.sampled_from(["SUCCEEDED", "REFUSED", "UNKNOWN", "PENDING"]))
    def a_duplicate_is_given_back(self, which: int, word: str) -> None:
        """It posts nothing."""
        found = [n for n, a in enumerate(self.attempts) if a.status == "DUPLICATE"]
        seen = self.attempts[self.pick(found, which)]
        outcome = RefundOutcome(status=word)
        self.run(order_service.given_back(self.tx, seen, outcome, self.now))
        after = self.run(orders.find_attempt(self.tx, seen.merchant_id, seen.id))
        assert after.status == ("GIVEN_BACK" if word == "SUCCEEDED" else "DUPLICATE")
        self.attempts[self.attempts.index(seen)] = after

    @precondition(lambda self: self.orders)
    @rule(which=ANY, how=st.sampled_from(["confirm", "confirm", "revoke"]))
    def the_operator_says(self, which: int, how: str) -> None:
        kept = self.order_of(which)
        if how == "confirm":
            work = orders.confirm_manually(self.tx, kept.shop_id, kept.key, "ann", "why", self.now)
            self.take("confirm", work, fine=kept.of.confirm("BANK_TRANSFER", self.now))
        else:
            work = orders.revoke_manually(self.tx, kept.shop_id, kept.key, "ann", "why", self.now)
            self.take("revoke", work, fine=kept.of.end("REVOKED"))

    @precondition(lambda self: self.orders)
    @rule(which=ANY)
    def expires(self, which: int) -> None:
        """Expiring what is over already is harmless."""
        kept = self.order_of(which)
        fine = kept.of.end("CLOSED") or kept.of.session == "EXPIRED"
        work = checkouts.expire(self.tx, kept.shop_id, kept.session, "over", self.now)
        self.take("expire", work, fine=fine)

    @rule()
    def sessions_grow_old(self) -> None:
        self.run(expire_due(self.db, self.now))
        for kept in self.orders:
            if kept.until <= self.now:
                kept.of.end("CLOSED")

    # ── refunds ──

    @precondition(lambda self: self.orders)
    @rule(
        which=ANY,
        part=st.one_of(st.none(), st.integers(1, 100), st.integers(1, 99), st.just(0)),
        cents=st.booleans(),
    )
    def refunds_(self, which: int, part: int | None, cents: bool) -> None:
        """``part`` is hundredths of the order, or just so many cents or units."""
        kept = self.order_of(which)
        order = kept.of
        text = None
        if part is not None:
            unit = reference_model.grain(order.currency)
            amount = part * unit if cents else order.price * part // 100 // unit * unit
            exponent = reference_model.EXPONENTS[order.currency]
            cents_in_all = amount * 100 // 10**exponent
            text = f"{cents_in_all // 100}.{cents_in_all % 100:02}"
        made = order.refund(None if text is None else reference_model.minor(text, order.currency))
        work = world.refunded(self.tx, self.find(kept), text, self.now)
        done = self.take("refund", work, fine=made is not None)
        if done is None or made is None:
            return
        assert (done.amount_minor, done.debit_minor) == (made.amount, made.debit)
        self.refunds.append(Kept(done.id, kept.shop_id, made, order=order, row=done))

    @precondition(lambda self: self.refunds)
    @rule(which=ANY, word=st.sampled_from(["SUCCEEDED", "SUCCEEDED", "REFUSED", "PENDING"]))
    def refund_ends(self, which: int, word: str) -> None:
        """A gateway says something of a refund, also of one that ended."""
        self._refund_ends(self.pick(self.refunds, which), word)

    def _refund_ends(self, kept: Kept, word: str) -> None:
        self.take(
            f"refund: {word}", world.refund_said(self.tx, kept.row, word, self.now), fine=True
        )
        kept.order.refund_ends(kept.of, word)

    # ── settlement ──

    @precondition(lambda self: self.orders)
    @rule(which=ANY)
    def one_settles(self, which: int) -> None:
        """Due or not."""
        kept = self.order_of(which)
        fine = kept.of.settle(self.now)
        work = orders.settle_one(self.tx, kept.shop_id, kept.key, self.now, "why")
        self.take("settle", work, fine=fine)

    @rule(which=ANY)
    def all_of_one_settle_early(self, which: int) -> None:
        shop_id = list(self.shops)[which % len(self.shops)]
        work = settlement.settle_batch(self.tx, shop_id, self.now, "why", early=True)
        self.take("settle early", work, fine=True)
        for kept in self.orders:
            if kept.shop_id == shop_id:
                kept.of.settle(self.now)

    @rule()
    def what_is_due_settles(self) -> None:
        self.take("settle due", settlement.settle_due(self.db, self.now), fine=True)
        for kept in self.orders:
            if kept.of.paid and kept.of.due_at <= self.now:
                kept.of.settle(self.now)

    @rule()
    def reserves_are_released(self) -> None:
        done = [kept.of.release(self.now) for kept in self.orders]
        name = "release" if any(done) else "release nothing"
        self.take(name, settlement.release_reserves(self.db, self.now), fine=True)

    # ── disputes ──

    @precondition(lambda self: any(kept.of.paid for kept in self.orders))
    @rule(
        which=ANY,
        word=st.sampled_from(["OPENED", "OPENED", "OPENED", *WAYS]),
        percent=st.sampled_from([None, None, 100, 40, 1, 200]),
    )
    def a_gateway_disputes(self, which: int, word: str, percent: int | None) -> None:
        """It may name a part, more than there is, or say how it ended before that it began."""
        kept = self.pick([kept for kept in self.orders if kept.of.paid], which)
        order = kept.of
        named = order.price - order.held()
        if percent is not None:
            unit = reference_model.grain(order.currency)
            named = max(unit, order.price * percent // 100 // unit * unit)
        ref = f"d-{len(self.disputes)}"
        fresh = self.find(kept)
        work = world.dispute_said(self.tx, fresh, word, self.now, ref=ref, minor=named)
        made = order.open_dispute(named)
        done = self.take(f"dispute: {word}{'' if made else ' ignored'}", work, fine=True)
        assert (done is None) == (made is None)
        if done is None or made is None:
            return
        self.disputes.append(Kept(done.id, kept.shop_id, made, order=kept, ref=ref))
        self._on(self.disputes[-1], word)

    def _on(self, kept: Kept, word: str) -> None:
        """Take the steps from where a dispute stands to what is heard of it."""
        way = WAYS[word]
        if kept.of.status in way:
            for status in way[way.index(kept.of.status) + 1 :]:
                assert kept.order.of.decide(kept.of, status.lower(), self.now)

    @precondition(lambda self: any(kept.ref for kept in self.disputes))
    @rule(which=ANY, word=st.sampled_from(sorted(WAYS)))
    def a_gateway_goes_on(self, which: int, word: str) -> None:
        """Repeated news and news against what was heard change nothing."""
        kept = self.pick([kept for kept in self.disputes if kept.ref], which)
        work = world.dispute_said(
            self.tx, self.find(kept.order), word, self.now, ref=kept.ref, minor=kept.of.amount
        )
        self.take(f"dispute: {word} {kept.of.status}", work, fine=True)
        self._on(kept, word)

    @precondition(lambda self: self.orders)
    @rule(which=ANY, percent=st.sampled_from([None, 100, 40, 0, 101]))
    def the_operator_disputes(self, which: int, percent: int | None) -> None:
        kept = self.order_of(which)
        order, left = kept.of, kept.of.price - kept.of.held()
        named = None
        if percent is not None:
            unit = reference_model.grain(order.currency)
            named = left * percent // 100 // unit * unit + (unit if percent > 100 else 0)
        made = order.open_dispute(named) if named is None or 0 < named <= left else None
        work = disputes.open_manually(
            self.tx, kept.shop_id, kept.key,
            who="ann", reason="why", now=self.now, amount_minor=named,
        )  # fmt: skip
        done = self.take("dispute by hand", work, fine=made is not None)
        if done is not None:
            self.disputes.append(Kept(done.id, kept.shop_id, made, order=kept, ref=None))

    @precondition(lambda self: self.disputes)
    @rule(which=ANY, event=st.sampled_from(["won", "lost", "lost", "recovered", "recovered"]))
    def the_operator_decides(self, which: int, event: str) -> None:
        self._decides(self.pick(self.disputes, which), event)

    def _decides(self, kept: Kept, event: str) -> None:
        fine = kept.order.of.decide(kept.of, event, self.now)
        work = disputes.decide(
            self.tx, kept.shop_id, kept.key, event, who="ann", reason="why", now=self.now
        )
        self.take(f"dispute {event} by hand", work, fine=fine)

    # ── payouts and the operator's movements ──

    def _amount(self, shop: reference_model.Shop, account: str, percent: int) -> int:
        """So much of what an account has; a whole unit where that is nothing."""
        unit = reference_model.grain(shop.currency)
        has = shop.frozen_manually if account == "frozen" else abs(shop.accounts[account])
        return max(unit, has * percent // 100 // unit * unit)

    @rule(
        which=ANY,
        percent=st.sampled_from([None, 10, 60, 100, 120]),
        fee=st.sampled_from([0, 0, 100]),
    )
    def pays_out(self, which: int, percent: int | None, fee: int) -> None:
        shop_id = list(self.shops)[which % len(self.shops)]
        shop = self.shops[shop_id]
        amount = None if percent is None else self._amount(shop, "available", percent)
        made = shop.pay_out(amount, fee)
        wanted = Wanted(
            amount_minor=amount, fee_minor=fee, reference=fresh(), reason="why", by="ann"
        )
        work = payouts.create(self.tx, shop_id, wanted, None, self.now)
        done = self.take("payout", work, fine=made is not None)
        if done is not None and made is not None:
            assert done.amount_minor == made.amount
            self.payouts.append(Kept(done.id, shop_id, made))

    @precondition(lambda self: self.payouts)
    @rule(which=ANY, event=st.sampled_from(["paid", "failed", "failed"]))
    def a_payout_ends(self, which: int, event: str) -> None:
        self._payout_ends(self.pick(self.payouts, which), event)

    def _payout_ends(self, kept: Kept, event: str) -> None:
        fine = self.shops[kept.shop_id].payout_ends(kept.of, event)
        if event == "paid":
            work = payouts.pay(self.tx, kept.key, "TRN", "why", "ann", self.now)
        else:
            work = payouts.fail(self.tx, kept.key, "why", "ann", self.now)
        self.take(f"payout {event}", work, fine=fine)

    @rule(
        which=ANY,
        kind=st.sampled_from([
            "freeze", "unfreeze", "unfreeze", "recharge", "fee", "correct", "correct",
        ]),
        percent=st.sampled_from([-120, -100, -30, 10, 50, 100, 101]),
        account=st.sampled_from(["available", "pending"]),
        waits=st.sampled_from([False, False, True]),
    )  # fmt: skip
    def an_operator_moves(
        self, which: int, kind: str, percent: int, account: str, waits: bool
    ) -> None:
        frozen = [key for key, shop in self.shops.items() if shop.frozen_manually]
        those = frozen if kind == "unfreeze" and frozen else list(self.shops)
        shop_id = those[which % len(those)]
        shop = self.shops[shop_id]
        own = [kept.key for kept in self.orders if kept.shop_id == shop_id]
        account = account if kind == "correct" else "available"
        source = "frozen" if kind == "unfreeze" else account
        amount = self._amount(shop, source, abs(percent))
        if kind == "recharge":
            amount = reference_model.minor(str(abs(percent)), shop.currency)
        amount = -amount if kind == "correct" and percent < 0 else amount
        about = self.pick(own, which) if kind == "correct" and own else None
        asked = Ask(
            kind=kind, amount_minor=amount, reference=fresh(), reason="why", by="ann",
            account=account, order_id=about,
        )  # fmt: skip
        work = adjustments.ask(self.tx, shop_id, asked, Decimal(0) if waits else None, self.now)
        possible = kind != "correct" or about is not None
        fine = possible and (waits or shop.adjust(kind, amount, account))
        done = self.take(f"{kind}{' waits' if waits else ''}", work, fine=fine)
        if done is not None and waits:
            self.waiting.append(Kept(done.id, shop_id, [kind, amount, account], status="WAITING"))

    @precondition(lambda self: self.waiting)
    @rule(which=ANY, approved=st.booleans(), by=st.sampled_from(["bob", "bob", "ann"]))
    def a_second_operator_decides(self, which: int, approved: bool, by: str) -> None:
        kept = self.pick(self.waiting, which)
        fine = kept.status == "WAITING" and not (approved and by == "ann")
        if approved:
            fine = fine and self.shops[kept.shop_id].adjust(*kept.of)
            work = adjustments.approve(self.tx, kept.key, by, self.now)
        else:
            work = adjustments.reject(self.tx, kept.key, by, "why", self.now)
        self.take("approve" if approved else "reject", work, fine=fine)
        if fine:
            kept.status = "DONE" if approved else "REJECTED"

    # ── what must hold ──

    @invariant()
    def all_is_well(self) -> None:
        """The books are right, and everything is as the model has it."""
        self.run(world.assert_books(self.tx))
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
            " from orders o join checkouts c on c.order_id = o.id where o.merchant_id = any($1)",
            list(self.shops),
        )
        assert {row[0]: row[1:] for row in rows} == {
            kept.key: (
                (o := kept.of).status, o.session, o.net, o.paid, o.held(), o.debits(), o.given(),
                o.lost(), o.reserve_status, o.reserve, o.due_at if o.waits() else None, o.due_at,
            )
            for kept in self.orders
        }  # fmt: skip
        rows = self._rows(
            "select id, status, amount_minor, debit_minor, fee_minor, offset_minor from disputes"
            " where merchant_id = any($1)",
            list(self.shops),
        )
        assert {row[0]: row[1:] for row in rows} == {
            kept.key: ((d := kept.of).status, d.amount, d.debit, d.fee, d.offset)
            for kept in self.disputes
        }
        rows = self._rows(
            "select id, status, amount_minor, fee_minor from payouts where merchant_id = any($1)",
            list(self.shops),
        )
        assert {row[0]: row[1:] for row in rows} == {
            kept.key: (kept.of.status, kept.of.amount, kept.of.fee) for kept in self.payouts
        }

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.run(self.tx.fetch(sql, *values))]

    def closing_time(self) -> None:
        """End all that is on its way, let years pass, and reckon up."""
        for number, refund in enumerate(self.refunds):
            self._refund_ends(refund, "REFUSED" if number % 3 == 2 else "SUCCEEDED")
        for number, dispute in enumerate(self.disputes):
            if dispute.of.status == "OPEN":
                self._decides(dispute, "lost" if number % 2 else "won")
        for payout in self.payouts:
            self._payout_ends(payout, "paid")
        for place, attempt in enumerate(self.attempts):
            if attempt.status in reference_model.UNDECIDED:
                self._says(place, "VOIDED", None)
        self.now += 20 * 366 * world.DAY
        self.sessions_grow_old()
        self.what_is_due_settles()
        self.now += 366 * world.DAY
        self.reserves_are_released()
        self.all_is_well()
        for kept in self.orders:
            assert kept.of.closed(), kept.of.status
            (row,) = self._rows(SUM, kept.key)
            came = kept.of.comes_to()
            assert dict(zip(reference_model.ACCOUNTS, row, strict=True)) == came, kept.of.status
            ending = f"closed {kept.of.status} {kept.of.terms['refund_fee_policy']}"
            self.tally[ending] = self.tally.get(ending, 0) + 1
        for shop in self.shops.values():
            assert (shop.accounts["reserve"], shop.accounts["frozen"]) == (0, shop.frozen_manually)
        names = " + ".join(f"sum({name})" for name in reference_model.ACCOUNTS)
        for _, total in self._rows(f"select currency, {names} from balances group by 1"):
            assert total == 0
