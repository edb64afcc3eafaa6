"""The table of a payout's life, every cell and nothing else; what is refused moves nothing."""

from decimal import Decimal
from typing import Any

import asyncpg
import msgspec
import pytest

from opentill import adjustments, ledger, merchants, payouts
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Tx
from opentill.integrity.rules import check_books
from opentill.merchants import Merchant
from opentill.payouts import Payout, PayoutRequest
from opentill.payouts.model import EVENTS, TRANSITIONS
from support.world import NOW, dump, entries, fresh, merchant, product, session

LATER = NOW + 5_000


async def shop(tx: Tx, available: int = 10_000, **terms: Any) -> Merchant:
    """Make a merchant with so much available."""
    made = await merchant(tx, **terms)
    if available:
        asked = adjustments.AdjustmentRequest(
            kind="recharge", amount_minor=available, reference=fresh(), reason="start", by="ann"
        )
        await adjustments.request(tx, made.id, asked, None, NOW)
    return made


def wanted(amount: int | None = 2_500, **what: Any) -> PayoutRequest:
    """Ask for a payout."""
    return PayoutRequest(
        **({"amount_minor": amount, "reference": fresh(), "reason": "weekly", "by": "ann"} | what)
    )


async def created(tx: Tx, merchant_id: str, amount: int | None = 2_500, **what: Any) -> Payout:
    """Create a payout."""
    return await payouts.create(tx, merchant_id, wanted(amount, **what), None, NOW)


async def happen(tx: Tx, payout: Payout, event: str) -> Payout:
    """Say how the transfer ended."""
    if event == "paid":
        return await payouts.pay(tx, payout.id, "TRN-1", "sent", "ann", LATER)
    if event == "returned":
        return await payouts.record_return(tx, payout.id, "account closed", "ann", LATER)
    return await payouts.fail(tx, payout.id, "account closed", "ann", LATER)


async def available(tx: Tx, merchant_id: str) -> int:
    """Return what is available."""
    balance = await ledger.find_balance(tx, merchant_id, "USD")
    return balance.available if balance else 0


async def refused(tx: Tx, step: Any, field: str) -> str:
    """See that a step is refused because of ``field`` and changes nothing; return the reason."""
    before = await dump(tx)
    with pytest.raises(Invalid) as problem:
        async with tx.transaction():
            await step
    assert problem.value.field == field
    assert await dump(tx) == before
    return problem.value.reason or ""


OUT = [("PAYOUT", "available", "bank", 2_500), ("FEE", "available", "platform", 150)]
BACK = [
    ("PAYOUT", "bank", "available", 2_500),
    ("BALANCE_CORRECTION", "platform", "available", 150),
]
TABLE = (
    # from      event     to        posts  available after
    ("PENDING", "paid", "PAID", [], 7_350),
    ("PENDING", "failed", "FAILED", BACK, 10_000),
    ("PAID", "returned", "FAILED", BACK, 10_000),
)


async def test_a_payout_leaves_available_when_it_is_created(tx: Tx) -> None:
    owner = await shop(tx)
    payout = await created(tx, owner.id, fee_minor=150)
    assert (payout.status, payout.amount_minor, payout.fee_minor) == ("PENDING", 2_500, 150)
    assert (payout.created_by, payout.approved_by, payout.reason) == ("ann", None, "weekly")
    assert (await entries(tx, owner.id))[1:] == OUT
    assert await available(tx, owner.id) == 7_350


@pytest.mark.parametrize(("source", "event", "target", "posts", "left"), TABLE)
async def test_a_step_of_the_table(tx: Tx, source, event, target, posts, left) -> None:
    owner = await shop(tx)
    payout = await created(tx, owner.id, fee_minor=150)
    if source == "PAID":
        payout = await happen(tx, payout, "paid")
    assert payout.status == source
    after = await happen(tx, payout, event)
    assert after == await payouts.find(tx, owner.id, payout.id)
    assert (after.status, after.updated_at) == (target, LATER)
    was_paid = "PAID" in (source, target)
    assert (after.bank_reference, after.paid_at) == (("TRN-1", LATER) if was_paid else ("", None))
    failure = (after.failure_reason, after.failed_at)
    assert failure == (("account closed", LATER) if target == "FAILED" else ("", None))
    assert after.is_returned == (source == "PAID")
    assert (await entries(tx, owner.id))[3:] == posts
    assert await available(tx, owner.id) == left


def test_the_table_in_code_is_this_one() -> None:
    table = {(row[0], row[1]): row[2] for row in TABLE} | {(None, "created"): "PENDING"}
    assert {(step.source, step.event): step.target for step in TRANSITIONS} == table


NOT_POSSIBLE = [
    (before, event)
    for before in ([], ["paid"], ["failed"], ["paid", "returned"])
    for event in EVENTS[1:]
    if (before, event) not in (([], "paid"), ([], "failed"), (["paid"], "returned"))
]


@pytest.mark.parametrize(("before", "event"), NOT_POSSIBLE)
async def test_what_has_ended_does_not_end_again(tx: Tx, before, event) -> None:
    payout = await created(tx, (await shop(tx)).id)
    for each in before:
        payout = await happen(tx, payout, each)
    reason = await refused(tx, happen(tx, payout, event), "payout")
    needed = "PAID" if event == "returned" else "PENDING"
    assert reason.startswith(f"payout must be {needed}: this one is {payout.status}")


PAID = "paid_at = 1, bank_reference = 'B'"
STATEMENTS = (
    # what has happened     what a statement sets                                     the rule
    (["paid"], "status = 'PENDING', paid_at = null, bank_reference = ''", "transitions"),
    (["failed"], "status = 'PENDING', failed_at = null, failure_reason = ''", "transitions"),
    (["failed"], f"status = 'PAID', failed_at = null, failure_reason = '', {PAID}", "transitions"),
    (["paid", "returned"], "status = 'PAID', failed_at = null, failure_reason = ''", "transitions"),
    (["paid", "returned"], "bank_reference = ''", "reference"),
    ([], "bank_reference = 'B'", "reference"),
    ([], PAID, "time"),
)  # fmt: skip


@pytest.mark.parametrize(("before", "change", "rule"), STATEMENTS)
async def test_the_database_refuses_what_is_not_in_the_table(tx: Tx, before, change, rule) -> None:
    payout = await created(tx, (await shop(tx)).id)
    for each in before:
        payout = await happen(tx, payout, each)
    with pytest.raises(asyncpg.CheckViolationError) as problem:
        async with tx.transaction():
            await tx.execute(f"update payouts set {change} where id = $1", payout.id)
    assert rule in str(problem.value.constraint_name)


async def test_after_a_return_the_money_can_be_paid_out_anew(tx: Tx) -> None:
    owner = await shop(tx)
    returned = await happen(
        tx, await happen(tx, await created(tx, owner.id, None), "paid"), "returned"
    )
    again = await created(tx, owner.id, None)
    assert (again.amount_minor, again.status) == (returned.amount_minor, "PENDING")
    assert (await happen(tx, again, "paid")).status == "PAID"
    assert (await check_books(tx))[1] == []


async def test_a_returned_payout_tells_the_merchant(tx: Tx) -> None:
    owner = await shop(tx)
    payout = await happen(tx, await created(tx, owner.id, fee_minor=150), "paid")
    await happen(tx, payout, "returned")
    await happen(tx, await created(tx, owner.id, 100), "failed")
    bodies = [
        msgspec.json.decode(row["body"])
        for row in await tx.fetch(
            "select body from events where merchant_id = $1 order by id", owner.id
        )
    ]
    events = [(body["type"], body["data"].get("returned")) for body in bodies]
    assert events == [("payout.paid", None), ("payout.failed", True), ("payout.failed", False)]
    assert bodies[1]["data"] == {
        "payout_id": payout.id, "amount": "25.00", "fee": "1.50", "currency": "USD",
        "status": "FAILED", "failure_reason": "account closed", "failed_at": LATER,
        "returned": True,
    }  # fmt: skip


async def test_a_failed_payout_restores_the_balance_exactly(tx: Tx) -> None:
    owner = await shop(tx, 33_333)
    before = await ledger.find_balance(tx, owner.id, "USD")
    assert before is not None
    await happen(tx, await created(tx, owner.id, None, fee_minor=7), "failed")
    after = await ledger.find_balance(tx, owner.id, "USD")
    assert after is not None
    accounts = ("pending", "available", "frozen", "reserve", "gateway", "bank", "platform")
    assert [getattr(after, a) for a in accounts] == [getattr(before, a) for a in accounts]


async def test_everything_available_is_what_the_fee_leaves(tx: Tx) -> None:
    owner = await shop(tx, 10_000)
    payout = await created(tx, owner.id, None, fee_minor=150)
    assert (payout.amount_minor, await available(tx, owner.id)) == (9_850, 0)


REFUSED: tuple[tuple[int, dict[str, Any], dict[str, Any], str, str], ...] = (
    # available  terms             payout                         field          the reason says
    (10_000, {}, {"amount": 10_001}, "amount", "at most what is available: 100.00 USD"),
    (10_000, {}, {"amount": 10_000, "fee_minor": 1}, "amount", "with the fee of 0.01 USD: 100.00"),
    (0, {}, {"amount": 1}, "amount", "until something is available: it is 0.00 USD"),
    (0, {}, {"amount": None}, "amount", "until something is available: it is 0.00 USD"),
    (100, {}, {"amount": None, "fee_minor": 100}, "amount", "with the fee of 1.00 USD: 1.00 USD"),
    (10_000, {}, {"amount": 0}, "amount", "more than 0.00"),
    (10_000, {}, {"amount": -1}, "amount", "more than 0.00"),
    (10_000, {}, {"amount": 10**15 + 1}, "amount", "at most 10000000000000.00 USD"),
    (10_000, {}, {"fee_minor": -1}, "fee", "more than 0.00"),
    (10_000, {"payout_minimum_minor": 2_501}, {}, "amount", "at least 25.01 USD"),
    (2_500, {"payout_minimum_minor": 2_501}, {"amount": None}, "amount", "at least 25.01 USD"),
    (10_000, {}, {"reason": " "}, "reason", "printable"),
    (10_000, {}, {"by": ""}, "by", "printable"),
    (10_000, {}, {"reference": ""}, "reference", "1 to 64"),
    (10_000, {}, {"reference": "a" * 65}, "reference", "1 to 64"),
    (10_000, {}, {"reference": "a\x00"}, "reference", "printable"),
    (10_000, {}, {"approved_by": "ANN "}, "by", "another operator than ann"),
)


@pytest.mark.parametrize(("has", "terms", "what", "field", "says"), REFUSED)
async def test_what_cannot_be_paid_out(tx: Tx, has, terms, what, field, says) -> None:
    owner = await shop(tx, has, **terms)
    assert says in await refused(tx, created(tx, owner.id, **what), field)


async def test_nothing_is_paid_out_while_available_is_below_zero(tx: Tx) -> None:
    owner = await shop(tx, 100)
    await take(tx, owner.id, 300)
    assert await available(tx, owner.id) == -200
    for amount in (1, None):
        reason = await refused(tx, created(tx, owner.id, amount), "amount")
        assert reason == "amount must wait until something is available: it is -2.00 USD"


async def take(tx: Tx, merchant_id: str, amount: int) -> None:
    """Correct the balance downwards, because of some order."""
    mug = await product(tx, merchant_id)
    order_id = (await session(tx, merchant_id, mug.id)).order_id
    asked = adjustments.AdjustmentRequest(
        kind="correct",
        amount_minor=-amount,
        reference=fresh(),
        reason="twice",
        by="ann",
        order_id=order_id,
    )
    await adjustments.request(tx, merchant_id, asked, None, NOW)


async def test_the_same_reference_is_the_same_payout(tx: Tx) -> None:
    owner = await shop(tx)
    first = await created(tx, owner.id, fee_minor=150, reference="W-1")
    before = await dump(tx)
    for amount in (2_500, None):
        again = await created(tx, owner.id, amount, fee_minor=150, reference=" W-1 ", reason="")
        assert again == first
    assert await dump(tx) == before
    for what in ({"amount": 2_501, "fee_minor": 150}, {"fee_minor": 0}):
        reason = await refused(tx, created(tx, owner.id, reference="W-1", **what), "reference")
        assert first.id in reason
    other = await created(tx, (await shop(tx)).id, 100, reference="W-1")
    assert other.id != first.id


async def test_the_same_reference_stays_the_payout_that_failed(tx: Tx) -> None:
    owner = await shop(tx)
    failed = await happen(tx, await created(tx, owner.id, reference="W-1"), "failed")
    assert await created(tx, owner.id, reference="W-1") == failed


APPROVAL = (
    # limit     amount  fee  approved by  refused
    (None, 9_000, 0, None, False),
    ("50", 5_000, 0, None, False),
    ("50", 5_001, 0, None, True),
    ("50", 4_999, 2, None, True),
    ("50", 5_001, 0, "bob", False),
    ("0", 1, 0, None, True),
    ("50", None, 0, None, True),
    ("50", None, 0, "bob", False),
)


@pytest.mark.parametrize(("limit", "amount", "fee", "approved_by", "is_refused"), APPROVAL)
async def test_a_second_operator(tx: Tx, limit, amount, fee, approved_by, is_refused) -> None:
    owner = await shop(tx)
    above = None if limit is None else Decimal(limit)
    ask = wanted(amount, fee_minor=fee, approved_by=approved_by)
    work = payouts.create(tx, owner.id, ask, above, NOW)
    if is_refused:
        assert "second person" in await refused(tx, work, "amount")
    else:
        assert (await work).approved_by == approved_by


async def test_every_step_is_in_the_audit_log(tx: Tx) -> None:
    owner = await shop(tx)
    first = await created(tx, owner.id, fee_minor=150, approved_by="bob")
    await happen(tx, first, "paid")
    second = await created(tx, owner.id, None)
    await happen(tx, second, "failed")
    rows = list(reversed(await merchants.audit_log(tx, owner.id)))[2:]  # made, and recharged
    assert [(row.who, row.action, row.subject, row.reason) for row in rows] == [
        (
            "ann",
            "payouts create",
            f"{first.id}: 25.00 USD, fee 1.50 USD, approved by bob",
            "weekly",
        ),
        ("ann", "payouts paid", f"{first.id} TRN-1", "sent"),
        ("ann", "payouts create", f"{second.id}: everything available", "weekly"),
        ("ann", "payouts failed", second.id, "account closed"),
    ]


@pytest.mark.parametrize("bank_reference", ["", " ", "a" * 141, "a\nb"])
async def test_a_bank_reference_is_text(tx: Tx, bank_reference) -> None:
    payout = await created(tx, (await shop(tx)).id)
    work = payouts.pay(tx, payout.id, bank_reference, "sent", "ann", LATER)
    await refused(tx, work, "bank-reference")


async def test_a_failure_says_why(tx: Tx) -> None:
    payout = await created(tx, (await shop(tx)).id)
    await refused(tx, payouts.fail(tx, payout.id, " ", "ann", LATER), "reason")


async def test_what_is_not_there(tx: Tx) -> None:
    owner, stranger = await shop(tx), await shop(tx)
    payout = await created(tx, owner.id)
    with pytest.raises(NotFound, match="there is no merchant mer_x"):
        await created(tx, "mer_x")
    with pytest.raises(NotFound, match="there is no payout po_x"):
        await payouts.pay(tx, "po_x", "TRN", "sent", "ann", LATER)
    with pytest.raises(NotFound):
        await payouts.find(tx, stranger.id, payout.id)
    assert await payouts.search(tx, stranger.id) == []
    assert await payouts.search(tx, owner.id, "PENDING") == [payout]


async def test_currencies_without_decimals(tx: Tx) -> None:
    owner = await shop(tx, 500, settlement_currency="JPY")
    ask = wanted(500)
    with pytest.raises(Invalid, match="second person"):
        async with tx.transaction():
            await payouts.create(tx, owner.id, ask, Decimal("499.99"), NOW)
    payout = await payouts.create(tx, owner.id, ask, Decimal(500), NOW)
    assert payouts.PayoutOut.of(payout).amount == "500.00"
