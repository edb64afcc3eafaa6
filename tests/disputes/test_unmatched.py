"""Dispute events that cannot be applied are stored and retried, until staff dismiss them."""

import pytest

from opentill import disputes, orders
from opentill.core.errors import NotFound
from opentill.core.money import Money
from opentill.db.database import Db, Tx
from opentill.disputes import Event, jobs
from opentill.gateways import GatewayDisputeEvent
from opentill.orders import Order
from support.world import (
    NOW,
    create_order_in,
    create_refund,
    dump_rows,
    read_attempts,
    read_balances,
    read_entries,
    read_history,
    report_dispute,
    report_payment,
    report_refund,
    settle_order,
)

DAY = 86_400_000


async def list_open_unmatched(tx: Tx, order: Order) -> list[tuple[str, str]]:
    """Return the gateway reference and the status of each open unmatched dispute."""
    rows = await disputes.list_unmatched(tx, order.merchant_id)
    return [(row.gateway_ref, row.status) for row in rows]


async def retry(db: Db, now: int = NOW + DAY) -> None:
    """Run the worker's job that retries unmatched disputes, by default a day later."""
    await jobs.match(db, now)


async def order_status(tx: Tx, order: Order) -> str:
    return (await orders.find(tx, order.merchant_id, order.id)).status


async def test_a_second_dispute_opens_once_the_first_is_won(db: Db) -> None:
    async with db.connection() as tx:
        order = await create_order_in(tx, "PAID")
        await report_dispute(tx, order, "OPENED", ref="a")
        await report_dispute(tx, order, "OPENED", ref="b")
        await report_dispute(tx, order, "LOST", ref="b")
        assert await list_open_unmatched(tx, order) == [("b", "LOST")]
        await retry(db)
        assert await list_open_unmatched(tx, order) == [("b", "LOST")]
        await report_dispute(tx, order, "WON", ref="a")
        await retry(db, NOW + 2 * DAY)
        assert await list_open_unmatched(tx, order) == []
        assert await order_status(tx, order) == "CHARGEBACK"
        rows = await disputes.search(tx, order.merchant_id, None)
        assert sorted((row.gateway_ref, row.status) for row in rows) == [
            ("a", "WON"), ("b", "LOST"),
        ]  # fmt: skip


async def test_a_dispute_that_is_reported_before_the_payment_waits_for_it(db: Db) -> None:
    async with db.connection() as tx:
        order = await create_order_in(tx, "CREATING")
        attempt = await orders.last_attempt(tx, order.merchant_id, order.id)
        assert attempt is not None
        gateway_event = GatewayDisputeEvent(
            attempt_id=attempt.id, dispute_ref="early", status="LOST", amount=Money(999, "USD")
        )
        dispute = await disputes.apply_outcome(
            tx, order.merchant_id, gateway_event, NOW, gateway="sandbox"
        )
        assert dispute is None
        assert await list_open_unmatched(tx, order) == [("early", "LOST")]
        await report_payment(tx, attempt, "SUCCEEDED")
        await retry(db)
        assert (await list_open_unmatched(tx, order), await order_status(tx, order)) == (
            [],
            "CHARGEBACK",
        )
        assert await read_balances(tx, order) == (959 - 999 - 1500, 0, 0, 0)


# The number of minutes from the dispute to its payment.
@pytest.mark.parametrize("minutes", [0, 30])
async def test_a_dispute_that_overtook_its_payment_is_applied_right_after_it(
    db: Db, minutes: int
) -> None:
    async with db.connection() as tx:
        order = await create_order_in(tx, "CREATING")
        (attempt,) = await read_attempts(tx, order)
        await report_dispute(tx, order, "OPENED", attempt_id=attempt.id)
        unmatched = await list_open_unmatched(tx, order)
        now = NOW
        for minute in range(minutes):
            now = NOW + minute * 60_000
            await retry(db, now)
        assert await list_open_unmatched(tx, order) == unmatched == [("dispute-1", "OPENED")]
        assert await jobs.match(db, now + 1) == 0
        # The server that records the payment may have a clock that is behind.
        await report_payment(tx, attempt, "SUCCEEDED", now + 5 if minutes else now - 2_000)
        assert await jobs.match(db, now + 5) == 1
        assert await list_open_unmatched(tx, order) == []
        assert await order_status(tx, order) == "DISPUTED"


async def test_a_payment_causes_one_additional_retry_only(db: Db) -> None:
    """A second dispute stays unmatched while the first one is open."""
    async with db.connection() as tx:
        order = await create_order_in(tx, "DISPUTED")
        await report_dispute(tx, order, "OPENED", ref="b")
        counts = [
            await jobs.match(db, NOW + milliseconds) for milliseconds in (1, 2, 1_000, 60_000)
        ]
        assert counts == [1, 0, 0, 0]
        assert await jobs.match(db, NOW + 120_001) == 1


@pytest.mark.parametrize("reports", [["OPENED", "WON"], ["WON"], ["LOST", "RECOVERED"]])
async def test_an_unmatched_dispute_that_ends_without_a_loss_is_closed(tx: Tx, reports) -> None:
    order = await create_order_in(tx, "DISPUTED")
    for reported_status in reports:
        await report_dispute(tx, order, reported_status, ref="b")
    assert await list_open_unmatched(tx, order) == []
    assert await disputes.count_unmatched(tx) == 0


async def test_an_unmatched_loss_is_counted_until_it_is_dismissed(tx: Tx) -> None:
    order = await create_order_in(tx, "CHARGEBACK")
    for reported_status in ("OPENED", "LOST", "LOST", "OPENED"):
        await report_dispute(tx, order, reported_status, ref="b")
    assert await list_open_unmatched(tx, order) == [("b", "LOST")]
    assert await disputes.count_unmatched(tx) == 1
    dismissed = await disputes.dismiss(tx, order.merchant_id, "sandbox", "b", "ann", NOW)
    assert (dismissed.closed_by, await disputes.count_unmatched(tx)) == ("ann", 0)
    # The repeated report of the dismissed loss has no effect.
    await report_dispute(tx, order, "LOST", ref="b")
    assert await disputes.count_unmatched(tx) == 0
    # The dismissed loss was recovered, so staff must look at it.
    await report_dispute(tx, order, "RECOVERED", ref="b")
    assert await list_open_unmatched(tx, order) == [("b", "RECOVERED")]
    with pytest.raises(NotFound):
        await disputes.dismiss(tx, order.merchant_id, "sandbox", "c", "ann", NOW)


@pytest.mark.parametrize(("decision", "contradiction"), [("WON", "LOST"), ("LOST", "WON")])
async def test_a_contradicting_event_needs_attention(tx: Tx, decision, contradiction) -> None:
    order = await settle_order(tx, await create_order_in(tx, "PAID"))
    await report_dispute(tx, order, decision, ref="a")
    await report_dispute(tx, order, contradiction, ref="a")
    await report_dispute(tx, order, "OPENED", ref="a")
    assert await list_open_unmatched(tx, order) == [("a", contradiction)]
    assert await disputes.count_unmatched(tx) == 1
    assert f"dispute_{contradiction.lower()}_unmatched" in [
        line.event for line in await read_history(tx, order)
    ]


async def test_a_loss_whose_amount_a_refund_held_is_unmatched_if_the_refund_fails(
    db: Db, capsys: pytest.CaptureFixture[str]
) -> None:
    async with db.connection() as tx:
        order = await create_order_in(tx, "SETTLED")
        refund = await create_refund(tx, order)
        dispute = await report_dispute(tx, order, "OPENED", minor=999)
        assert (dispute.amount_minor, await list_open_unmatched(tx, order)) == (0, [])
        await report_refund(tx, refund, "REFUSED", reason="charge_disputed")
        # The refund fails while the dispute is still open.
        assert await list_open_unmatched(tx, order) == []
        capsys.readouterr()
        await report_dispute(tx, order, "LOST", minor=999)
        assert await list_open_unmatched(tx, order) == [("dispute-1", "LOST")]
        assert "dispute matches no order" in capsys.readouterr().out
        assert await read_balances(tx, order) == (0, 959 - 1500, 0, 0)
        for reported_status in ("LOST", "OPENED"):
            await report_dispute(tx, order, reported_status, minor=999)
        await retry(db)
        (unmatched,) = await disputes.list_unmatched(tx, order.merchant_id)
        assert unmatched.refusal.endswith(
            "took 0.00 USD: refunds that have not succeeded held more"
        )
        assert await disputes.count_unmatched(tx) == 1
        await disputes.dismiss(tx, order.merchant_id, "sandbox", "dispute-1", "ann", NOW)
        await report_dispute(tx, order, "LOST", minor=999)
        assert await disputes.count_unmatched(tx) == 0


@pytest.mark.parametrize(("outcome", "unmatched"), [("SUCCEEDED", []), ("REFUSED", ["LOST"])])
async def test_a_loss_during_a_refund_is_unmatched_unless_the_refund_succeeds(
    db: Db, outcome, unmatched
) -> None:
    async with db.connection() as tx:
        order = await create_order_in(tx, "PAID")
        refund = await create_refund(tx, order, "3.00")
        await report_dispute(tx, order, "LOST", minor=999)
        assert await list_open_unmatched(tx, order) == [("dispute-1", "LOST")]
        await report_refund(tx, refund, outcome)
        await retry(db)
        assert [status for _, status in await list_open_unmatched(tx, order)] == unmatched
        await report_dispute(tx, order, "RECOVERED", minor=999)
        assert await list_open_unmatched(tx, order) == []


async def test_a_loss_of_what_is_not_refunded_is_applied(tx: Tx) -> None:
    partly_lost = await create_order_in(tx, "PAID")
    await report_dispute(tx, partly_lost, "LOST", minor=300)
    partly_refunded = await create_order_in(tx, "PAID")
    await report_refund(tx, await create_refund(tx, partly_refunded, "3.00"), "SUCCEEDED")
    await report_dispute(tx, partly_refunded, "LOST", minor=999)
    for order in (partly_lost, partly_refunded):
        assert (await order_status(tx, order), await list_open_unmatched(tx, order)) == (
            "CHARGEBACK",
            [],
        )


async def dismiss(tx: Tx, order: Order, ref: str = "b") -> None:
    await disputes.dismiss(tx, order.merchant_id, "sandbox", ref, "ann", NOW)


async def open_manually(tx: Tx, order: Order) -> disputes.Dispute:
    return await disputes.open_manually(
        tx, order.merchant_id, order.id, who="ann", reason="a letter", now=NOW
    )


async def decide(tx: Tx, dispute: disputes.Dispute, event: Event) -> None:
    ids = (dispute.merchant_id, dispute.id)
    await disputes.decide(tx, *ids, event, who="ann", reason="a letter", now=NOW)


async def assert_ignored(db: Db, tx: Tx, order: Order, reports: list[str]) -> None:
    """Report dispute b and run the worker's job; check that no row changes."""
    before = await dump_rows(tx)
    for reported_status in reports:
        assert await report_dispute(tx, order, reported_status, ref="b") is None
    await retry(db)
    assert await dump_rows(tx) == before


async def test_a_dismissed_dispute_posts_no_entries(db: Db) -> None:
    """Staff have opened the same dispute manually, and decide it as the bank does."""
    async with db.connection() as tx:
        order = await create_order_in(tx, "SETTLED")
        manual_dispute = await open_manually(tx, order)
        await report_dispute(tx, order, "OPENED", ref="b")
        await dismiss(tx, order)
        await decide(tx, manual_dispute, "lost")
        await report_dispute(tx, order, "LOST", ref="b")
        assert await list_open_unmatched(tx, order) == [("b", "LOST")]
        await dismiss(tx, order)
        await decide(tx, manual_dispute, "recovered")
        assert await order_status(tx, order) == "SETTLED"
        await assert_ignored(db, tx, order, ["LOST", "OPENED"])
        before = await read_entries(tx, order.merchant_id)
        assert await report_dispute(tx, order, "RECOVERED", ref="b") is None
        (unmatched,) = await disputes.list_unmatched(tx, order.merchant_id)
        assert unmatched.status == "RECOVERED"
        assert unmatched.refusal == "an earlier report was closed: ann"
        assert await disputes.count_unmatched(tx) == 1
        for minutes in (1, 60):
            await retry(db, NOW + minutes * 60_000)
        await assert_ignored(db, tx, order, ["OPENED", "RECOVERED", "LOST"])
        await dismiss(tx, order)
        await assert_ignored(db, tx, order, ["OPENED", "LOST", "RECOVERED"])
        assert await read_entries(tx, order.merchant_id) == before
        assert len(await disputes.list_for_order(tx, order.merchant_id, order.id)) == 1


@pytest.mark.parametrize("repeated_reports", [["LOST"], ["OPENED", "LOST"]])
async def test_a_loss_that_staff_have_corrected_is_not_posted(db: Db, repeated_reports) -> None:
    async with db.connection() as tx:
        order = await create_order_in(tx, "DISPUTED")
        await report_dispute(tx, order, "LOST", ref="b")
        await dismiss(tx, order)
        await report_dispute(tx, order, "WON")
        await assert_ignored(db, tx, order, repeated_reports)
        assert (await order_status(tx, order), await disputes.count_unmatched(tx)) == ("PAID", 0)
        # The bank has returned the money of the loss that staff closed, so staff must decide again.
        for reported_status in ("WON", "RECOVERED"):
            await report_dispute(tx, order, reported_status, ref="b")
            assert await list_open_unmatched(tx, order) == [("b", reported_status)]


@pytest.mark.parametrize("dismissed_status", ["WON", "LOST"])
async def test_a_recovery_after_a_dismissal_needs_attention(db: Db, dismissed_status) -> None:
    """Staff have corrected the balance after a contradiction or a larger loss."""
    async with db.connection() as tx:
        order = await create_order_in(tx, "SETTLED")
        if dismissed_status == "LOST":
            refund = await create_refund(tx, order)
            await report_dispute(tx, order, "OPENED", ref="b", minor=999)
            await report_refund(tx, refund, "REFUSED", reason="charge_disputed")
        await report_dispute(tx, order, "LOST", ref="b", minor=999)
        if dismissed_status == "WON":
            await report_dispute(tx, order, "WON", ref="b", minor=999)
        assert await list_open_unmatched(tx, order) == [("b", dismissed_status)]
        await dismiss(tx, order)
        entries_before = await read_entries(tx, order.merchant_id)
        for _ in range(2):
            await report_dispute(tx, order, "RECOVERED", ref="b", minor=999)
            await retry(db, NOW + 2 * DAY)
            (unmatched,) = await disputes.list_unmatched(tx, order.merchant_id)
            assert unmatched.status == "RECOVERED"
            assert unmatched.refusal == "an earlier report was closed: ann"
        assert await disputes.count_unmatched(tx) == 1
        assert await order_status(tx, order) == "CHARGEBACK"
        await disputes.dismiss(tx, order.merchant_id, "sandbox", "b", "bob", NOW)
        history_before = await read_history(tx, order)
        await report_dispute(tx, order, "RECOVERED", ref="b", minor=999)
        assert await list_open_unmatched(tx, order) == []
        assert await read_entries(tx, order.merchant_id) == entries_before
        assert await read_history(tx, order) == history_before


async def test_a_dispute_that_was_won_while_unmatched_is_not_opened_afterwards(db: Db) -> None:
    async with db.connection() as tx:
        order = await create_order_in(tx, "DISPUTED")
        for reported_status in ("OPENED", "WON"):
            await report_dispute(tx, order, reported_status, ref="b")
        await report_dispute(tx, order, "WON")
        await assert_ignored(db, tx, order, ["OPENED", "WON"])
        assert await order_status(tx, order) == "PAID"
        await report_dispute(tx, order, "LOST", ref="b")  # this report contradicts the earlier one
        await retry(db)
        assert await list_open_unmatched(tx, order) == [("b", "LOST")]
        assert await order_status(tx, order) == "PAID"


@pytest.mark.parametrize("next_report", ["OPENED", "LOST"])
async def test_a_second_dispute_is_applied_by_its_next_report_unless_dismissed(
    db: Db, next_report
) -> None:
    async with db.connection() as tx:
        order = await create_order_in(tx, "DISPUTED")
        await report_dispute(tx, order, "OPENED", ref="b")
        await report_dispute(tx, order, "WON")
        dispute = await report_dispute(tx, order, next_report, ref="b")
        assert dispute is not None
        assert (await list_open_unmatched(tx, order), dispute.gateway_ref) == ([], "b")
        with pytest.raises(NotFound):  # the dispute is applied, so nothing can be dismissed
            await dismiss(tx, order)


async def test_a_retry_that_fails_for_another_reason_stores_that_reason(db: Db) -> None:
    async with db.transaction() as tx:
        order = await settle_order(tx, await create_order_in(tx, "PAID"))
        for reported_status in ("LOST", "WON", "RECOVERED"):
            await report_dispute(tx, order, reported_status, ref="a")
        (before,) = await disputes.list_unmatched(tx, order.merchant_id)
    await retry(db)
    async with db.connection() as tx:
        (after,) = await disputes.list_unmatched(tx, order.merchant_id)
        (dispute,) = await disputes.list_for_order(tx, order.merchant_id, order.id)
    assert before.refusal == f"{dispute.id} is LOST"
    assert (after.status, after.refusal) == ("WON", f"{dispute.id} is RECOVERED")


@pytest.mark.parametrize("decision", ["WON", "LOST"])
async def test_a_reopened_dispute_needs_attention(tx: Tx, decision: str) -> None:
    order = await create_order_in(tx, "SETTLED")
    await report_dispute(tx, order, "OPENED", respond_by=NOW + 1000)
    await report_dispute(tx, order, decision, NOW + 500)
    before = await read_entries(tx, order.merchant_id)
    # With the deadline of the first report, this is a late repetition and reopens nothing.
    await report_dispute(tx, order, "OPENED", NOW + 600, respond_by=NOW + 1000)
    assert await disputes.list_unmatched(tx, order.merchant_id) == []
    for _ in range(2):
        await report_dispute(tx, order, "OPENED", NOW + 700, respond_by=NOW + 9_000)
    (unmatched,) = await disputes.list_unmatched(tx, order.merchant_id)
    assert unmatched.refusal.endswith(f"is {decision}, and the gateway takes evidence again")
    assert await read_entries(tx, order.merchant_id) == before
