"""Attempts in every status get every outcome that a gateway can report, once and repeatedly."""

from decimal import Decimal

import pytest

from opentill import checkouts, orders, rates
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.gateways.model import RefundOutcome
from opentill.merchants import Actor
from support.world import (
    HOUR,
    LATE,
    NOW,
    create_order,
    create_order_in,
    dump_rows,
    pay_order_twice,
    read_attempts,
    read_entries,
    read_history,
    report_payment,
    submit_attempt,
)

QUERIED_AT = NOW + LATE  # at this time, NOT_FOUND ends a SUBMITTED attempt
REPORTING_GATEWAYS = frozenset({"sandbox"})

# For each status, the outcomes that lead to it from SUBMITTED.
PATHS = {
    "SUBMITTED": (),
    "ACTION_REQUIRED": ("ACTION_REQUIRED",),
    "PENDING": ("PENDING",),
    "SUCCEEDED": ("SUCCEEDED",),
    "DECLINED": ("DECLINED",),
    "REFUSED": ("REFUSED",),
    "VOIDED": ("VOIDED",),
}
# These abbreviations keep each row of the table on one line.
A, P = "ACTION_REQUIRED", "PENDING"
TABLE = (
    # attempt    outcome           attempt becomes   order becomes
    ("SUBMITTED", "SUCCEEDED", "SUCCEEDED", "PAID"),
    ("SUBMITTED", "ACTION_REQUIRED", A, "PENDING"),
    ("SUBMITTED", "PENDING", P, "PENDING"),
    ("SUBMITTED", "DECLINED", "DECLINED", "PENDING"),
    ("SUBMITTED", "UNREACHABLE", "DECLINED", "PENDING"),
    ("SUBMITTED", "NOT_FOUND", "DECLINED", "PENDING"),
    ("SUBMITTED", "REFUSED", "REFUSED", "FAILED"),
    ("SUBMITTED", "VOIDED", "VOIDED", "REVOKED"),
    ("SUBMITTED", "UNKNOWN", "SUBMITTED", "CREATING"),
    (A, "SUCCEEDED", "SUCCEEDED", "PAID"),
    (A, "ACTION_REQUIRED", A, "PENDING"),
    (A, "PENDING", P, "PENDING"),
    (A, "DECLINED", "DECLINED", "PENDING"),
    (A, "NOT_FOUND", A, "PENDING"),
    (A, "REFUSED", "REFUSED", "FAILED"),
    (A, "VOIDED", "VOIDED", "REVOKED"),
    (A, "UNKNOWN", A, "PENDING"),
    (P, "SUCCEEDED", "SUCCEEDED", "PAID"),
    (P, "ACTION_REQUIRED", P, "PENDING"),
    (P, "PENDING", P, "PENDING"),
    (P, "DECLINED", "DECLINED", "PENDING"),
    (P, "NOT_FOUND", P, "PENDING"),
    (P, "REFUSED", "REFUSED", "FAILED"),
    (P, "VOIDED", "VOIDED", "REVOKED"),
    (P, "UNKNOWN", P, "PENDING"),
    ("DECLINED", "SUCCEEDED", "SUCCEEDED", "PAID"),
    ("REFUSED", "SUCCEEDED", "SUCCEEDED", "PAID"),
    ("VOIDED", "SUCCEEDED", "DUPLICATE", "REVOKED"),
)
OUTCOMES = (
    "SUCCEEDED", "ACTION_REQUIRED", "PENDING", "DECLINED", "UNREACHABLE", "NOT_FOUND", "REFUSED",
    "VOIDED", "UNKNOWN",
)  # fmt: skip
IGNORED = [
    (status, outcome)
    for status in ("SUCCEEDED", "DECLINED", "REFUSED", "VOIDED")
    for outcome in OUTCOMES
    if (status, outcome) not in {row[:2] for row in TABLE}
]


async def create_attempt(tx: Tx, status: str) -> orders.PaymentAttempt:
    attempt = await submit_attempt(tx, await create_order(tx))
    for outcome in PATHS[status]:
        attempt = await report_payment(tx, attempt, outcome, NOW, provider_ref="p-1")
    assert attempt.status == status
    return attempt


@pytest.mark.parametrize(("status", "outcome", "new_status", "order_status"), TABLE)
async def test_the_table_decides_what_an_outcome_changes(
    tx: Tx, status, outcome, new_status, order_status
) -> None:
    attempt = await create_attempt(tx, status)
    after = await report_payment(tx, attempt, outcome, QUERIED_AT)
    order = await orders.find(tx, attempt.merchant_id, attempt.order_id)
    assert (after.status, order.status) == (new_status, order_status)
    posted = [row[0] for row in await read_entries(tx, attempt.merchant_id)]
    assert posted == (["PAYMENT", "FEE"] if order_status == "PAID" else [])
    is_checked = new_status in {"SUBMITTED", "ACTION_REQUIRED", "PENDING", "DUPLICATE"}
    assert (after.check_at is not None) == is_checked


@pytest.mark.parametrize(("status", "outcome"), IGNORED)
async def test_late_and_repeated_outcomes_change_nothing(tx: Tx, status, outcome) -> None:
    attempt = await create_attempt(tx, status)
    before = await dump_rows(tx)
    after = await report_payment(tx, attempt, outcome, QUERIED_AT)
    assert after.status == status
    assert await dump_rows(tx) == before


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("status", ["SUBMITTED", "ACTION_REQUIRED", "PENDING"])
async def test_every_outcome_is_idempotent(tx: Tx, status, outcome) -> None:
    attempt = await create_attempt(tx, status)
    await report_payment(tx, attempt, outcome, QUERIED_AT)
    before = await dump_rows(tx)
    await report_payment(tx, attempt, outcome, QUERIED_AT + 1)
    assert await dump_rows(tx) == before


async def test_not_found_is_ignored_while_the_call_may_still_run(tx: Tx) -> None:
    attempt = await create_attempt(tx, "SUBMITTED")
    assert (await report_payment(tx, attempt, "NOT_FOUND", QUERIED_AT - 1)).status == "SUBMITTED"
    assert (
        await report_payment(tx, attempt, "ACTION_REQUIRED", QUERIED_AT - 1)
    ).status == "ACTION_REQUIRED"


@pytest.mark.parametrize("amount", [Money(998, "USD"), Money(1000, "USD"), Money(999, "EUR")])
@pytest.mark.parametrize("status", ["SUBMITTED", "ACTION_REQUIRED", "DECLINED"])
async def test_a_wrong_amount_pays_nothing_and_is_recorded_once(tx: Tx, status, amount) -> None:
    attempt = await create_attempt(tx, status)
    before = await orders.find(tx, attempt.merchant_id, attempt.order_id)
    for _ in range(3):
        after = await report_payment(tx, attempt, "SUCCEEDED", QUERIED_AT, amount=amount)
    assert (after.status, after.check_at, after.reason) == (status, None, "amount_differs")
    order = await orders.find(tx, attempt.merchant_id, attempt.order_id)
    assert order.status == before.status
    notes = [line for line in await read_history(tx, order) if line.event == "amount_differs"]
    assert len(notes) == 1
    assert amount.text in notes[0].cause
    assert await read_entries(tx, order.merchant_id) == []
    paid = await orders.confirm_manually(tx, order.merchant_id, order.id, "ann", "seen", QUERIED_AT)
    assert paid.status == "PAID"


async def open_two_pages(
    tx: Tx, order: orders.Order
) -> tuple[orders.PaymentAttempt, orders.PaymentAttempt]:
    """Start two attempts of an order whose pages are both open."""
    first_attempt = await report_payment(tx, await submit_attempt(tx, order), "ACTION_REQUIRED")
    second_attempt = await report_payment(tx, await submit_attempt(tx, order), "ACTION_REQUIRED")
    return first_attempt, second_attempt


async def test_the_second_of_two_payments_is_returned_once(tx: Tx) -> None:
    order = await create_order(tx)
    first_attempt, second_attempt = await open_two_pages(tx, order)
    await report_payment(tx, second_attempt, "SUCCEEDED", QUERIED_AT)
    late_attempt = await report_payment(tx, first_attempt, "SUCCEEDED", QUERIED_AT)
    assert (late_attempt.status, late_attempt.check_at) == ("DUPLICATE", QUERIED_AT)
    for _ in range(3):
        await report_payment(tx, first_attempt, "SUCCEEDED", QUERIED_AT)
        await report_payment(tx, second_attempt, "SUCCEEDED", QUERIED_AT)
        await orders.apply_duplicate_return(
            tx, first_attempt, RefundOutcome(status="SUCCEEDED"), QUERIED_AT
        )
    paid = await orders.find(tx, order.merchant_id, order.id)
    assert (paid.status, paid.paid_attempt_id) == ("PAID", second_attempt.id)
    assert [attempt.status for attempt in await read_attempts(tx, order)] == [
        "GIVEN_BACK",
        "SUCCEEDED",
    ]
    events = [line.event for line in await read_history(tx, order)]
    assert events.count("duplicate_payment") == events.count("payment_given_back") == 1
    assert len(await read_entries(tx, order.merchant_id)) == 2


@pytest.mark.parametrize("status", ["PENDING", "UNKNOWN", "UNREACHABLE", "NOT_FOUND"])
async def test_a_duplicate_waits_until_it_is_returned(tx: Tx, status) -> None:
    order = await create_order(tx)
    first_attempt, second_attempt = await open_two_pages(tx, order)
    await report_payment(tx, first_attempt, "SUCCEEDED", QUERIED_AT)
    await report_payment(tx, second_attempt, "SUCCEEDED", QUERIED_AT)
    before = await dump_rows(tx)
    await orders.apply_duplicate_return(
        tx, second_attempt, RefundOutcome(status=status), QUERIED_AT
    )
    assert await dump_rows(tx) == before


async def test_a_duplicate_whose_return_is_refused_is_left_to_the_operator(tx: Tx) -> None:
    order = await create_order(tx)
    first_attempt, second_attempt = await open_two_pages(tx, order)
    await report_payment(tx, first_attempt, "SUCCEEDED", QUERIED_AT)
    await report_payment(tx, second_attempt, "SUCCEEDED", QUERIED_AT)
    for _ in range(2):
        refused = RefundOutcome(status="REFUSED", reason="account closed")
        await orders.apply_duplicate_return(tx, second_attempt, refused, QUERIED_AT)
    duplicate = (await read_attempts(tx, order))[1]
    assert (duplicate.status, duplicate.check_at) == ("DUPLICATE", None)
    notes = [
        line for line in await read_history(tx, order) if line.event == "payment_not_given_back"
    ]
    assert [note.cause for note in notes] == [f"{second_attempt.id}: account closed"]


RETURNED = RefundOutcome(status="SUCCEEDED", provider_ref="re_1")
FAILED = RefundOutcome(status="REFUSED", provider_ref="re_1", reason="lost_or_stolen_card")


async def assert_left_to_the_operator(tx: Tx, duplicate: orders.PaymentAttempt) -> None:
    attempt = await orders.find_attempt(tx, duplicate.merchant_id, duplicate.id)
    assert orders.needs_manual_return(attempt, REPORTING_GATEWAYS)
    assert attempt.reason == "lost_or_stolen_card"


async def test_a_second_payment_whose_return_fails_later_is_left_to_the_operator(
    tx: Tx, capsys: pytest.CaptureFixture[str]
) -> None:
    duplicate = await pay_order_twice(tx, await create_order(tx))
    order = await orders.find(tx, duplicate.merchant_id, duplicate.order_id)
    for outcome in (RETURNED, FAILED, FAILED, RETURNED):
        await orders.apply_duplicate_return(tx, duplicate, outcome, QUERIED_AT)
    assert capsys.readouterr().out.count("duplicate not given back") == 1
    await assert_left_to_the_operator(tx, duplicate)
    actor = Actor(who="ann", reason="by a transfer")
    await orders.record_duplicate_return(
        tx,
        order.merchant_id,
        order.id,
        duplicate.id,
        actor,
        QUERIED_AT,
        reporting=REPORTING_GATEWAYS,
    )
    for outcome in (FAILED, RETURNED):
        await orders.apply_duplicate_return(tx, duplicate, outcome, QUERIED_AT)
    assert (
        await orders.find_attempt(tx, duplicate.merchant_id, duplicate.id)
    ).status == "GIVEN_BACK"
    lines = [(line.event, line.cause) for line in await read_history(tx, order)]
    assert [line for line in lines if "given_back" in line[0]] == [
        ("payment_given_back", f"{duplicate.id} re_1"),
        ("payment_not_given_back", f"{duplicate.id}: lost_or_stolen_card"),
        ("payment_given_back", f"{duplicate.id} by ann: by a transfer"),
    ]


async def test_the_operator_records_a_return_that_its_gateway_does_not_report(tx: Tx) -> None:
    duplicate = await pay_order_twice(tx, await create_order(tx))
    unknown = RefundOutcome(status="UNKNOWN", reason="lost")
    await orders.apply_duplicate_return(tx, duplicate, unknown, QUERIED_AT)
    actor = Actor(who="ann", reason="by a transfer")
    arguments = tx, duplicate.merchant_id, duplicate.order_id, duplicate.id, actor, QUERIED_AT
    with pytest.raises(Invalid):
        await orders.record_duplicate_return(*arguments, reporting=REPORTING_GATEWAYS)
    await orders.record_duplicate_return(*arguments, reporting=())
    returned = await orders.find_attempt(tx, duplicate.merchant_id, duplicate.id)
    assert (returned.status, returned.check_at) == ("GIVEN_BACK", None)


async def test_a_late_success_report_does_not_undo_a_failed_return(tx: Tx) -> None:
    duplicate = await pay_order_twice(tx, await create_order(tx))
    for outcome in (FAILED, RETURNED):
        await orders.apply_duplicate_return(tx, duplicate, outcome, QUERIED_AT)
    await assert_left_to_the_operator(tx, duplicate)


async def test_the_end_of_the_first_attempt_does_not_affect_the_second(tx: Tx) -> None:
    order = await create_order(tx)
    first_attempt = await report_payment(tx, await submit_attempt(tx, order), "ACTION_REQUIRED")
    second_attempt = await submit_attempt(tx, order)
    await report_payment(tx, first_attempt, "DECLINED", QUERIED_AT)
    assert (await orders.find(tx, order.merchant_id, order.id)).status == "CREATING"
    await report_payment(tx, second_attempt, "SUCCEEDED", QUERIED_AT)
    assert (await orders.find(tx, order.merchant_id, order.id)).paid_attempt_id == second_attempt.id


@pytest.mark.parametrize("status", ["CLOSED", "FAILED"])
async def test_a_late_payment_pays_a_closed_or_failed_order(tx: Tx, status) -> None:
    order = await create_order(tx)
    attempt = await report_payment(tx, await submit_attempt(tx, order), "ACTION_REQUIRED")
    if status == "CLOSED":
        await checkouts.expire(tx, order.merchant_id, order.checkout_id, "over", NOW)
    else:
        await report_payment(tx, attempt, "REFUSED")
    await report_payment(tx, attempt, "SUCCEEDED", NOW + 30 * HOUR)
    paid = await orders.find(tx, order.merchant_id, order.id)
    assert (paid.status, paid.paid_at) == ("PAID", NOW + 30 * HOUR)


@pytest.mark.parametrize("status", ["REVOKED", "PAID", "REFUNDED"])
async def test_a_payment_of_an_order_that_cannot_be_paid_is_a_duplicate(tx: Tx, status) -> None:
    order = await create_order(tx)
    attempt = await report_payment(tx, await submit_attempt(tx, order), "ACTION_REQUIRED")
    key = (order.merchant_id, order.id)
    if status == "REVOKED":
        await orders.revoke_manually(tx, *key, "ann", "fraud", NOW)
    else:
        await orders.confirm_manually(tx, *key, "ann", "bank", NOW)
    before = await read_entries(tx, order.merchant_id)
    assert (await report_payment(tx, attempt, "SUCCEEDED", QUERIED_AT)).status == "DUPLICATE"
    assert await read_entries(tx, order.merchant_id) == before


@pytest.mark.parametrize("text", ["a\x00b", "half \ud800 pair", "x" * 5_000])
async def test_invalid_text_from_a_gateway_does_not_block_its_report(tx: Tx, text) -> None:
    attempt = await create_attempt(tx, "SUBMITTED")
    after = await report_payment(
        tx, attempt, "DECLINED", QUERIED_AT, reason=text, provider_ref=text
    )
    assert after.status == "DECLINED"
    assert "\x00" not in after.reason
    order = await create_order_in(tx, "PAID")
    assert order.status == "PAID"


@pytest.mark.parametrize("amount", [Money(9991, "KWD"), Money(1, "XAU")])
async def test_an_amount_that_cannot_be_displayed_is_recorded_in_minor_units(
    tx: Tx, amount: Money
) -> None:
    await rates.put(tx, "KWD", "USD", Decimal("3.25"), NOW)
    order = await create_order(tx, "9.99", "KWD", settlement_currency="KWD")
    attempt = await submit_attempt(tx, order)
    after = await report_payment(tx, attempt, "SUCCEEDED", NOW + LATE, amount=amount)
    assert (after.reason, after.check_at) == ("amount_differs", None)
    (row,) = [row for row in await read_history(tx, order) if row.event == "amount_differs"]
    assert f"{amount.minor} minor units of {amount.currency}" in row.cause
