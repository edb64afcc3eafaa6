"""Any set of confirmations comes to the same together as one by one, in every table."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from hypothesis import HealthCheck, event, given, note, settings
from hypothesis import strategies as st

from opentill import checkouts, orders, rates
from opentill.checkouts.model import SessionBody
from opentill.core.ids import new_id
from opentill.core.money import Money, parse
from opentill.db.database import Tx
from opentill.epay.queries import INSERT_ORDER
from opentill.gateways import GatewayPaymentEvent, PaymentOutcome
from opentill.orders import PaymentAttempt
from opentill.orders.model import UNDECIDED
from support.books import assert_books
from support.examples import examples
from support.transactions import Each
from support.world import DAY, NOW, dump, fresh, merchant, product, said, submitted

LATER: Final = NOW + 5_000
CURRENCIES: Final = {"USD": "9.99", "EUR": "20.01", "JPY": "1050"}
# What was said of an order's attempts; most of them so that it can still be paid.
WORDS: Final = (
    ("SUBMITTED",), ("ACTION_REQUIRED",), ("PENDING",), ("SUCCEEDED",), ("REFUSED",), ("VOIDED",),
    ("ACTION_REQUIRED", "SUBMITTED"), ("ACTION_REQUIRED", "PENDING"), ("DECLINED", "PENDING"),
    ("PENDING", "ACTION_REQUIRED"), ("ACTION_REQUIRED", "ACTION_REQUIRED", "SUBMITTED"),
    ("ACTION_REQUIRED", "REFUSED"), ("ACTION_REQUIRED", "SUCCEEDED"), ("DECLINED", "DECLINED"),
)  # fmt: skip
WHATS: Final[tuple[dict[str, Any], ...]] = (
    {}, {}, {"provider_ref": "pay_7", "reason": "ok"}, {"method": "ALIPAY"}, {"right": 0},
    {"right": 1}, {"amount": Money(999, "CNY")}, {"clearing_currency": "HKD"},
    {"clearing_currency": "USD"}, {"action_url": "https://bank.example/x"}, {"qr_text": "QR"},
    {"status": "DECLINED"}, {"status": "PENDING"},
)  # fmt: skip
# Made anew whenever something is written.
_MADE: Final = re.compile(r"(?:evt|txn)_[0-9a-z]+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Plan:
    """One order: of which shop, in what currency, by which door, and how it was tried before."""

    shop: int
    currency: str
    source: str
    words: tuple[str, ...]
    expired: bool


PLANS: Final = st.lists(
    st.builds(
        Plan,
        shop=st.integers(0, 2),
        currency=st.sampled_from(sorted(CURRENCIES)),
        source=st.sampled_from(["API", "EPAY"]),
        words=st.sampled_from(WORDS),
        expired=st.booleans(),
    ),
    min_size=2,
    max_size=5,
)
NEWS: Final = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from(WHATS)), min_size=4, max_size=12
)
TERMS: Final[tuple[dict[str, Any], ...]] = (
    {"fee_changes": ("ALIPAY=0.1+0.30", "CREDIT_CARD:EUR=0.02+0.10")},
    {"settlement_currency": "HKD", "settlement_calendar": "WEEKDAYS", "reserve_rate": "0.1"},
    {"platform_fee_rate": "0", "settlement_delay_days": 0},
)


async def _build(tx: Tx, plans: Sequence[Plan]) -> list[PaymentAttempt]:
    """Make the shops, orders and attempts; return the attempts that gateways may speak of."""
    for base, quote, rate in (
        ("EUR", "USD", "1.1"), ("JPY", "USD", "0.0067"), ("HKD", "USD", "0.128"),
        ("EUR", "HKD", "8.5"), ("JPY", "HKD", "0.052"), ("USD", "HKD", "7.8"),
    ):  # fmt: skip
        await rates.put(tx, base, quote, Decimal(rate), NOW - DAY)
    shops = [await merchant(tx, **terms) for terms in TERMS]
    made: list[PaymentAttempt] = []
    for plan in plans:
        shop = shops[plan.shop]
        mug = await product(tx, shop.id, CURRENCIES[plan.currency], plan.currency)
        body = SessionBody(product_id=mug.id)
        item = checkouts.Item(
            order_id=new_id("order"),
            name="A mug",
            amount_minor=parse(CURRENCIES[plan.currency], plan.currency),
            metadata="{}",
            source=plan.source,
            method=None,
        )
        opened = await checkouts.open_session(tx, shop.id, body, NOW, item=item)
        if plan.source == "EPAY":
            await INSERT_ORDER.run(
                tx, merchant_id=shop.id, out_trade_no=fresh(), submission=1,
                order_id=opened.order_id, checkout_id=opened.id, type="alipay", name="A mug",
                requested_type=None,
                money=CURRENCIES[plan.currency], money_type=plan.currency,
                notify_url="https://a.example/", return_url="", param="", now=NOW,
            )  # fmt: skip
        for number, word in enumerate(plan.words):
            order = await orders.find(tx, shop.id, opened.order_id)
            if order.status != "PENDING":
                break
            attempt = await submitted(tx, order, NOW + number)
            if word != "SUBMITTED":
                attempt = await said(tx, attempt, word, NOW + number)
            made.append(attempt)
        order = await orders.find(tx, shop.id, opened.order_id)
        if plan.expired and order.status == "PENDING":
            await checkouts.expire(tx, shop.id, opened.id, "over", NOW + 100)
    return made


def _gateway_event(attempt: PaymentAttempt, what: dict[str, Any]) -> GatewayPaymentEvent:
    said = {"status": "SUCCEEDED", **what}
    if (right := said.pop("right", None)) is not None:
        minor = attempt.amount_minor + right
        said["amount"] = Money(minor, attempt.currency)
    return GatewayPaymentEvent(attempt_id=attempt.id, outcome=PaymentOutcome(**said))


async def _hear(tx: Tx, one: GatewayPaymentEvent) -> None:
    merchant_id = await orders.merchant_of(tx, one.attempt_id)
    await orders.apply_outcome(
        tx, merchant_id, one.attempt_id, one.outcome, LATER, gateway="sandbox"
    )


async def _picture(tx: Tx) -> dict[str, list[str]]:
    rows = await dump(tx)
    del rows["list_changes"]  # one for a statement; what they come to is a rule of the books
    return {
        table: sorted(_MADE.sub("made", line) for line in lines) for table, lines in rows.items()
    }


async def _compare(tx: Tx, plans: Sequence[Plan], wanted: Sequence[tuple[int, Any]]) -> None:
    attempts = await _build(tx, plans)
    gateway_event = [
        _gateway_event(attempts[which % len(attempts)], what) for which, what in wanted
    ]
    note(f"attempts {[(a.id, a.order_id) for a in attempts]}")

    run_all = tx.transaction()
    await run_all.start()
    reports = [orders.Report("sandbox", one) for one in gateway_event]
    done = {attempt_id for _, attempt_id in await orders.confirm_many(tx, reports, LATER)}
    paying = await tx.fetch(
        "select o.paid_attempt_id from entries e join orders o"
        " on o.merchant_id = e.merchant_id and o.id = e.source_id"
        " where e.type = 'PAYMENT' and e.created_at = $1"
        " order by e.merchant_id, e.currency, e.number",
        LATER,
    )
    for one in gateway_event:
        if one.attempt_id not in done:
            await _hear(tx, one)
    first = await _picture(tx)
    await assert_books(tx)
    await run_all.rollback()

    before = {attempt.id: attempt for attempt in attempts}
    order = [row[0] for row in paying]
    assert set(order) == done
    assert {before[id_].status for id_ in order} <= {*UNDECIDED}
    heard = [next(one for one in gateway_event if _pays(one, before[id_], id_)) for id_ in order]
    alone = tx.transaction()
    await alone.start()
    for one in [*heard, *(one for one in gateway_event if one not in heard)]:
        await _hear(tx, one)
    second = await _picture(tx)
    await alone.rollback()
    event(f"together: {min(len(done), 3)}")
    for table in first:
        assert first[table] == second[table], table


def _pays(one: GatewayPaymentEvent, attempt: PaymentAttempt, id_: str) -> bool:
    """Tell whether this is what paid: the first that is usual."""
    outcome, asked = one.outcome, Money(attempt.amount_minor, attempt.currency)
    return (
        one.attempt_id == id_
        and outcome.status == "SUCCEEDED"
        and outcome.amount in (None, asked)
        and outcome.clearing_currency != "HKD"
        and not (outcome.action_url or outcome.qr_text)
    )


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(plans=PLANS, wanted=NEWS)
def test_together_is_as_one_by_one_in_every_table(
    each_rolled_back: Each, plans: list[Plan], wanted: list[tuple[int, Any]]
) -> None:
    each_rolled_back(lambda tx: _compare(tx, plans, wanted))
