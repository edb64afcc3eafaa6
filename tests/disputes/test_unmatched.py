"""News of disputes that an order cannot take: kept, applied once it can be, or seen to."""

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
    attempts,
    balances,
    dispute_said,
    dump,
    entries,
    history,
    in_status,
    refund_said,
    refunded,
    said,
    settled,
)

DAY = 86_400_000


async def open_rows(tx: Tx, order: Order) -> list[tuple[str, str]]:
    return [
        (one.gateway_ref, one.status)
        for one in await disputes.list_unmatched(tx, order.merchant_id)
    ]


async def retry(db: Db, now: int = NOW + DAY) -> None:
    """What the worker does, a day later."""
    await jobs.match(db, now)


async def status(tx: Tx, order: Order) -> str:
    return (await orders.find(tx, order.merchant_id, order.id)).status


async def test_a_second_dispute_opens_once_the_first_is_won(db: Db) -> None:
    async with db.connection() as tx:
        order = await in_status(tx, "PAID")
        await dispute_said(tx, order, "OPENED", ref="a")
        await dispute_said(tx, order, "OPENED", ref="b")
        await dispute_said(tx, order, "LOST", ref="b")
        assert await open_rows(tx, order) == [("b", "LOST")]
        await retry(db)
        assert await open_rows(tx, order) == [("b", "LOST")]
        await dispute_said(tx, order, "WON", ref="a")
        await retry(db, NOW + 2 * DAY)
        assert await open_rows(tx, order) == []
        assert await status(tx, order) == "CHARGEBACK"
        known = await disputes.search(tx, order.merchant_id, None)
        assert sorted((one.gateway_ref, one.status) for one in known) == [
            ("a", "WON"), ("b", "LOST"),
        ]  # fmt: skip


async def test_a_dispute_before_its_payment_waits_for_it(db: Db) -> None:
    async with db.connection() as tx:
        order = await in_status(tx, "CREATING")
        attempt = await orders.last_attempt(tx, order.merchant_id, order.id)
        assert attempt is not None
        gateway_event = GatewayDisputeEvent(
            attempt_id=attempt.id, dispute_ref="early", status="LOST", amount=Money(999, "USD")
        )
        assert (
            await disputes.apply_outcome(
                tx, order.merchant_id, gateway_event, NOW, gateway="sandbox"
            )
            is None
        )
        assert await open_rows(tx, order) == [("early", "LOST")]
        await said(tx, attempt, "SUCCEEDED")
        await retry(db)
        assert (await open_rows(tx, order), await status(tx, order)) == ([], "CHARGEBACK")
        assert await balances(tx, order) == (959 - 999 - 1500, 0, 0, 0)


@pytest.mark.parametrize("minutes", [0, 30])  # until it is paid, after its dispute
async def test_a_dispute_that_overtook_its_payment_is_taken_in_as_soon_as_that_is_confirmed(
    db: Db, minutes: int
) -> None:
    async with db.connection() as tx:
        order = await in_status(tx, "CREATING")
        (attempt,) = await attempts(tx, order)
        await dispute_said(tx, order, "OPENED", attempt_id=attempt.id)
        waits = await open_rows(tx, order)
        now = NOW
        for minute in range(minutes):
            now = NOW + minute * 60_000
            await retry(db, now)
        assert await open_rows(tx, order) == waits == [("dispute-1", "OPENED")]
        assert await jobs.match(db, now + 1) == 0
        # Perhaps by another server, whose clock is behind.
        await said(tx, attempt, "SUCCEEDED", now + 5 if minutes else now - 2_000)
        assert await jobs.match(db, now + 5) == 1
        assert await open_rows(tx, order) == []
        assert await status(tx, order) == "DISPUTED"


async def test_what_the_payment_did_not_help_goes_on_waiting(db: Db) -> None:
    """A second dispute, while the first is open: not tried again and again for a payment's sake."""
    async with db.connection() as tx:
        order = await in_status(tx, "DISPUTED")
        await dispute_said(tx, order, "OPENED", ref="b")
        tried = [await jobs.match(db, NOW + at) for at in (1, 2, 1_000, 60_000)]
        assert tried == [1, 0, 0, 0]
        assert await jobs.match(db, NOW + 120_001) == 1


@pytest.mark.parametrize("words", [["OPENED", "WON"], ["WON"], ["LOST", "RECOVERED"]])
async def test_what_moved_nothing_in_the_end_needs_nobody(tx: Tx, words) -> None:
    order = await in_status(tx, "DISPUTED")
    for word in words:
        await dispute_said(tx, order, word, ref="b")
    assert await open_rows(tx, order) == []
    assert await disputes.count_unmatched(tx) == 0


async def test_a_loss_that_nothing_can_take_is_counted_until_it_is_dismissed(tx: Tx) -> None:
    order = await in_status(tx, "CHARGEBACK")
    for word in ("OPENED", "LOST", "LOST", "OPENED"):
        await dispute_said(tx, order, word, ref="b")
    assert await open_rows(tx, order) == [("b", "LOST")]
    assert await disputes.count_unmatched(tx) == 1
    closed = await disputes.dismiss(tx, order.merchant_id, "sandbox", "b", "ann", NOW)
    assert (closed.closed_by, await disputes.count_unmatched(tx)) == ("ann", 0)
    await dispute_said(tx, order, "LOST", ref="b")  # said again, and seen to already
    assert await disputes.count_unmatched(tx) == 0
    await dispute_said(tx, order, "RECOVERED", ref="b")  # what was corrected came back
    assert await open_rows(tx, order) == [("b", "RECOVERED")]
    with pytest.raises(NotFound):
        await disputes.dismiss(tx, order.merchant_id, "sandbox", "c", "ann", NOW)


@pytest.mark.parametrize(("first", "then"), [("WON", "LOST"), ("LOST", "WON")])
async def test_news_against_what_was_heard_needs_somebody(tx: Tx, first, then) -> None:
    order = await settled(tx, await in_status(tx, "PAID"))
    await dispute_said(tx, order, first, ref="a")
    await dispute_said(tx, order, then, ref="a")
    await dispute_said(tx, order, "OPENED", ref="a")
    assert await open_rows(tx, order) == [("a", then)]
    assert await disputes.count_unmatched(tx) == 1
    assert f"dispute_{then.lower()}_unmatched" in [line.event for line in await history(tx, order)]


async def test_a_loss_that_a_failed_refund_held_is_counted_until_it_is_dealt_with(
    db: Db, capsys: pytest.CaptureFixture[str]
) -> None:
    async with db.connection() as tx:
        order = await in_status(tx, "SETTLED")
        refund = await refunded(tx, order)
        opened = await dispute_said(tx, order, "OPENED", minor=999)
        assert (opened.amount_minor, await open_rows(tx, order)) == (0, [])
        await refund_said(tx, refund, "REFUSED", reason="charge_disputed")
        assert await open_rows(tx, order) == []  # nothing is lost yet
        capsys.readouterr()
        await dispute_said(tx, order, "LOST", minor=999)
        assert await open_rows(tx, order) == [("dispute-1", "LOST")]
        assert "dispute matches no order" in capsys.readouterr().out
        assert await balances(tx, order) == (0, 959 - 1500, 0, 0)
        for word in ("LOST", "OPENED"):
            await dispute_said(tx, order, word, minor=999)
        await retry(db)
        (kept,) = await disputes.list_unmatched(tx, order.merchant_id)
        assert kept.refusal.endswith("took 0.00 USD: refunds that have not succeeded held more")
        assert await disputes.count_unmatched(tx) == 1
        await disputes.dismiss(tx, order.merchant_id, "sandbox", "dispute-1", "ann", NOW)
        await dispute_said(tx, order, "LOST", minor=999)
        assert await disputes.count_unmatched(tx) == 0


@pytest.mark.parametrize(("word", "waits"), [("SUCCEEDED", []), ("REFUSED", ["LOST"])])
async def test_a_loss_while_a_refund_is_in_progress_is_counted_unless_that_succeeds(
    db: Db, word, waits
) -> None:
    async with db.connection() as tx:
        order = await in_status(tx, "PAID")
        refund = await refunded(tx, order, "3.00")
        await dispute_said(tx, order, "LOST", minor=999)
        assert await open_rows(tx, order) == [("dispute-1", "LOST")]
        await refund_said(tx, refund, word)
        await retry(db)
        assert [status for _, status in await open_rows(tx, order)] == waits
        await dispute_said(tx, order, "RECOVERED", minor=999)
        assert await open_rows(tx, order) == []


async def test_a_loss_that_its_dispute_took_needs_nobody(tx: Tx) -> None:
    part = await in_status(tx, "PAID")
    await dispute_said(tx, part, "LOST", minor=300)
    less = await in_status(tx, "PAID")
    await refund_said(tx, await refunded(tx, less, "3.00"), "SUCCEEDED")
    await dispute_said(tx, less, "LOST", minor=999)
    for order in (part, less):
        assert (await status(tx, order), await open_rows(tx, order)) == ("CHARGEBACK", [])


async def dismissed(tx: Tx, order: Order, ref: str = "b") -> None:
    await disputes.dismiss(tx, order.merchant_id, "sandbox", ref, "ann", NOW)


async def by_hand(tx: Tx, order: Order) -> disputes.Dispute:
    return await disputes.open_manually(
        tx, order.merchant_id, order.id, who="ann", reason="a letter", now=NOW
    )


async def end(tx: Tx, dispute: disputes.Dispute, event: Event) -> None:
    ids = (dispute.merchant_id, dispute.id)
    await disputes.decide(tx, *ids, event, who="ann", reason="a letter", now=NOW)


async def change_nothing(db: Db, tx: Tx, order: Order, words: list[str]) -> None:
    """The gateway repeats itself about b, and the worker works: every row stays as it is."""
    before = await dump(tx)
    for word in words:
        assert await dispute_said(tx, order, word, ref="b") is None
    await retry(db)
    assert await dump(tx) == before


async def test_what_is_reported_after_it_was_dismissed_is_never_posted(db: Db) -> None:
    """The letter's dispute is the bank's: staff end theirs as the bank ends its own."""
    async with db.connection() as tx:
        order = await in_status(tx, "SETTLED")
        ours = await by_hand(tx, order)
        await dispute_said(tx, order, "OPENED", ref="b")
        await dismissed(tx, order)
        await end(tx, ours, "lost")
        await dispute_said(tx, order, "LOST", ref="b")
        assert await open_rows(tx, order) == [("b", "LOST")]
        await dismissed(tx, order)
        await end(tx, ours, "recovered")
        assert await status(tx, order) == "SETTLED"
        await change_nothing(db, tx, order, ["LOST", "OPENED"])
        posted = await entries(tx, order.merchant_id)
        assert await dispute_said(tx, order, "RECOVERED", ref="b") is None
        (kept,) = await disputes.list_unmatched(tx, order.merchant_id)
        assert (kept.status, kept.refusal) == ("RECOVERED", "an earlier report was closed: ann")
        assert await disputes.count_unmatched(tx) == 1
        for minutes in (1, 60):
            await retry(db, NOW + minutes * 60_000)
        await change_nothing(db, tx, order, ["OPENED", "RECOVERED", "LOST"])
        await dismissed(tx, order)
        await change_nothing(db, tx, order, ["OPENED", "LOST", "RECOVERED"])
        assert await entries(tx, order.merchant_id) == posted
        assert len(await disputes.list_for_order(tx, order.merchant_id, order.id)) == 1


@pytest.mark.parametrize("repeated", [["LOST"], ["OPENED", "LOST"]])
async def test_a_loss_that_was_corrected_by_hand_is_not_posted_again(db: Db, repeated) -> None:
    async with db.connection() as tx:
        order = await in_status(tx, "DISPUTED")
        await dispute_said(tx, order, "LOST", ref="b")
        await dismissed(tx, order)
        await dispute_said(tx, order, "WON")
        await change_nothing(db, tx, order, repeated)
        assert (await status(tx, order), await disputes.count_unmatched(tx)) == ("PAID", 0)
        for word in ("WON", "RECOVERED"):  # what was corrected came back: each is somebody's
            await dispute_said(tx, order, word, ref="b")
            assert await open_rows(tx, order) == [("b", word)]


@pytest.mark.parametrize("dismissed_is", ["WON", "LOST"])
async def test_what_comes_back_after_a_report_was_dismissed_is_for_an_operator(
    db: Db, dismissed_is
) -> None:
    """The operator has corrected the balance: for a bank that contradicts itself, or takes more."""
    async with db.connection() as tx:
        order = await in_status(tx, "SETTLED")
        if dismissed_is == "LOST":
            refund = await refunded(tx, order)
            await dispute_said(tx, order, "OPENED", ref="b", minor=999)
            await refund_said(tx, refund, "REFUSED", reason="charge_disputed")
        await dispute_said(tx, order, "LOST", ref="b", minor=999)
        if dismissed_is == "WON":
            await dispute_said(tx, order, "WON", ref="b", minor=999)
        assert await open_rows(tx, order) == [("b", dismissed_is)]
        await dismissed(tx, order)
        posted = await entries(tx, order.merchant_id)
        for _ in range(2):
            await dispute_said(tx, order, "RECOVERED", ref="b", minor=999)
            await retry(db, NOW + 2 * DAY)
            (kept,) = await disputes.list_unmatched(tx, order.merchant_id)
            assert (kept.status, kept.refusal) == ("RECOVERED", "an earlier report was closed: ann")
        assert await disputes.count_unmatched(tx) == 1
        assert await status(tx, order) == "CHARGEBACK"
        await disputes.dismiss(tx, order.merchant_id, "sandbox", "b", "bob", NOW)
        before = await history(tx, order)
        await dispute_said(tx, order, "RECOVERED", ref="b", minor=999)
        assert await open_rows(tx, order) == []
        assert await entries(tx, order.merchant_id) == posted
        assert await history(tx, order) == before


async def test_what_was_won_before_it_was_taken_is_not_opened_afterwards(db: Db) -> None:
    async with db.connection() as tx:
        order = await in_status(tx, "DISPUTED")
        for word in ("OPENED", "WON"):
            await dispute_said(tx, order, word, ref="b")
        await dispute_said(tx, order, "WON")
        await change_nothing(db, tx, order, ["OPENED", "WON"])
        assert await status(tx, order) == "PAID"
        await dispute_said(tx, order, "LOST", ref="b")  # against what was reported before
        await retry(db)
        assert await open_rows(tx, order) == [("b", "LOST")]
        assert await status(tx, order) == "PAID"


@pytest.mark.parametrize("then", ["OPENED", "LOST"])
async def test_a_second_dispute_that_nobody_has_dismissed_is_applied_by_its_next_report(
    db: Db, then
) -> None:
    async with db.connection() as tx:
        order = await in_status(tx, "DISPUTED")
        await dispute_said(tx, order, "OPENED", ref="b")
        await dispute_said(tx, order, "WON")
        taken = await dispute_said(tx, order, then, ref="b")
        assert taken is not None
        assert (await open_rows(tx, order), taken.gateway_ref) == ([], "b")
        with pytest.raises(NotFound):  # whoever corrects a balance for it learns that it is posted
            await dismissed(tx, order)


async def test_what_is_in_the_way_of_a_report_is_said_as_it_is_now(db: Db) -> None:
    async with db.transaction() as tx:
        order = await settled(tx, await in_status(tx, "PAID"))
        for status_there in ("LOST", "WON", "RECOVERED"):
            await dispute_said(tx, order, status_there, ref="a")
        (before,) = await disputes.list_unmatched(tx, order.merchant_id)
    await retry(db)
    async with db.connection() as tx:
        (after,) = await disputes.list_unmatched(tx, order.merchant_id)
        (applied,) = await disputes.list_for_order(tx, order.merchant_id, order.id)
    assert before.refusal == f"{applied.id} is LOST"
    assert (after.status, after.refusal) == ("WON", f"{applied.id} is RECOVERED")


@pytest.mark.parametrize("end", ["WON", "LOST"])
async def test_a_dispute_that_is_opened_again_is_shown_to_staff(tx: Tx, end: str) -> None:
    order = await in_status(tx, "SETTLED")
    await dispute_said(tx, order, "OPENED", respond_by=NOW + 1000)
    await dispute_said(tx, order, end, NOW + 500)
    before = await entries(tx, order.merchant_id)
    await dispute_said(tx, order, "OPENED", NOW + 600, respond_by=NOW + 1000)  # a late report
    assert await disputes.list_unmatched(tx, order.merchant_id) == []
    for _ in range(2):
        await dispute_said(tx, order, "OPENED", NOW + 700, respond_by=NOW + 9_000)
    (kept,) = await disputes.list_unmatched(tx, order.merchant_id)
    assert kept.refusal.endswith(f"is {end}, and the gateway takes evidence again")
    assert await entries(tx, order.merchant_id) == before
