"""Comparisons find the differences on both sides, and change nothing."""

from typing import Any

import pytest

from opentill import disputes, orders, refunds
from opentill.db.database import Db, Tx
from opentill.gateways import RefundOutcome
from opentill.gateways.model import GatewayRefundEvent
from opentill.reconciliation import Result, queries, reconcile
from opentill.refunds import Refund
from support import prepaid, world
from support.world import DAY, NOW

HEAD = "kind,reference,amount,currency,settled_at"


class Books:
    """The ids of a paid attempt, of its refund, and of a declined attempt."""

    def __init__(self, paid: str, refund: str, declined: str) -> None:
        """Store the ids."""
        self.paid = paid
        self.refund = refund
        self.declined = declined

    def rows(self) -> list[str]:
        """Return the rows of a correct report."""
        return [f"payment,{self.paid},9.99,USD,{NOW}", f"refund,{self.refund},2.00,USD,{NOW + 5}"]


@pytest.fixture
async def books(db: Db) -> Books:
    """Create a paid order with a declined attempt and a refund."""
    order = await db.run(world.create_order)
    declined = await db.run(lambda tx: world.submit_attempt(tx, order))
    await db.run(lambda tx: world.report_payment(tx, declined, "DECLINED"))
    order = await db.run(lambda tx: world.pay_order(tx, order))
    refund = await db.run(lambda tx: world.create_refund(tx, order, "2.00", NOW + 1))
    await db.run(lambda tx: world.report_refund(tx, refund, "SUCCEEDED", NOW + 5))
    return Books(order.paid_attempt_id or "", refund.id, declined.id)


async def _compare(db: Db, rows: list[str], **options: Any) -> Result:
    async with db.connection() as tx:
        before = await world.dump_rows(tx)
    lines = [line + "\r\n" for line in (HEAD, *rows)]
    result = await reconcile(db, "sandbox", lines, **options)
    async with db.connection() as tx:
        assert await world.dump_rows(tx) == before
    return result


def _differences(result: Result) -> list[tuple[Any, ...]]:
    rows = [(row.what, row.kind, row.reference, row.line) for row in result.differences]
    assert result.difference_count == len(rows)
    return rows


async def test_a_correct_report_has_no_differences(db: Db, books: Books) -> None:
    result = await _compare(db, books.rows())
    assert _differences(result) == []
    assert (result.rows, result.items, result.matched) == (2, 2, 2)
    assert (result.since, result.until) == (NOW, NOW + 5)


async def test_a_report_of_a_merchants_own_account_is_compared_and_moves_nothing(db: Db) -> None:
    order = await db.run(world.create_order)
    await db.run(lambda tx: prepaid.adjust(tx, order.merchant_id, "topup", 100))
    attempt = await db.run(lambda tx: prepaid.submit_direct(tx, order))
    assert attempt is not None
    await db.run(lambda tx: world.report_payment(tx, attempt, "SUCCEEDED"))
    paid = await db.run(lambda tx: orders.find(tx, order.merchant_id, order.id))
    refund = await db.run(lambda tx: world.create_refund(tx, paid, "2.00", NOW + 1))
    await db.run(lambda tx: world.report_refund(tx, refund, "SUCCEEDED", NOW + 5))
    await db.run(lambda tx: world.report_dispute(tx, paid, "LOST"))
    rows = [
        f"payment,{attempt.id},9.99,USD,{NOW}", f"refund,{refund.id},2.00,USD,{NOW + 5}",
        f"chargeback,{attempt.id},7.99,USD,{NOW + 9}",
    ]  # fmt: skip
    assert _differences(await _compare(db, rows)) == []
    wrong = [rows[0].replace("9.99", "9.98"), *rows[1:]]
    assert [row[0] for row in _differences(await _compare(db, wrong))] == ["different"]


async def test_items_may_be_missing_in_the_report(db: Db, books: Books) -> None:
    result = await _compare(db, books.rows()[:1], whole=True)
    assert _differences(result) == [("missing in report", "refund", books.refund, None)]
    result = await _compare(db, [], whole=True)
    assert len(_differences(result)) == 2


async def test_rows_may_be_missing_in_the_ledger(db: Db, books: Books) -> None:
    result = await _compare(db, [*books.rows(), f"payment,att_x,1.00,USD,{NOW}"])
    assert _differences(result) == [("missing in ledger", "payment", "att_x", 4)]


async def test_duplicate_rows_are_reported(db: Db, books: Books) -> None:
    result = await _compare(db, [*books.rows(), *books.rows()])
    assert sorted(_differences(result)) == [
        ("double in report", "payment", books.paid, 4),
        ("double in report", "refund", books.refund, 5),
    ]


@pytest.mark.parametrize(("old", "new"), [(",9.99,USD", ",9.98,USD"), (",9.99,USD", ",9.99,EUR")])
async def test_another_amount_or_currency_is_a_difference(
    db: Db, books: Books, old: str, new: str
) -> None:
    result = await _compare(db, [row.replace(old, new) for row in books.rows()])
    assert _differences(result) == [("different", "payment", books.paid, 2)]
    assert result.differences[0].ours == "9.99 USD SUCCEEDED"


async def test_a_payment_that_was_declined_here_is_a_difference(db: Db, books: Books) -> None:
    result = await _compare(db, [*books.rows(), f"payment,{books.declined},9.99,USD,{NOW}"])
    assert _differences(result) == [("different", "payment", books.declined, 4)]
    assert "DECLINED" in result.differences[0].ours


async def test_a_row_of_the_wrong_kind_does_not_match(db: Db, books: Books) -> None:
    rows = [row.replace("refund,", "payment,") for row in books.rows()]
    result = await _compare(db, rows, until=NOW + 5)
    assert sorted(_differences(result)) == [
        ("missing in ledger", "payment", books.refund, 3),
        ("missing in report", "refund", books.refund, None),
    ]


async def test_items_outside_the_times_are_not_missing(db: Db, books: Books) -> None:
    other = f"payment,att_x,1.00,USD,{NOW + DAY}"
    result = await _compare(db, [other], since=NOW + DAY, until=NOW + 2 * DAY)
    assert _differences(result) == [("missing in ledger", "payment", "att_x", 2)]
    result = await _compare(db, [*books.rows(), other], since=NOW, until=NOW + 10)
    assert _differences(result) == []


async def test_an_item_settled_at_another_time_is_found_by_its_reference(
    db: Db, books: Books
) -> None:
    later = [row.replace(str(NOW), str(NOW + 3 * DAY)) for row in books.rows()[:1]]
    assert _differences(await _compare(db, later)) == []


async def test_another_gateways_items_do_not_match(db: Db, books: Books) -> None:
    lines = [f"{HEAD}\n", *(row + "\n" for row in books.rows())]
    result = await reconcile(db, "stripe", lines)
    assert [difference.what for difference in result.differences] == ["missing in ledger"] * 2


async def test_a_returned_duplicate_is_a_payment_and_a_refund(db: Db) -> None:
    order = await db.run(world.create_order)
    first = await db.run(lambda tx: world.submit_attempt(tx, order))
    await db.run(lambda tx: world.report_payment(tx, first, "DECLINED"))
    await db.run(lambda tx: world.pay_order(tx, order))
    duplicate = await db.run(lambda tx: world.report_payment(tx, first, "SUCCEEDED"))
    assert duplicate.status == "DUPLICATE"
    async with db.connection() as tx:
        paid = await world.orders.find(tx, order.merchant_id, order.id)
    rows = [
        f"payment,{paid.paid_attempt_id},9.99,USD,{NOW}",
        f"payment,{first.id},9.99,USD,{NOW}",
    ]
    assert _differences(await _compare(db, rows)) == []
    outcome = world.RefundOutcome(status="SUCCEEDED")
    await db.run(lambda tx: world.orders.apply_duplicate_return(tx, duplicate, outcome, NOW))
    assert _differences(await _compare(db, rows, until=NOW)) == []
    assert _differences(await _compare(db, rows, since=NOW, until=NOW)) == [
        ("missing in report", "refund", first.id, None)
    ]
    assert _differences(await _compare(db, [*rows, f"refund,{first.id},9.99,USD,{NOW}"])) == []


@pytest.mark.parametrize("end", ["SUCCEEDED", "REFUSED"])
async def test_a_duplicate_payment_has_the_time_of_its_arrival(db: Db, end: str) -> None:
    order = await db.run(world.create_order)
    duplicate = await db.run(lambda tx: world.pay_order_twice(tx, order))
    outcome = world.RefundOutcome(status=end)
    await db.run(lambda tx: world.orders.apply_duplicate_return(tx, duplicate, outcome, NOW + DAY))
    rows = [f"refund,{duplicate.id},9.99,USD,{NOW + DAY}"] if end == "SUCCEEDED" else []
    assert _differences(await _compare(db, rows, since=NOW + DAY, until=NOW + 2 * DAY)) == []
    attempts = await db.read(lambda tx: world.read_attempts(tx, order))
    (first,) = [attempt for attempt in attempts if attempt.status == "SUCCEEDED"]
    rows = [f"payment,{first.id},9.99,USD,{NOW}"]
    assert _differences(await _compare(db, rows, since=NOW, until=NOW + 1)) == [
        ("missing in report", "payment", duplicate.id, None)
    ]


async def _create_dispute(db: Db, *ends: str) -> disputes.Dispute:
    """Open a dispute, report ``ends`` at the next milliseconds, and add a note a day later."""
    order = await db.run(lambda tx: world.create_order_in(tx, "PAID"))
    for number, end in enumerate(("OPENED", *ends), 1):
        now = NOW + number
        await db.run(lambda tx, end=end, now=now: world.report_dispute(tx, order, end, now))
    (dispute,) = await db.read(lambda tx: disputes.list_for_order(tx, order.merchant_id, order.id))
    ids = dispute.merchant_id, dispute.id
    await db.run(lambda tx: disputes.add_note(tx, *ids, "It is over.", "ann", NOW + DAY))
    return dispute


async def test_a_recovery_has_the_time_of_its_entry(db: Db) -> None:
    dispute = await _create_dispute(db, "LOST", "RECOVERED")
    assert _differences(await _compare(db, [], since=NOW + 4, until=NOW + 2 * DAY)) == []
    assert _differences(await _compare(db, [], since=NOW + 3, until=NOW + 3)) == [
        ("missing in report", "recovery", dispute.id, None)
    ]


async def test_money_taken_when_a_dispute_opens_is_recovered_when_it_is_won(db: Db) -> None:
    dispute = await _create_dispute(db, "WON")
    async with db.connection() as tx:
        items = await queries.NAMED.all(tx, gateway="sandbox", names=[dispute.id], at_once=True)
    times = {item.kind: item.at - NOW for item in items}
    assert times == {"chargeback": 1, "recovery": 2}


async def test_repeated_rows_are_numbered(db: Db, books: Books) -> None:
    unknown = f"payment,att_x,1.00,USD,{NOW}"
    rows = [*books.rows(), *books.rows()[:1] * 2, unknown, unknown]
    result = await _compare(db, rows)
    assert [(row.what, row.reference, row.theirs, row.line) for row in result.differences] == [
        ("double in report", books.paid, "9.99 USD", 4),
        ("double in report", books.paid, "9.99 USD, no. 2", 5),
        ("missing in ledger", "att_x", "1.00 USD", 6),
        ("missing in ledger", "att_x", "1.00 USD, no. 2", 7),
    ]


def _failure_report(refund: Refund) -> GatewayRefundEvent:
    outcome = RefundOutcome(status="REFUSED", reason="account closed")
    return GatewayRefundEvent(attempt_id=refund.attempt_id, refund_id=refund.id, outcome=outcome)


async def test_a_reversed_refund_is_a_refund_and_its_return(db: Db, books: Books) -> None:
    rows = [*books.rows(), f"refund_failure,{books.refund},2.00,USD,{NOW + 9}"]
    assert _differences(await _compare(db, rows)) == [
        ("missing in ledger", "refund_failure", books.refund, 4)
    ]
    async with db.connection() as tx:
        refund = await refunds.find_anywhere(tx, books.refund)
    await db.run(
        lambda tx: refunds.apply_report(
            tx, refund.merchant_id, _failure_report(refund), NOW + 9, gateway="sandbox"
        )
    )
    assert _differences(await _compare(db, rows)) == []
    assert _differences(await _compare(db, rows[:2], until=NOW + 9)) == [
        ("missing in report", "refund_failure", books.refund, None)
    ]


async def test_a_failed_refund_that_the_report_reverses_is_no_difference(
    db: Db, books: Books
) -> None:
    async def create_failed_refund(tx: Tx) -> Refund:
        paid = await world.create_order_in(tx, "PAID")
        return await world.report_refund(
            tx, await world.create_refund(tx, paid, "2.00"), "REFUSED", NOW
        )

    refund = await db.run(create_failed_refund)
    rows = [
        *books.rows(),
        f"payment,{refund.attempt_id},9.99,USD,{NOW}",
        f"refund,{refund.id},2.00,USD,{NOW + 3}",
        f"refund_failure,{refund.id},2.00,USD,{NOW + 4}",
    ]
    assert _differences(await _compare(db, rows)) == []
    assert _differences(await _compare(db, rows[:-1])) == [("different", "refund", refund.id, 5)]
    rows[-1] = f"refund_failure,{refund.id},1.00,USD,{NOW + 4}"
    assert [what for what, *_ in _differences(await _compare(db, rows))] == [
        "different",
        "missing in ledger",
    ]


async def test_a_failed_payment_without_a_dispute_is_a_difference(db: Db, books: Books) -> None:
    rows = [*books.rows(), f"payment_failure,{books.paid},9.99,USD,{NOW + 9}"]
    assert _differences(await _compare(db, rows)) == [
        ("missing in ledger", "payment_failure", books.paid, 4)
    ]
