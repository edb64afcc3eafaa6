"""Confirming payments in a batch writes the same rows as confirming them one by one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from hypothesis import HealthCheck, given, note, settings
from hypothesis import event as hypothesis_event
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
from support.transactions import RunRolledBack
from support.world import (
    DAY,
    NOW,
    create_merchant,
    create_product,
    dump_rows,
    new_reference,
    report_payment,
    submit_attempt,
)

LATER: Final = NOW + 5_000
CURRENCIES: Final = {"USD": "9.99", "EUR": "20.01", "JPY": "1050"}
# Each row: the outcomes that are reported for an order's attempts. After most rows the order can
# still be paid.
HISTORIES: Final = (
    ("SUBMITTED",), ("ACTION_REQUIRED",), ("PENDING",), ("SUCCEEDED",), ("REFUSED",), ("VOIDED",),
    ("ACTION_REQUIRED", "SUBMITTED"), ("ACTION_REQUIRED", "PENDING"), ("DECLINED", "PENDING"),
    ("PENDING", "ACTION_REQUIRED"), ("ACTION_REQUIRED", "ACTION_REQUIRED", "SUBMITTED"),
    ("ACTION_REQUIRED", "REFUSED"), ("ACTION_REQUIRED", "SUCCEEDED"), ("DECLINED", "DECLINED"),
)  # fmt: skip
REPORTS: Final[tuple[dict[str, Any], ...]] = (
    {}, {}, {"provider_ref": "pay_7", "reason": "ok"}, {"method": "ALIPAY"}, {"excess": 0},
    {"excess": 1}, {"amount": Money(999, "CNY")}, {"clearing_currency": "HKD"},
    {"clearing_currency": "USD"}, {"action_url": "https://bank.example/x"}, {"qr_text": "QR"},
    {"status": "DECLINED"}, {"status": "PENDING"},
)  # fmt: skip
# Random ids differ between two runs, so they are masked.
_RANDOM_IDS: Final = re.compile(
    r"(?:evt|txn)_[0-9a-z]+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)


@dataclass(frozen=True)
class Plan:
    """An order: its shop, currency and API, and the outcomes of its earlier attempts."""

    shop: int
    currency: str
    source: str
    outcomes: tuple[str, ...]
    expired: bool


PLANS: Final = st.lists(
    st.builds(
        Plan,
        shop=st.integers(0, 2),
        currency=st.sampled_from(sorted(CURRENCIES)),
        source=st.sampled_from(["API", "EPAY"]),
        outcomes=st.sampled_from(HISTORIES),
        expired=st.booleans(),
    ),
    min_size=2,
    max_size=5,
)
CHOICES: Final = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from(REPORTS)), min_size=4, max_size=12
)
TERMS: Final[tuple[dict[str, Any], ...]] = (
    {"fee_changes": ("ALIPAY=0.1+0.30", "CREDIT_CARD:EUR=0.02+0.10")},
    {"settlement_currency": "HKD", "settlement_calendar": "WEEKDAYS", "reserve_rate": "0.1"},
    {"platform_fee_rate": "0", "settlement_delay_days": 0},
)


async def _create_attempts(tx: Tx, plans: Sequence[Plan]) -> list[PaymentAttempt]:
    """Create the shops, orders and attempts; return the attempts."""
    for base, quote, rate in (
        ("EUR", "USD", "1.1"), ("JPY", "USD", "0.0067"), ("HKD", "USD", "0.128"),
        ("EUR", "HKD", "8.5"), ("JPY", "HKD", "0.052"), ("USD", "HKD", "7.8"),
    ):  # fmt: skip
        await rates.put(tx, base, quote, Decimal(rate), NOW - DAY)
    shops = [await create_merchant(tx, **terms) for terms in TERMS]
    created: list[PaymentAttempt] = []
    for plan in plans:
        shop = shops[plan.shop]
        mug = await create_product(tx, shop.id, CURRENCIES[plan.currency], plan.currency)
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
                tx, merchant_id=shop.id, out_trade_no=new_reference(), submission=1,
                order_id=opened.order_id, checkout_id=opened.id, type="alipay", name="A mug",
                requested_type=None, version=1,
                money=CURRENCIES[plan.currency], money_type=plan.currency,
                notify_url="https://a.example/", return_url="", param="", now=NOW,
            )  # fmt: skip
        for number, status in enumerate(plan.outcomes):
            order = await orders.find(tx, shop.id, opened.order_id)
            if order.status != "PENDING":
                break
            attempt = await submit_attempt(tx, order, NOW + number)
            if status != "SUBMITTED":
                attempt = await report_payment(tx, attempt, status, NOW + number)
            created.append(attempt)
        order = await orders.find(tx, shop.id, opened.order_id)
        if plan.expired and order.status == "PENDING":
            await checkouts.expire(tx, shop.id, opened.id, "over", NOW + 100)
    return created


def _gateway_event(attempt: PaymentAttempt, report: dict[str, Any]) -> GatewayPaymentEvent:
    fields = {"status": "SUCCEEDED", **report}
    if (excess := fields.pop("excess", None)) is not None:
        fields["amount"] = Money(attempt.amount_minor + excess, attempt.currency)
    return GatewayPaymentEvent(attempt_id=attempt.id, outcome=PaymentOutcome(**fields))


async def _apply(tx: Tx, event: GatewayPaymentEvent) -> None:
    merchant_id = await orders.merchant_of(tx, event.attempt_id)
    await orders.apply_outcome(
        tx, merchant_id, event.attempt_id, event.outcome, LATER, gateway="sandbox"
    )


async def _read_rows(tx: Tx) -> dict[str, list[str]]:
    rows = await dump_rows(tx)
    # These rows depend on the number of statements; assert_books compares their sums.
    del rows["list_changes"]
    return {
        table: sorted(_RANDOM_IDS.sub("id", line) for line in lines)
        for table, lines in rows.items()
    }


async def _compare(tx: Tx, plans: Sequence[Plan], choices: Sequence[tuple[int, Any]]) -> None:
    attempts = await _create_attempts(tx, plans)
    events = [_gateway_event(attempts[index % len(attempts)], report) for index, report in choices]
    note(f"attempts {[(attempt.id, attempt.order_id) for attempt in attempts]}")

    batch = tx.transaction()
    await batch.start()
    reports = [orders.Report("sandbox", event) for event in events]
    confirmed = {attempt_id for _, attempt_id in await orders.confirm_many(tx, reports, LATER)}
    payments = await tx.fetch(
        "select o.paid_attempt_id from entries e join orders o"
        " on o.merchant_id = e.merchant_id and o.id = e.source_id"
        " where e.type = 'PAYMENT' and e.created_at = $1"
        " order by e.merchant_id, e.currency, e.number",
        LATER,
    )
    for event in events:
        if event.attempt_id not in confirmed:
            await _apply(tx, event)
    rows_of_batch = await _read_rows(tx)
    await assert_books(tx)
    await batch.rollback()

    before = {attempt.id: attempt for attempt in attempts}
    paying_ids = [row[0] for row in payments]
    assert set(paying_ids) == confirmed
    assert {before[id_].status for id_ in paying_ids} <= {*UNDECIDED}
    paying = [
        next(event for event in events if _pays(event, before[id_], id_)) for id_ in paying_ids
    ]
    one_by_one = tx.transaction()
    await one_by_one.start()
    for event in [*paying, *(event for event in events if event not in paying)]:
        await _apply(tx, event)
    rows = await _read_rows(tx)
    await one_by_one.rollback()
    hypothesis_event(f"confirmed in the batch: {min(len(confirmed), 3)}")
    for table in rows_of_batch:
        assert rows_of_batch[table] == rows[table], table


def _pays(event: GatewayPaymentEvent, attempt: PaymentAttempt, id_: str) -> bool:
    """Return whether this event can pay the attempt ``id_`` in a batch."""
    outcome, due = event.outcome, Money(attempt.amount_minor, attempt.currency)
    return (
        event.attempt_id == id_
        and outcome.status == "SUCCEEDED"
        and outcome.amount in (None, due)
        and outcome.clearing_currency != "HKD"
    )


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(plans=PLANS, choices=CHOICES)
def test_a_batch_writes_the_same_rows_as_one_by_one(
    run_rolled_back: RunRolledBack, plans: list[Plan], choices: list[tuple[int, Any]]
) -> None:
    run_rolled_back(lambda tx: _compare(tx, plans, choices))
