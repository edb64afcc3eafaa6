"""What a gateway may say of an attempt, in every status, wherever and how often it says it."""

from decimal import Decimal

import pytest

from opentill import checkouts, orders, rates
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.gateways.model import RefundOutcome
from opentill.merchants import Actor
from opentill.orders import Order
from support.world import (
    HOUR,
    LATE,
    NOW,
    attempts,
    dump,
    entries,
    history,
    in_status,
    opened,
    paid_twice,
    said,
    submitted,
)

THEN = NOW + LATE  # the worker asks
REPORTING = frozenset({"sandbox"})

# Words that lead to an attempt's status, from when it was submitted.
WAYS = {
    "SUBMITTED": (),
    "ACTION_REQUIRED": ("ACTION_REQUIRED",),
    "PENDING": ("PENDING",),
    "SUCCEEDED": ("SUCCEEDED",),
    "DECLINED": ("DECLINED",),
    "REFUSED": ("REFUSED",),
    "VOIDED": ("VOIDED",),
}
A, P = "ACTION_REQUIRED", "PENDING"
TABLE = (
    # attempt     says              attempt becomes   order becomes
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
WORDS = (
    "SUCCEEDED", "ACTION_REQUIRED", "PENDING", "DECLINED", "UNREACHABLE", "NOT_FOUND", "REFUSED",
    "VOIDED", "UNKNOWN",
)  # fmt: skip
IGNORED = [
    (status, word)
    for status in ("SUCCEEDED", "DECLINED", "REFUSED", "VOIDED")
    for word in WORDS
    if (status, word) not in {row[:2] for row in TABLE}
]


async def in_way(tx: Tx, status: str) -> orders.PaymentAttempt:
    attempt = await submitted(tx, await opened(tx))
    for word in WAYS[status]:
        attempt = await said(tx, attempt, word, NOW, provider_ref="p-1")
    assert attempt.status == status
    return attempt


@pytest.mark.parametrize(("status", "word", "becomes", "order_becomes"), TABLE)
async def test_a_word_in_a_status(tx: Tx, status, word, becomes, order_becomes) -> None:
    attempt = await in_way(tx, status)
    after = await said(tx, attempt, word, THEN)
    order = await orders.find(tx, attempt.merchant_id, attempt.order_id)
    assert (after.status, order.status) == (becomes, order_becomes)
    posted = [row[0] for row in await entries(tx, attempt.merchant_id)]
    assert posted == (["PAYMENT", "FEE"] if order_becomes == "PAID" else [])
    asks = becomes in {"SUBMITTED", "ACTION_REQUIRED", "PENDING", "DUPLICATE"}
    assert (after.check_at is not None) == asks


@pytest.mark.parametrize(("status", "word"), IGNORED)
async def test_late_and_repeated_words_change_nothing(tx: Tx, status, word) -> None:
    attempt = await in_way(tx, status)
    before = await dump(tx)
    after = await said(tx, attempt, word, THEN)
    assert after.status == status
    assert await dump(tx) == before


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("status", ["SUBMITTED", "ACTION_REQUIRED", "PENDING"])
async def test_every_word_twice_is_as_good_as_once(tx: Tx, status, word) -> None:
    attempt = await in_way(tx, status)
    await said(tx, attempt, word, THEN)
    before = await dump(tx)
    await said(tx, attempt, word, THEN + 1)
    assert await dump(tx) == before


async def test_not_found_is_believed_only_when_the_call_has_surely_ended(tx: Tx) -> None:
    attempt = await in_way(tx, "SUBMITTED")
    assert (await said(tx, attempt, "NOT_FOUND", THEN - 1)).status == "SUBMITTED"
    assert (await said(tx, attempt, "ACTION_REQUIRED", THEN - 1)).status == "ACTION_REQUIRED"


@pytest.mark.parametrize("amount", [Money(998, "USD"), Money(1000, "USD"), Money(999, "EUR")])
@pytest.mark.parametrize("status", ["SUBMITTED", "ACTION_REQUIRED", "DECLINED"])
async def test_another_amount_pays_nothing_and_is_noted_once(tx: Tx, status, amount) -> None:
    attempt = await in_way(tx, status)
    before = await orders.find(tx, attempt.merchant_id, attempt.order_id)
    for _ in range(3):
        after = await said(tx, attempt, "SUCCEEDED", THEN, amount=amount)
    assert (after.status, after.check_at, after.reason) == (status, None, "amount_differs")
    order = await orders.find(tx, attempt.merchant_id, attempt.order_id)
    assert order.status == before.status
    notes = [line for line in await history(tx, order) if line.event == "amount_differs"]
    assert len(notes) == 1
    assert amount.text in notes[0].cause
    assert await entries(tx, order.merchant_id) == []
    paid = await orders.confirm_manually(tx, order.merchant_id, order.id, "ann", "seen", THEN)
    assert paid.status == "PAID"


async def second(
    tx: Tx, order: orders.Order
) -> tuple[orders.PaymentAttempt, orders.PaymentAttempt]:
    """Start two attempts whose pages are both open."""
    first = await said(tx, await submitted(tx, order), "ACTION_REQUIRED")
    other = await said(tx, await submitted(tx, order), "ACTION_REQUIRED")
    return first, other


async def test_of_two_that_succeed_the_second_is_given_back_once(tx: Tx) -> None:
    order = await opened(tx)
    first, other = await second(tx, order)
    await said(tx, other, "SUCCEEDED", THEN)
    late = await said(tx, first, "SUCCEEDED", THEN)
    assert (late.status, late.check_at) == ("DUPLICATE", THEN)
    for _ in range(3):
        await said(tx, first, "SUCCEEDED", THEN)
        await said(tx, other, "SUCCEEDED", THEN)
        await orders.given_back(tx, first, RefundOutcome(status="SUCCEEDED"), THEN)
    found = await orders.find(tx, order.merchant_id, order.id)
    assert (found.status, found.paid_attempt_id) == ("PAID", other.id)
    assert [a.status for a in await attempts(tx, order)] == ["GIVEN_BACK", "SUCCEEDED"]
    events = [line.event for line in await history(tx, order)]
    assert events.count("duplicate_payment") == events.count("payment_given_back") == 1
    assert len(await entries(tx, order.merchant_id)) == 2


@pytest.mark.parametrize("word", ["PENDING", "UNKNOWN", "UNREACHABLE", "NOT_FOUND"])
async def test_a_duplicate_waits_until_it_is_given_back(tx: Tx, word) -> None:
    order = await opened(tx)
    first, other = await second(tx, order)
    await said(tx, first, "SUCCEEDED", THEN)
    await said(tx, other, "SUCCEEDED", THEN)
    before = await dump(tx)
    await orders.given_back(tx, other, RefundOutcome(status=word), THEN)
    assert await dump(tx) == before


async def test_a_duplicate_that_is_not_taken_back_is_left_to_the_operator(tx: Tx) -> None:
    order = await opened(tx)
    first, other = await second(tx, order)
    await said(tx, first, "SUCCEEDED", THEN)
    await said(tx, other, "SUCCEEDED", THEN)
    for _ in range(2):
        refused = RefundOutcome(status="REFUSED", reason="account closed")
        await orders.given_back(tx, other, refused, THEN)
    duplicate = (await attempts(tx, order))[1]
    assert (duplicate.status, duplicate.check_at) == ("DUPLICATE", None)
    notes = [line for line in await history(tx, order) if line.event == "payment_not_given_back"]
    assert [note.cause for note in notes] == [f"{other.id}: account closed"]


async def test_a_second_payment_whose_return_fails_later_is_left_to_the_operator(
    tx: Tx, capsys: pytest.CaptureFixture[str]
) -> None:
    again = await paid_twice(tx, await opened(tx))
    order = await orders.find(tx, again.merchant_id, again.order_id)
    done = RefundOutcome(status="SUCCEEDED", provider_ref="re_1")
    failed = RefundOutcome(status="REFUSED", provider_ref="re_1", reason="lost_or_stolen_card")
    await orders.given_back(tx, again, done, THEN)
    for outcome in (failed, failed, done):
        await orders.given_back(tx, again, outcome, THEN)
    assert capsys.readouterr().out.count("duplicate not given back") == 1
    kept = await orders.find_attempt(tx, again.merchant_id, again.id)
    assert (orders.is_kept(kept, REPORTING), kept.reason) == (True, "lost_or_stolen_card")
    by = Actor(who="ann", reason="by a transfer")
    await orders.given_back_manually(
        tx, order.merchant_id, order.id, again.id, by, THEN, reporting=REPORTING
    )
    for outcome in (failed, done):
        await orders.given_back(tx, again, outcome, THEN)
    assert (await orders.find_attempt(tx, again.merchant_id, again.id)).status == "GIVEN_BACK"
    lines = [(line.event, line.cause) for line in await history(tx, order)]
    assert [line for line in lines if "given_back" in line[0]] == [
        ("payment_given_back", f"{again.id} re_1"),
        ("payment_not_given_back", f"{again.id}: lost_or_stolen_card"),
        ("payment_given_back", f"{again.id} by ann: by a transfer"),
    ]


async def test_a_second_payment_whose_gateway_does_not_say_that_it_went_back_is_the_operators(
    tx: Tx,
) -> None:
    again = await paid_twice(tx, await opened(tx))
    await orders.given_back(tx, again, RefundOutcome(status="UNKNOWN", reason="lost"), THEN)
    by = Actor(who="ann", reason="by a transfer")
    of = tx, again.merchant_id, again.order_id, again.id, by, THEN
    with pytest.raises(Invalid):
        await orders.given_back_manually(*of, reporting=REPORTING)
    await orders.given_back_manually(*of, reporting=())
    kept = await orders.find_attempt(tx, again.merchant_id, again.id)
    assert (kept.status, kept.check_at) == ("GIVEN_BACK", None)


async def test_a_return_that_failed_is_not_done_by_an_earlier_report_that_comes_late(
    tx: Tx,
) -> None:
    again = await paid_twice(tx, await opened(tx))
    failed = RefundOutcome(status="REFUSED", provider_ref="re_1", reason="lost_or_stolen_card")
    await orders.given_back(tx, again, failed, THEN)
    await orders.given_back(tx, again, RefundOutcome(status="SUCCEEDED", provider_ref="re_1"), THEN)
    kept = await orders.find_attempt(tx, again.merchant_id, again.id)
    assert (orders.is_kept(kept, REPORTING), kept.reason) == (True, "lost_or_stolen_card")


async def test_a_first_attempt_that_ends_leaves_the_second_alone(tx: Tx) -> None:
    order = await opened(tx)
    first = await said(tx, await submitted(tx, order), "ACTION_REQUIRED")
    other = await submitted(tx, order)
    await said(tx, first, "DECLINED", THEN)
    found = await orders.find(tx, order.merchant_id, order.id)
    assert found.status == "CREATING"
    await said(tx, other, "SUCCEEDED", THEN)
    assert (await orders.find(tx, order.merchant_id, order.id)).paid_attempt_id == other.id


@pytest.mark.parametrize("status", ["CLOSED", "FAILED"])
async def test_money_that_comes_late_pays_all_the_same(tx: Tx, status) -> None:
    order = await opened(tx)
    attempt = await said(tx, await submitted(tx, order), "ACTION_REQUIRED")
    if status == "CLOSED":
        await checkouts.expire(tx, order.merchant_id, order.checkout_id, "over", NOW)
    else:
        await said(tx, attempt, "REFUSED")
    await said(tx, attempt, "SUCCEEDED", NOW + 30 * HOUR)
    found = await orders.find(tx, order.merchant_id, order.id)
    assert (found.status, found.paid_at) == ("PAID", NOW + 30 * HOUR)


@pytest.mark.parametrize("status", ["REVOKED", "PAID", "REFUNDED"])
async def test_money_for_an_order_that_takes_none_is_given_back(tx: Tx, status) -> None:
    order = await opened(tx)
    attempt = await said(tx, await submitted(tx, order), "ACTION_REQUIRED")
    key = (order.merchant_id, order.id)
    if status == "REVOKED":
        await orders.revoke_manually(tx, *key, "ann", "fraud", NOW)
    else:
        await orders.confirm_manually(tx, *key, "ann", "bank", NOW)
    before = await entries(tx, order.merchant_id)
    assert (await said(tx, attempt, "SUCCEEDED", THEN)).status == "DUPLICATE"
    assert await entries(tx, order.merchant_id) == before


@pytest.mark.parametrize("text", ["a\x00b", "half \ud800 pair", "x" * 5_000])
async def test_a_gateways_odd_words_stop_nothing(tx: Tx, text) -> None:
    attempt = await in_way(tx, "SUBMITTED")
    after = await said(tx, attempt, "DECLINED", THEN, reason=text, provider_ref=text)
    assert after.status == "DECLINED"
    assert "\x00" not in after.reason
    order = await in_status(tx, "PAID")
    assert order.status == "PAID"


async def in_dinars(tx: Tx) -> Order:
    await rates.put(tx, "KWD", "USD", Decimal("3.25"), NOW)
    return await opened(tx, "9.99", "KWD", settlement_currency="KWD")


@pytest.mark.parametrize("got", [Money(9991, "KWD"), Money(1, "XAU")])
async def test_another_amount_is_noted_whatever_it_is(tx: Tx, got: Money) -> None:
    order = await in_dinars(tx)
    attempt = await submitted(tx, order)
    heard = await said(tx, attempt, "SUCCEEDED", NOW + LATE, amount=got)
    assert (heard.reason, heard.check_at) == ("amount_differs", None)
    lines = [line.cause for line in await history(tx, order) if line.event == "amount_differs"]
    assert [f"{got.minor} minor units of {got.currency}" in cause for cause in lines] == [True]
