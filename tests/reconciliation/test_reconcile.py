"""What differs between a report and the books is found, on either side, and nothing is changed."""

from typing import Any

import pytest

from opentill import disputes, refunds
from opentill.db.database import Db, Tx
from opentill.gateways import RefundOutcome
from opentill.gateways.model import GatewayRefundEvent
from opentill.reconciliation import Result, queries, reconcile
from opentill.refunds import Refund
from support import world
from support.world import DAY, NOW

HEAD = "kind,reference,amount,currency,settled_at"


class Books:
    """A paid order with a refund, and a declined attempt."""

    def __init__(self, paid: str, refund: str, declined: str) -> None:
        """Keep the ids."""
        self.paid = paid
        self.refund = refund
        self.declined = declined

    def rows(self) -> list[str]:
        """Return what the gateway should say."""
        return [f"payment,{self.paid},9.99,USD,{NOW}", f"refund,{self.refund},2.00,USD,{NOW + 5}"]


@pytest.fixture
async def books(db: Db) -> Books:
    """Do some business."""
    order = await db.run(world.opened)
    lost = await db.run(lambda tx: world.submitted(tx, order))
    await db.run(lambda tx: world.said(tx, lost, "DECLINED"))
    order = await db.run(lambda tx: world.paid(tx, order))
    refund = await db.run(lambda tx: world.refunded(tx, order, "2.00", NOW + 1))
    await db.run(lambda tx: world.refund_said(tx, refund, "SUCCEEDED", NOW + 5))
    return Books(order.paid_attempt_id or "", refund.id, lost.id)


async def _compare(db: Db, rows: list[str], **how: Any) -> Result:
    async with db.connection() as tx:
        before = await world.dump(tx)
    lines = [line + "\r\n" for line in (HEAD, *rows)]
    result = await reconcile(db, "sandbox", lines, **how)
    async with db.connection() as tx:
        assert await world.dump(tx) == before
    return result


def _found(result: Result) -> list[tuple[Any, ...]]:
    found = [(d.what, d.kind, d.reference, d.line) for d in result.differences]
    assert result.found == len(found)
    return found


async def test_a_report_that_is_right(db: Db, books: Books) -> None:
    result = await _compare(db, books.rows())
    assert _found(result) == []
    assert (result.rows, result.items, result.matched) == (2, 2, 2)
    assert (result.since, result.until) == (NOW, NOW + 5)


async def test_what_the_report_lacks(db: Db, books: Books) -> None:
    result = await _compare(db, books.rows()[:1], whole=True)
    assert _found(result) == [("missing in report", "refund", books.refund, None)]
    result = await _compare(db, [], whole=True)
    assert len(_found(result)) == 2


async def test_what_the_books_lack(db: Db, books: Books) -> None:
    result = await _compare(db, [*books.rows(), f"payment,att_x,1.00,USD,{NOW}"])
    assert _found(result) == [("missing in ledger", "payment", "att_x", 4)]


async def test_what_is_there_twice(db: Db, books: Books) -> None:
    result = await _compare(db, [*books.rows(), *books.rows()])
    assert sorted(_found(result)) == [
        ("double in report", "payment", books.paid, 4),
        ("double in report", "refund", books.refund, 5),
    ]


@pytest.mark.parametrize(("old", "new"), [(",9.99,USD", ",9.98,USD"), (",9.99,USD", ",9.99,EUR")])
async def test_another_amount_or_currency(db: Db, books: Books, old: str, new: str) -> None:
    result = await _compare(db, [row.replace(old, new) for row in books.rows()])
    assert _found(result) == [("different", "payment", books.paid, 2)]
    assert result.differences[0].ours == "9.99 USD SUCCEEDED"


async def test_paid_there_and_declined_here(db: Db, books: Books) -> None:
    result = await _compare(db, [*books.rows(), f"payment,{books.declined},9.99,USD,{NOW}"])
    assert _found(result) == [("different", "payment", books.declined, 4)]
    assert "DECLINED" in result.differences[0].ours


async def test_a_row_of_the_wrong_kind_does_not_match(db: Db, books: Books) -> None:
    result = await _compare(db, [row.replace("refund,", "payment,") for row in books.rows()])
    assert sorted(_found(result)) == [
        ("missing in ledger", "payment", books.refund, 3),
        ("missing in report", "refund", books.refund, None),
    ]


async def test_outside_of_the_times_nothing_is_missing(db: Db, books: Books) -> None:
    other = f"payment,att_x,1.00,USD,{NOW + DAY}"
    result = await _compare(db, [other], since=NOW + DAY, until=NOW + 2 * DAY)
    assert _found(result) == [("missing in ledger", "payment", "att_x", 2)]
    result = await _compare(db, [*books.rows(), other], since=NOW, until=NOW + 10)
    assert _found(result) == []


async def test_what_the_gateway_settled_at_another_time_is_found_by_its_name(
    db: Db, books: Books
) -> None:
    later = [row.replace(str(NOW), str(NOW + 3 * DAY)) for row in books.rows()[:1]]
    assert _found(await _compare(db, later)) == []


async def test_another_gateway_has_nothing(db: Db, books: Books) -> None:
    lines = [f"{HEAD}\n", *(row + "\n" for row in books.rows())]
    result = await reconcile(db, "stripe", lines)
    assert [difference.what for difference in result.differences] == ["missing in ledger"] * 2


async def test_a_duplicate_that_was_given_back_is_a_payment_and_a_refund(db: Db) -> None:
    order = await db.run(world.opened)
    first = await db.run(lambda tx: world.submitted(tx, order))
    await db.run(lambda tx: world.said(tx, first, "DECLINED"))
    await db.run(lambda tx: world.paid(tx, order))
    again = await db.run(lambda tx: world.said(tx, first, "SUCCEEDED"))
    assert again.status == "DUPLICATE"
    async with db.connection() as tx:
        paid = await world.orders.find(tx, order.merchant_id, order.id)
    rows = [
        f"payment,{paid.paid_attempt_id},9.99,USD,{NOW}",
        f"payment,{first.id},9.99,USD,{NOW}",
    ]
    assert _found(await _compare(db, rows)) == []
    outcome = world.RefundOutcome(status="SUCCEEDED")
    await db.run(lambda tx: world.orders.apply_duplicate_return(tx, again, outcome, NOW))
    assert _found(await _compare(db, rows)) == [("missing in report", "refund", first.id, None)]
    assert _found(await _compare(db, [*rows, f"refund,{first.id},9.99,USD,{NOW}"])) == []


@pytest.mark.parametrize("end", ["SUCCEEDED", "REFUSED"])
async def test_a_second_payment_is_of_the_day_on_which_it_came(db: Db, end: str) -> None:
    order = await db.run(world.opened)
    again = await db.run(lambda tx: world.paid_twice(tx, order))
    outcome = world.RefundOutcome(status=end)
    await db.run(lambda tx: world.orders.apply_duplicate_return(tx, again, outcome, NOW + DAY))
    back = [f"refund,{again.id},9.99,USD,{NOW + DAY}"] if end == "SUCCEEDED" else []
    assert _found(await _compare(db, back, since=NOW + DAY, until=NOW + 2 * DAY)) == []
    made = await db.read(lambda tx: world.attempts(tx, order))
    (first,) = [one for one in made if one.status == "SUCCEEDED"]
    paid = [f"payment,{first.id},9.99,USD,{NOW}"]
    found = _found(await _compare(db, paid, since=NOW, until=NOW + 1))
    assert found == [("missing in report", "payment", again.id, None)]


async def _noted_later(db: Db, *ends: str) -> disputes.Dispute:
    """End a dispute, a moment after each other, and note something about it a day later."""
    order = await db.run(lambda tx: world.in_status(tx, "PAID"))
    for number, end in enumerate(("OPENED", *ends), 1):
        now = NOW + number
        await db.run(lambda tx, end=end, now=now: world.dispute_said(tx, order, end, now))
    (ended,) = await db.read(lambda tx: disputes.list_for_order(tx, order.merchant_id, order.id))
    ids = ended.merchant_id, ended.id
    await db.run(lambda tx: disputes.add_note(tx, *ids, "It is over.", "ann", NOW + DAY))
    return ended


async def test_a_recovery_is_of_the_day_on_which_the_money_came(db: Db) -> None:
    dispute = await _noted_later(db, "LOST", "RECOVERED")
    assert _found(await _compare(db, [], since=NOW + 4, until=NOW + 2 * DAY)) == []
    found = _found(await _compare(db, [], since=NOW + 3, until=NOW + 3))
    assert found == [("missing in report", "recovery", dispute.id, None)]


async def test_money_taken_at_once_comes_back_when_the_dispute_is_won(db: Db) -> None:
    dispute = await _noted_later(db, "WON")
    async with db.connection() as tx:
        found = await queries.NAMED.all(tx, gateway="sandbox", names=[dispute.id], at_once=True)
    times = {one.kind: one.at - NOW for one in found}
    assert times == {"chargeback": 1, "recovery": 2}


async def test_what_is_there_three_times_is_two_differences(db: Db, books: Books) -> None:
    unknown = f"payment,att_x,1.00,USD,{NOW}"
    rows = [*books.rows(), *books.rows()[:1] * 2, unknown, unknown]
    result = await _compare(db, rows)
    assert [(one.what, one.reference, one.theirs, one.line) for one in result.differences] == [
        ("double in report", books.paid, "9.99 USD", 4),
        ("double in report", books.paid, "9.99 USD, no. 2", 5),
        ("missing in ledger", "att_x", "1.00 USD", 6),
        ("missing in ledger", "att_x", "1.00 USD, no. 2", 7),
    ]


def _reported(refund: Refund) -> GatewayRefundEvent:
    outcome = RefundOutcome(status="REFUSED", reason="account closed")
    return GatewayRefundEvent(attempt_id=refund.attempt_id, refund_id=refund.id, outcome=outcome)


async def test_a_reversed_refund_is_a_refund_and_its_return(db: Db, books: Books) -> None:
    rows = [*books.rows(), f"refund_failure,{books.refund},2.00,USD,{NOW + 9}"]
    assert _found(await _compare(db, rows)) == [
        ("missing in ledger", "refund_failure", books.refund, 4)
    ]
    async with db.connection() as tx:
        refund = await refunds.find_anywhere(tx, books.refund)
    await db.run(
        lambda tx: refunds.apply_report(
            tx, refund.merchant_id, _reported(refund), NOW + 9, gateway="sandbox"
        )
    )
    assert _found(await _compare(db, rows)) == []
    assert _found(await _compare(db, rows[:2], until=NOW + 9)) == [
        ("missing in report", "refund_failure", books.refund, None)
    ]


async def test_a_failed_refund_that_the_gateway_counts_and_takes_back_is_no_difference(
    db: Db, books: Books
) -> None:
    async def work(tx: Tx) -> Refund:
        paid = await world.in_status(tx, "PAID")
        return await world.refund_said(tx, await world.refunded(tx, paid, "2.00"), "REFUSED", NOW)

    refund = await db.run(work)
    rows = [
        *books.rows(),
        f"payment,{refund.attempt_id},9.99,USD,{NOW}",
        f"refund,{refund.id},2.00,USD,{NOW + 3}",
        f"refund_failure,{refund.id},2.00,USD,{NOW + 4}",
    ]
    assert _found(await _compare(db, rows)) == []
    (only,) = _found(await _compare(db, rows[:-1]))
    assert only == ("different", "refund", refund.id, 5)
    rows[-1] = f"refund_failure,{refund.id},1.00,USD,{NOW + 4}"
    assert [what for what, *_ in _found(await _compare(db, rows))] == [
        "different",
        "missing in ledger",
    ]


async def test_a_payment_that_was_taken_back_without_a_dispute_is_a_difference(
    db: Db, books: Books
) -> None:
    rows = [*books.rows(), f"payment_failure,{books.paid},9.99,USD,{NOW + 9}"]
    assert _found(await _compare(db, rows)) == [
        ("missing in ledger", "payment_failure", books.paid, 4)
    ]
