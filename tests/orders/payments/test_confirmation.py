"""A server process confirms payments in batches, and every caller gets its own result."""

import asyncio

import pytest

from opentill import callbacks, checkouts, orders
from opentill.context import App
from opentill.core.errors import Contended, NotFound, Unavailable
from opentill.core.money import Money
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx
from opentill.gateways import GatewayPaymentEvent, PaymentOutcome
from opentill.orders import Order, PaymentAttempt
from opentill.orders.payments import queries
from opentill.outgoing.client import merchant_client
from support.waits import find_waiting_session
from support.world import (
    NOW,
    create_merchant,
    create_order,
    create_product,
    create_session,
    read_attempts,
    read_balances,
    read_entries,
    read_history,
    report_payment,
    submit_attempt,
)  # fmt: skip

LATER = NOW + 5_000


def gateway_event(attempt: PaymentAttempt | str, **fields: object) -> GatewayPaymentEvent:
    id_ = attempt if isinstance(attempt, str) else attempt.id
    return GatewayPaymentEvent(attempt_id=id_, outcome=PaymentOutcome(status="SUCCEEDED", **fields))


async def confirm_batch(tx: Tx, events: list[GatewayPaymentEvent]) -> set[str]:
    """Confirm payments in one batch; return the ids of the confirmed attempts."""
    reports = [orders.Report("sandbox", event) for event in events]
    return {attempt_id for _, attempt_id in await orders.confirm_many(tx, reports, LATER)}


async def start_payment(
    tx: Tx, status: str = "CREATING", **terms: object
) -> tuple[Order, PaymentAttempt]:
    """Create an order in a status, and the attempt that is about to pay it."""
    order = await create_order(tx, **terms)
    attempt = await submit_attempt(tx, order)
    if status == "PENDING":
        await report_payment(tx, attempt, "ACTION_REQUIRED")
    return order, attempt


async def read_effects(tx: Tx, order: Order) -> tuple[object, ...]:
    """Return all that a confirmation writes, without ids."""
    after = await orders.find(tx, order.merchant_id, order.id)
    ids = {"id", "checkout_id", "merchant_id", "product_id", "paid_attempt_id"}
    fields = {name: getattr(after, name) for name in after.__struct_fields__ if name not in ids}
    attempt_rows = [
        (attempt.status, attempt.reason, attempt.provider_ref, attempt.check_at)
        for attempt in await read_attempts(tx, order)
    ]
    history_rows = [
        (line.event, line.from_status, line.to_status) for line in await read_history(tx, order)
    ]
    postings = [row[:1] + row[2:] for row in await read_entries(tx, order.merchant_id)]
    events = await tx.fetch(
        "select type from events where merchant_id = $1 order by id", order.merchant_id
    )
    session_status = await tx.fetchval(
        "select status from checkouts where merchant_id = $1 and id = $2",
        order.merchant_id, order.checkout_id,
    )  # fmt: skip
    event_types = [row[0] for row in events]
    return (
        fields,
        attempt_rows,
        history_rows,
        postings,
        event_types,
        session_status,
        await read_balances(tx, order),
    )


@pytest.mark.parametrize("status", ["CREATING", "PENDING"])
@pytest.mark.parametrize("fields", [
    {}, {"provider_ref": "pay_7", "reason": "ok"}, {"method": "ALIPAY"},
    {"amount": Money(999, "USD")},
])  # fmt: skip
async def test_a_batch_has_the_effects_of_single_confirmations(tx: Tx, status, fields) -> None:
    terms = {"fee_changes": ("ALIPAY=0.1+0.30",)}
    single, attempt = await start_payment(tx, status, **terms)
    outcome = gateway_event(attempt, **fields).outcome
    ids = (single.merchant_id, attempt.id)
    await orders.apply_outcome(tx, *ids, outcome, LATER, gateway="sandbox")
    payments = [await start_payment(tx, status, **terms) for _ in range(2)]
    confirmed = await confirm_batch(tx, [gateway_event(a, **fields) for _, a in payments])
    assert confirmed == {a.id for _, a in payments}
    for order, _ in payments:
        assert await read_effects(tx, order) == await read_effects(tx, single)


async def test_a_batch_confirms_late_payments(tx: Tx) -> None:
    order, attempt = await start_payment(tx, "PENDING")
    await checkouts.expire(tx, order.merchant_id, order.checkout_id, "time is over", NOW)
    assert await confirm_batch(tx, [gateway_event(attempt)]) == {attempt.id}
    assert (await orders.find(tx, order.merchant_id, order.id)).status == "PAID"


async def test_a_batch_skips_attempts_with_unusual_reports(tx: Tx) -> None:
    _, underpaid_attempt = await start_payment(tx)
    _, euro_attempt = await start_payment(tx)
    _, attempt_cleared_in_hkd = await start_payment(tx)
    paid_order, paid_attempt = await start_payment(tx)
    await report_payment(tx, paid_attempt, "SUCCEEDED")
    order, usual_attempt = await start_payment(tx)
    unpaid_attempts = (underpaid_attempt, euro_attempt, attempt_cleared_in_hkd)
    confirmed = await confirm_batch(
        tx,
        [
            gateway_event(underpaid_attempt, amount=Money(998, "USD")),
            gateway_event(euro_attempt, amount=Money(999, "EUR")),
            gateway_event(attempt_cleared_in_hkd, clearing_currency="HKD"),
            gateway_event(paid_attempt),
            gateway_event("att_nobody"),
            gateway_event(usual_attempt),
            gateway_event(usual_attempt),
            GatewayPaymentEvent(
                attempt_id=underpaid_attempt.id, outcome=PaymentOutcome(status="DECLINED")
            ),
        ],
    )
    assert confirmed == {usual_attempt.id}
    assert (await orders.find(tx, order.merchant_id, order.id)).status == "PAID"
    for attempt in unpaid_attempts:
        assert await orders.find_attempt(tx, attempt.merchant_id, attempt.id) == attempt
    assert len(await read_entries(tx, paid_order.merchant_id)) == 2


async def test_two_attempts_of_one_order_pay_it_once(tx: Tx) -> None:
    order, first_attempt = await start_payment(tx, "PENDING")
    second_attempt = await submit_attempt(tx, await orders.find(tx, order.merchant_id, order.id))
    confirmed = await confirm_batch(
        tx, [gateway_event(first_attempt), gateway_event(second_attempt)]
    )
    assert confirmed == {first_attempt.id}


class Server:
    """A server process's batcher. It counts the reports that were not applied in a batch."""

    def __init__(self, db: Db, pool_size: int = 10) -> None:
        self.individual = 0
        settings = Settings(db_pool_size=pool_size)
        self.app = App(
            settings=settings, db=db, outgoing=merchant_client(settings), gateways={},
            clock=lambda: LATER,
        )  # fmt: skip
        self.confirmations = callbacks.Confirmations(self.app)
        apply_one = self.confirmations._apply_one

        async def count(report: orders.Report) -> None:
            self.individual += 1
            await apply_one(report)

        self.confirmations._apply_one = count

    async def confirm(self, event: GatewayPaymentEvent) -> None:
        """Confirm a payment as its own gateway reports it."""
        await self.confirmations.confirm("sandbox", event)


async def _start_payments(db: Db, count: int) -> list[tuple[Order, PaymentAttempt]]:
    """Create orders of one merchant with the attempts that are about to pay them."""

    async def create_data(tx: Tx) -> list[tuple[Order, PaymentAttempt]]:
        shop = await create_merchant(tx)
        mug = await create_product(tx, shop.id)
        payments = []
        for _ in range(count):
            order_id = (await create_session(tx, shop.id, mug.id)).order_id
            order = await orders.find(tx, shop.id, order_id)
            payments.append((order, await submit_attempt(tx, order)))
        return payments

    return await db.run(create_data)


async def test_each_caller_gets_the_result_of_its_report(db: Db) -> None:
    payments = [payment for _ in range(3) for payment in await _start_payments(db, 20)]
    server = Server(db)
    events = [gateway_event(attempt) for _, attempt in payments]
    events += [
        gateway_event("att_nobody"),
        *events[:5],
        gateway_event(payments[0][1], amount=Money(1, "USD")),
    ]
    results = await asyncio.gather(*map(server.confirm, events), return_exceptions=True)
    assert [type(result) for result in results if result is not None] == [NotFound]
    assert results[60] is not None
    assert server.individual < 20
    async with db.connection() as tx:
        for order, _ in payments:
            assert (await orders.find(tx, order.merchant_id, order.id)).status == "PAID"


async def test_a_payment_whose_attempt_changed_before_the_lock_is_not_acknowledged_unpaid(
    db: Db,
) -> None:
    """The batch reads the attempt, waits for the order, and by then the attempt is declined."""
    ((order, attempt),) = await _start_payments(db, 1)
    server = Server(db)
    async with db.transaction() as tx, db.connection() as observer:
        await orders.lock(tx, order.merchant_id, order.id)
        acknowledged = asyncio.create_task(server.confirm(gateway_event(attempt)))
        async with asyncio.timeout(20):
            while await find_waiting_session(observer) is None:
                await asyncio.sleep(0.005)
        await report_payment(tx, attempt, "DECLINED", reason="insufficient_funds")
    await asyncio.wait_for(acknowledged, 20)
    async with db.connection() as tx:
        paid = await orders.find(tx, order.merchant_id, order.id)
        assert (paid.status, paid.paid_attempt_id) == ("PAID", attempt.id)


async def test_a_batch_writes_its_events_in_the_transaction_of_its_payments(db: Db) -> None:
    """Events of a later transaction would be lost if the process died before it."""
    payments = await _start_payments(db, 5)
    server = Server(db)
    await asyncio.gather(*(server.confirm(gateway_event(attempt)) for _, attempt in payments))
    assert server.individual == 0
    async with db.connection() as tx:
        for order, _ in payments:
            ids = (order.merchant_id, order.id)
            transactions = await tx.fetch(
                "select xmin::text from entries where (merchant_id, source_id) = ($1, $2)"
                " union select xmin::text from order_history where (merchant_id, order_id)"
                " = ($1, $2) and event = 'confirmed'"
                " union select xmin::text from events where merchant_id = $1"
                " and body::json #>> '{data,order_id}' = $2",
                *ids,
            )
            events = await tx.fetchval(
                "select count(*) from events where merchant_id = $1"
                " and body::json #>> '{data,order_id}' = $2",
                *ids,
            )
            assert (len(transactions), events) == (1, 2)


async def test_several_processes_confirm_the_same_hot_merchants(db: Db, database_url: str) -> None:
    """Batches that need the same balances wait for each other, and never deadlock."""
    payments = [payment for _ in range(4) for payment in await _start_payments(db, 30)]
    pools = [await Db.connect(database_url, 4, acquire_timeout_s=20) for _ in range(3)]
    try:
        servers = [Server(pool) for pool in pools]
        jobs = [
            servers[(n + repeat) % 3].confirm(gateway_event(attempt))
            for repeat in range(2)
            for n, (_, attempt) in enumerate(payments)
        ]
        await asyncio.gather(*jobs)
    finally:
        for pool in pools:
            await pool.close()
    async with db.connection() as tx:
        count = await tx.fetchval("select count(*) from entries where type = 'PAYMENT'")
    assert count == len(payments)


@pytest.mark.parametrize("pool_size", [8, 2])
async def test_a_merchant_with_a_locked_balance_delays_no_other_merchant(
    db: Db, database_url: str, pool_size: int
) -> None:
    """More payments of the merchant are reported than there are connections."""
    stuck, free = await _start_payments(db, 25), await _start_payments(db, 9)
    pool = await Db.connect(database_url, pool_size, acquire_timeout_s=2)
    server = Server(pool, pool_size)
    try:
        for _, attempt in (stuck.pop(), free.pop()):
            await server.confirm(gateway_event(attempt))
        async with db.transaction() as tx:
            await tx.fetch(
                "select from balances where merchant_id = $1 for update", stuck[0][0].merchant_id
            )
            waits = [asyncio.create_task(server.confirm(gateway_event(a))) for _, a in stuck]
            await asyncio.sleep(1.5)  # by now, each of them is applied individually
            for _, attempt in free:
                await asyncio.wait_for(server.confirm(gateway_event(attempt)), 20)
        results = await asyncio.gather(*waits, return_exceptions=True)
        assert {type(result) for result in results} <= {type(None), Contended}
        # A gateway repeats its report, because the response was not 200.
        for _, attempt in stuck:
            await server.confirm(gateway_event(attempt))
    finally:
        await pool.close()


async def test_a_cancelled_caller_does_not_affect_the_others(db: Db) -> None:
    payments = await _start_payments(db, 12)
    server = Server(db)
    calls = [asyncio.create_task(server.confirm(gateway_event(a))) for _, a in payments]
    await asyncio.sleep(0.01)  # by now, the first batch runs and the others wait for it
    for call in calls[::3]:
        call.cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(result) for result in results[::3]} <= {asyncio.CancelledError, type(None)}
    assert [result for n, result in enumerate(results) if n % 3] == [None] * 8
    await server.confirm(gateway_event(payments[0][1]))  # the batcher accepts further events
    async with db.connection() as tx:
        for order, _ in payments:
            assert (await orders.find(tx, order.merchant_id, order.id)).status == "PAID"


async def test_a_connection_that_dies_during_a_batch_is_reported_to_each_caller(
    db: Db, database_url: str
) -> None:
    payments = await _start_payments(db, 8)
    pool = await Db.connect(database_url, 1, acquire_timeout_s=20)
    server = Server(pool)
    try:
        async with db.transaction() as holder:
            await orders.lock(holder, payments[-1][0].merchant_id, payments[-1][0].id)
            calls = [asyncio.create_task(server.confirm(gateway_event(a))) for _, a in payments]
            async with db.connection() as observer:
                while (victim := await find_waiting_session(observer)) is None:
                    await asyncio.sleep(0.005)
                await observer.execute(f"select pg_terminate_backend({victim})")
            results = await asyncio.gather(*calls, return_exceptions=True)
        assert Unavailable in {type(result) for result in results}
        assert {type(result) for result in results} <= {Unavailable, type(None)}
        async with db.connection() as tx:
            for result, (order, attempt) in zip(results, payments, strict=True):
                after = await orders.find(tx, order.merchant_id, order.id)
                stored_attempt = await orders.find_attempt(tx, order.merchant_id, attempt.id)
                is_paid = result is None
                assert (after.status, stored_attempt.status) == (
                    ("PAID", "SUCCEEDED") if is_paid else ("CREATING", "SUBMITTED")
                )
        # A gateway repeats its report, because the response was not 200.
        for _, attempt in payments:
            await server.confirm(gateway_event(attempt))
        async with db.connection() as tx:
            assert await tx.fetchval("select count(*) from entries where type = 'PAYMENT'") == 8
    finally:
        await pool.close()


async def test_the_lock_timeout_of_a_batch_ends_with_its_transaction(database_url: str) -> None:
    """The transaction may commit, roll back, or belong to the caller."""
    db = await Db.connect(database_url, 1, acquire_timeout_s=20)
    try:
        payments = await _start_payments(db, 2)
        async with db.connection() as tx:
            before = await tx.fetchval("show lock_timeout")
        await Server(db).confirm(gateway_event(payments[0][1]))
        async with db.connection() as tx:
            assert await tx.fetchval("show lock_timeout") == before
            await queries.ATTEMPTS_OF_GATEWAYS.all(tx, gateway=["sandbox"], id=[payments[1][1].id])
            assert await tx.fetchval("show lock_timeout") == before

        async def fail(tx: Tx) -> None:
            await confirm_batch(tx, [gateway_event(payments[1][1])])
            assert await tx.fetchval("show lock_timeout") == "500ms"
            raise NotFound

        with pytest.raises(NotFound):
            await db.run(fail)
        async with db.connection() as tx:
            assert await tx.fetchval("show lock_timeout") == before
    finally:
        await db.close()
