"""Refunds that somebody makes at the provider, without OpenTill, are recorded."""

from typing import Any

import pytest

from opentill import merchants, orders, payouts, refunds
from opentill.core.errors import Invalid, NotFound
from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.db.database import Db, Tx
from opentill.gateways import RefundOutcome
from opentill.gateways.model import GatewayRefundEvent, OfAnotherGateway
from opentill.orders import Order
from opentill.payouts import PayoutRequest
from opentill.refunds import NewMadeAtGateway, Refund, RefundCase, jobs
from support.world import (
    DAY,
    NOW,
    create_order,
    create_order_in,
    create_refund,
    dump_rows,
    pay_order,
    pay_order_twice,
    read_balances,
    read_entries,
    read_history,
    report_dispute,
    report_payment,
    report_refund,
    settle_order,
    submit_attempt,
)

LATER = NOW + 5_000


async def report(tx: Tx, order: Order, minor: int, **changes: Any) -> Refund | None:
    """Report a refund that was made at the order's gateway."""
    attempt_id = changes.pop("attempt_id", order.paid_attempt_id)
    currency = changes.pop("currency", order.currency)
    gateway, refund_id = changes.pop("gateway", "sandbox"), changes.pop("refund_id", "")
    at = changes.pop("at", LATER)
    outcome = RefundOutcome(
        status=changes.pop("status", "SUCCEEDED"), provider_ref=changes.pop("ref", "rf_1")
    )
    assert not changes
    refund_report = GatewayRefundEvent(
        attempt_id=attempt_id, refund_id=refund_id, outcome=outcome, amount=Money(minor, currency)
    )
    return await refunds.apply_report(tx, order.merchant_id, refund_report, at, gateway=gateway)


async def find(tx: Tx, order: Order) -> Order:
    return await orders.find(tx, order.merchant_id, order.id)


async def read_open_case(tx: Tx, order: Order) -> RefundCase:
    """Return the only open refund case of the order's merchant."""
    (case,) = await refunds.list_open(tx, order.merchant_id)
    return case


@pytest.mark.parametrize(("status", "account"), [("PAID", "pending"), ("SETTLED", "available")])
async def test_a_partial_refund_made_at_the_provider_is_recorded(
    tx: Tx, status: str, account: str
) -> None:
    order = await create_order_in(tx, status)
    refund = await report(tx, order, 400)
    assert refund is not None
    assert (refund.status, refund.source, refund.provider_ref) == ("SUCCEEDED", "GATEWAY", "rf_1")
    assert (refund.succeeded_at, refund.try_at, refund.held_from) == (LATER, None, account)
    assert (await read_entries(tx, order.merchant_id))[-1] == ("REFUND", account, "gateway", 400)
    after = await find(tx, order)
    assert (after.status, after.refunded_minor, after.refund_status) == (status, 400, "PARTIAL")
    assert (after.refund_held_minor, after.refund_debit_minor) == (400, 400)
    line = (await read_history(tx, order))[-1]
    assert (line.event, line.cause) == (
        "refund_succeeded",
        f"{refund.id}: Refund of 4.00 USD, made at sandbox: rf_1",
    )


async def test_a_repeated_report_changes_nothing(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    refund = await report(tx, order, 400)
    before = await dump_rows(tx)
    assert await report(tx, order, 400, at=LATER + 1) == refund
    assert await report(tx, order, 400, status="PENDING") == refund
    assert await dump_rows(tx) == before


async def test_partial_refunds_made_at_the_provider_refund_the_whole_order(tx: Tx) -> None:
    order = await create_order_in(tx, "SETTLED", platform_fee_rate="0.04")
    own_refund = await create_refund(tx, order, "3.33")
    for number, minor in enumerate((300, 366)):
        assert await report(tx, order, minor, ref=f"rf_{number}") is not None
    # A refund that was made here is still in progress.
    assert (await find(tx, order)).status == "SETTLED"
    await report_refund(tx, own_refund, "SUCCEEDED", LATER)
    after = await find(tx, order)
    assert (after.status, after.refunded_minor) == ("REFUNDED", 999)
    assert after.refund_debit_minor == after.gross_settled_minor


async def test_a_refund_made_at_the_provider_may_exceed_the_overdraft_limit(tx: Tx) -> None:
    order = await pay_order(tx, await create_order(tx, overdraft_minor=0))
    order = await settle_order(tx, order)
    available = (await read_balances(tx, order))[1]
    request = PayoutRequest(
        amount_minor=available, fee_minor=0, reference="r", reason="why", by="ann"
    )
    await payouts.create(tx, order.merchant_id, request, None, NOW)
    with pytest.raises(Invalid):
        async with tx.transaction():
            await create_refund(tx, order)
    assert await report(tx, order, 999) is not None
    assert (await read_balances(tx, order))[1] == -999


async def test_a_refund_made_at_the_provider_is_recorded_while_refunds_are_off(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    actor = merchants.Actor("ann", "why")
    await merchants.set_capability(tx, order.merchant_id, "refund", on=False, actor=actor, now=NOW)
    with pytest.raises(merchants.CapabilityOff):
        async with tx.transaction():
            await create_refund(tx, order)
    assert await report(tx, order, 999) is not None


async def test_a_refund_of_ours_is_not_recorded_again_as_made_at_the_provider(tx: Tx) -> None:
    """The response to our request may be lost: the provider's report names our id."""
    order = await create_order_in(tx, "PAID")
    own_refund = await create_refund(tx, order, "4.00")
    await report_refund(tx, own_refund, "UNKNOWN")
    await report(tx, order, 400, refund_id=own_refund.id, ref="rf_7")
    rows = await refunds.list_for_order(tx, order.merchant_id, order.id, 9)
    assert [row.id for row in rows] == [own_refund.id]
    # A later report of the provider may contain only the provider's id.
    await report(tx, order, 400, ref="rf_7", at=LATER + 1)
    assert (await find(tx, order)).refunded_minor == 400


async def test_a_refund_with_an_unknown_id_of_ours_is_recorded_as_made_at_the_provider(
    tx: Tx,
) -> None:
    """A restored database may lack the row of a refund that we sent."""
    order = await create_order_in(tx, "PAID")
    refund = await report(tx, order, 400, refund_id=new_id("re"))
    assert refund is not None
    assert refund.source == "GATEWAY"


async def test_reports_of_another_gateway_are_refused(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    before = await dump_rows(tx)
    with pytest.raises(OfAnotherGateway):
        await report(tx, order, 400, gateway="stripe")
    with pytest.raises(NotFound):
        await report(tx, order, 400, attempt_id=new_id("att"))
    assert await dump_rows(tx) == before


UNMATCHED = (
    # status          minor  currency  part of the reason
    ("PAID", 1000, "USD", "at most what is left to refund, 9.99 USD"),
    ("PAID", 0, "USD", "at most what is left to refund, 9.99 USD"),
    ("PAID", 400, "EUR", "the refund is in EUR, but the order is in USD"),
    ("DISPUTED", 400, "USD", "the order is DISPUTED"),
    ("CHARGEBACK", 400, "USD", "the order is CHARGEBACK"),
    ("REFUNDED", 400, "USD", "the order is REFUNDED"),
)


@pytest.mark.parametrize(("status", "minor", "currency", "reason"), UNMATCHED)
async def test_a_refund_that_does_not_match_its_order_is_a_case_for_staff(
    tx: Tx, status: str, minor: int, currency: str, reason: str
) -> None:
    order = await create_order_in(tx, status)
    before = await read_entries(tx, order.merchant_id)
    for _ in range(3):
        assert await report(tx, order, minor, currency=currency) is None
    assert await read_entries(tx, order.merchant_id) == before
    case = await read_open_case(tx, order)
    assert (case.kind, case.amount_minor, case.currency) == ("UNMATCHED", minor, currency)
    assert reason in case.refusal
    events = [row.event for row in await read_history(tx, order)]
    assert events.count("refund_at_gateway_unmatched") == 1
    assert await refunds.count_unmatched(tx) >= 1


async def test_a_refund_that_overtakes_its_payment_is_recorded_after_it(db: Db) -> None:
    async def create_data(tx: Tx) -> Order:
        order = await create_order(tx)
        attempt = await submit_attempt(tx, order)
        assert await report(tx, order, 400, attempt_id=attempt.id) is None
        await report_payment(tx, attempt, "SUCCEEDED")
        return await orders.find(tx, order.merchant_id, order.id)

    order = await db.run(create_data)
    assert await jobs.match(db, LATER + 1) == 1
    async with db.connection() as tx:
        assert (await find(tx, order)).refunded_minor == 400
        assert await refunds.list_open(tx, order.merchant_id) == []
    assert await jobs.match(db, LATER + 30 * DAY) == 0


async def test_a_refund_of_a_disputed_order_is_recorded_once_the_dispute_is_won(db: Db) -> None:
    async def create_data(tx: Tx) -> Order:
        order = await create_order_in(tx, "DISPUTED")
        await report(tx, order, 400)
        return order

    order = await db.run(create_data)
    assert await jobs.match(db, LATER + 60_000) == 1
    async with db.connection() as tx:
        assert (await read_open_case(tx, order)).tries == 1
    await db.run(lambda tx: report_dispute(tx, order, "WON"))
    assert await jobs.match(db, LATER + DAY) == 1
    async with db.connection() as tx:
        assert (await find(tx, order)).refunded_minor == 400
        assert await refunds.list_open(tx, order.merchant_id) == []


async def test_a_refund_is_recorded_once_our_own_refund_of_the_amount_has_failed(db: Db) -> None:
    async def create_data(tx: Tx) -> tuple[Order, Refund]:
        order = await create_order_in(tx, "PAID")
        own_refund = await create_refund(tx, order)
        assert await report(tx, order, 999) is None
        return order, own_refund

    order, own_refund = await db.run(create_data)
    await db.run(lambda tx: report_refund(tx, own_refund, "REFUSED", LATER))
    await jobs.match(db, LATER + DAY)
    async with db.connection() as tx:
        assert (await find(tx, order)).status == "REFUNDED"


async def test_a_refund_made_at_the_provider_can_be_reversed(tx: Tx) -> None:
    order = await create_order_in(tx, "SETTLED")
    before = await read_balances(tx, order)
    refund = await report(tx, order, 999)
    assert (await find(tx, order)).status == "REFUNDED"
    reversed_refund = await report(tx, order, 999, status="REFUSED")
    assert refund is not None
    assert reversed_refund is not None
    assert (reversed_refund.id, reversed_refund.status) == (refund.id, "FAILED")
    assert reversed_refund.was_reversed
    assert await read_balances(tx, order) == before
    assert (await find(tx, order)).status == "SETTLED"
    rows = await dump_rows(tx)
    await report(tx, order, 999)  # this late report says that the refund succeeded
    assert await dump_rows(tx) == rows


async def test_a_failure_that_overtakes_its_refund_leaves_no_case(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    await report(tx, order, 400, status="REFUSED")
    await report(tx, order, 400)
    assert await refunds.list_for_order(tx, order.merchant_id, order.id, 9) == []
    assert await refunds.list_open(tx, order.merchant_id) == []


async def test_a_case_is_closed_when_its_refund_fails(tx: Tx) -> None:
    order = await create_order_in(tx, "DISPUTED")
    await report(tx, order, 400)
    await report(tx, order, 400, status="REFUSED")
    assert await refunds.list_open(tx, order.merchant_id) == []


async def test_a_refund_whose_case_staff_have_closed_is_not_recorded(db: Db) -> None:
    async def create_data(tx: Tx) -> Order:
        order = await create_order_in(tx, "DISPUTED")
        await report(tx, order, 400)
        case = await read_open_case(tx, order)
        key = (case.merchant_id, case.gateway, case.gateway_ref)
        await refunds.dismiss(tx, *key, "ann", LATER)
        with pytest.raises(NotFound):
            await refunds.dismiss(tx, *key, "ann", LATER)
        await report_dispute(tx, order, "WON")
        assert await report(tx, order, 400) is None
        return order

    order = await db.run(create_data)
    assert await jobs.match(db, LATER + DAY) == 0
    async with db.connection() as tx:
        assert (await find(tx, order)).refunded_minor == 0
        # Staff may have corrected the balance, so they must look at the failure again.
        await report(tx, order, 400, status="REFUSED")
        case = await read_open_case(tx, order)
        assert case.refusal == "it was closed by ann, and has failed since"


async def test_a_second_payment_that_is_refunded_at_the_provider_is_given_back(tx: Tx) -> None:
    order = await create_order(tx)
    duplicate = await pay_order_twice(tx, order)
    before = await read_balances(tx, order)
    await report(tx, order, 999, attempt_id=duplicate.id)
    returned_attempt = await orders.find_attempt(tx, order.merchant_id, duplicate.id)
    assert returned_attempt.status == "GIVEN_BACK"
    await report(tx, order, 999, attempt_id=duplicate.id, status="REFUSED")
    reversed_attempt = await orders.find_attempt(tx, order.merchant_id, duplicate.id)
    assert reversed_attempt.status == "DUPLICATE"
    assert await read_balances(tx, order) == before


async def test_a_partial_refund_of_a_second_payment_is_a_case_for_staff(tx: Tx) -> None:
    order = await create_order(tx)
    duplicate = await pay_order_twice(tx, order)
    await report(tx, order, 500, attempt_id=duplicate.id)
    assert "the order was paid by" in (await read_open_case(tx, order)).refusal


async def test_an_operator_records_a_refund_that_no_gateway_reports(tx: Tx) -> None:
    order = await create_order_in(tx, "PAID")
    ids = (order.merchant_id, order.id)
    new_refund = NewMadeAtGateway(amount_minor=400, reason="by transfer", provider_ref="TRN 1")
    with pytest.raises(Invalid) as refused:
        await refunds.record_manually(tx, *ids, new_refund, LATER, reporting={"sandbox"})
    assert "sandbox" in (refused.value.reason or "")
    refund = await refunds.record_manually(tx, *ids, new_refund, LATER, reporting=())
    assert await refunds.record_manually(tx, *ids, new_refund, LATER, reporting=()) == refund
    assert (await find(tx, order)).refunded_minor == 400
    for invalid in (
        NewMadeAtGateway(amount_minor=300, reason="", provider_ref="TRN 1"),
        NewMadeAtGateway(amount_minor=600, reason="", provider_ref="TRN 2"),
        NewMadeAtGateway(amount_minor=1, reason="", provider_ref=""),
    ):
        with pytest.raises(Invalid):
            await refunds.record_manually(tx, *ids, invalid, LATER, reporting=())


async def test_a_late_success_report_about_a_second_payments_failed_refund_is_ignored(
    tx: Tx,
) -> None:
    order = await create_order(tx)
    duplicate = await pay_order_twice(tx, order)
    await report(tx, order, 999, attempt_id=duplicate.id)
    await report(tx, order, 999, attempt_id=duplicate.id, status="REFUSED")
    before = await dump_rows(tx)
    await report(tx, order, 999, attempt_id=duplicate.id)
    assert await dump_rows(tx) == before


async def test_a_failure_that_overtakes_a_second_payments_refund_wins(tx: Tx) -> None:
    order = await create_order(tx)
    duplicate = await pay_order_twice(tx, order)
    await report(tx, order, 999, attempt_id=duplicate.id, status="REFUSED")
    await report(tx, order, 999, attempt_id=duplicate.id)
    attempt = await orders.find_attempt(tx, order.merchant_id, duplicate.id)
    assert attempt.status == "DUPLICATE"
    assert await refunds.list_open(tx, order.merchant_id) == []


async def test_a_case_is_closed_when_its_payment_becomes_a_duplicate(db: Db) -> None:
    async def create_data(tx: Tx) -> tuple[Order, str]:
        order = await create_order(tx)
        first_attempt = await submit_attempt(tx, order)
        await report_payment(
            tx, first_attempt, "ACTION_REQUIRED", action_url="https://bank.example"
        )
        duplicate = await submit_attempt(tx, await find(tx, order))
        await report(tx, order, 999, attempt_id=duplicate.id)
        assert (await read_open_case(tx, order)).attempt_id == duplicate.id
        await report_payment(tx, first_attempt, "SUCCEEDED")
        await report_payment(tx, duplicate, "SUCCEEDED")
        return order, duplicate.id

    order, second_id = await db.run(create_data)
    assert await jobs.match(db, LATER + 1) == 1
    async with db.connection() as tx:
        attempt = await orders.find_attempt(tx, order.merchant_id, second_id)
        assert attempt.status == "GIVEN_BACK"
        assert await refunds.list_open(tx, order.merchant_id) == []
