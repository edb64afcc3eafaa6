"""Payments confirmed together come to what each would have come to alone."""

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
from support.waits import waits
from support.world import (
    NOW,
    attempts,
    balances,
    entries,
    history,
    merchant,
    opened,
    product,
    said,
    session,
    submitted,
)  # fmt: skip

LATER = NOW + 5_000


def gateway_event(attempt: PaymentAttempt | str, **what: object) -> GatewayPaymentEvent:
    id_ = attempt if isinstance(attempt, str) else attempt.id
    return GatewayPaymentEvent(attempt_id=id_, outcome=PaymentOutcome(status="SUCCEEDED", **what))


async def confirmed(tx: Tx, told: list[GatewayPaymentEvent]) -> set[str]:
    """Take news in together; the attempts that were confirmed."""
    reports = [orders.Report("sandbox", one) for one in told]
    return {attempt_id for _, attempt_id in await orders.confirm_many(tx, reports, LATER)}


async def waiting(
    tx: Tx, status: str = "CREATING", **terms: object
) -> tuple[Order, PaymentAttempt]:
    """Make an order in a status, and the attempt that is about to pay it."""
    order = await opened(tx, **terms)
    attempt = await submitted(tx, order)
    if status == "PENDING":
        await said(tx, attempt, "ACTION_REQUIRED")
    return order, attempt


async def facts(tx: Tx, order: Order) -> tuple[object, ...]:
    """Return all that a confirmation changes, without ids and times of its own."""
    after = await orders.find(tx, order.merchant_id, order.id)
    own = {"id", "checkout_id", "merchant_id", "product_id", "paid_attempt_id"}
    kept = {k: getattr(after, k) for k in after.__struct_fields__ if k not in own}
    tried = [(a.status, a.reason, a.provider_ref, a.check_at) for a in await attempts(tx, order)]
    lines = [(line.event, line.from_status, line.to_status) for line in await history(tx, order)]
    moved = [row[:1] + row[2:] for row in await entries(tx, order.merchant_id)]
    told = await tx.fetch(
        "select type from events where merchant_id = $1 order by id", order.merchant_id
    )
    status = await tx.fetchval(
        "select status from checkouts where merchant_id = $1 and id = $2",
        order.merchant_id, order.checkout_id,
    )  # fmt: skip
    return kept, tried, lines, moved, [row[0] for row in told], status, await balances(tx, order)


@pytest.mark.parametrize("status", ["CREATING", "PENDING"])
@pytest.mark.parametrize("what", [
    {}, {"provider_ref": "pay_7", "reason": "ok"}, {"method": "ALIPAY"},
    {"amount": Money(999, "USD")},
])  # fmt: skip
async def test_together_is_as_alone(tx: Tx, status, what) -> None:
    terms = {"fee_changes": ("ALIPAY=0.1+0.30",)}
    alone, attempt = await waiting(tx, status, **terms)
    outcome = gateway_event(attempt, **what).outcome
    await orders.apply_outcome(tx, alone.merchant_id, attempt.id, outcome, LATER, gateway="sandbox")
    both = [await waiting(tx, status, **terms) for _ in range(2)]
    done = await confirmed(tx, [gateway_event(a, **what) for _, a in both])
    assert done == {a.id for _, a in both}
    for order, _ in both:
        assert await facts(tx, order) == await facts(tx, alone)


async def test_late_money_is_taken_too(tx: Tx) -> None:
    order, attempt = await waiting(tx, "PENDING")
    await checkouts.expire(tx, order.merchant_id, order.checkout_id, "time is over", NOW)
    assert await confirmed(tx, [gateway_event(attempt)]) == {attempt.id}
    assert (await orders.find(tx, order.merchant_id, order.id)).status == "PAID"


async def test_what_is_not_usual_is_left_as_it_was(tx: Tx) -> None:
    _, short = await waiting(tx)
    _, foreign = await waiting(tx)
    _, cleared = await waiting(tx)
    paid, again = await waiting(tx)
    await said(tx, again, "SUCCEEDED")
    fine, usual = await waiting(tx)
    before = {a.id: a for a in (short, foreign, cleared)}
    done = await confirmed(
        tx,
        [
            gateway_event(short, amount=Money(998, "USD")),
            gateway_event(foreign, amount=Money(999, "EUR")),
            gateway_event(cleared, clearing_currency="HKD"),
            gateway_event(again),
            gateway_event("att_nobody"),
            gateway_event(usual),
            gateway_event(usual),
            GatewayPaymentEvent(attempt_id=short.id, outcome=PaymentOutcome(status="DECLINED")),
        ],
    )
    assert done == {usual.id}
    assert (await orders.find(tx, fine.merchant_id, fine.id)).status == "PAID"
    for attempt in before.values():
        assert await orders.find_attempt(tx, attempt.merchant_id, attempt.id) == attempt
    assert len(await entries(tx, paid.merchant_id)) == 2


async def test_two_attempts_of_one_order_pay_it_once(tx: Tx) -> None:
    order, first = await waiting(tx, "PENDING")
    second = await submitted(tx, await orders.find(tx, order.merchant_id, order.id))
    done = await confirmed(tx, [gateway_event(first), gateway_event(second)])
    assert done == {first.id}


class Batcher:
    """News on its way through the gathering of a server, and how often it was heard alone."""

    def __init__(self, db: Db) -> None:
        self.alone = 0
        settings = Settings()
        self.app = App(
            settings=settings, db=db, outgoing=merchant_client(settings), gateways={},
            clock=lambda: LATER,
        )  # fmt: skip
        self.confirmations = callbacks.create_confirmations(self.app)
        taking = self.confirmations._apply_one

        async def counted(one: orders.Report) -> None:
            self.alone += 1
            await taking(one)

        self.confirmations._apply_one = counted

    async def take_in(self, one: GatewayPaymentEvent) -> None:
        """Take news in as of the gateway that they are of."""
        await self.confirmations.take_in("sandbox", one)


async def _shop(db: Db, count: int) -> list[tuple[Order, PaymentAttempt]]:
    async def work(tx: Tx) -> list[tuple[Order, PaymentAttempt]]:
        shop = await merchant(tx)
        mug = await product(tx, shop.id)
        made = []
        for _ in range(count):
            order_id = (await session(tx, shop.id, mug.id)).order_id
            order = await orders.find(tx, shop.id, order_id)
            made.append((order, await submitted(tx, order)))
        return made

    return await db.run(work)


async def test_each_caller_gets_its_own_answer(db: Db) -> None:
    made = [one for _ in range(3) for one in await _shop(db, 20)]
    run_all = Batcher(db)
    told = [gateway_event(attempt) for _, attempt in made]
    told += [
        gateway_event("att_nobody"),
        *told[:5],
        gateway_event(made[0][1], amount=Money(1, "USD")),
    ]
    results = await asyncio.gather(*map(run_all.take_in, told), return_exceptions=True)
    assert [type(r) for r in results if r is not None] == [NotFound]
    assert results[60] is not None
    assert run_all.alone < 20
    async with db.connection() as tx:
        for order, _ in made:
            assert (await orders.find(tx, order.merchant_id, order.id)).status == "PAID"


async def test_a_payment_whose_attempt_changed_before_the_lock_is_not_acknowledged_unpaid(
    db: Db,
) -> None:
    """The batch reads the attempt, waits for the order, and then finds the attempt declined."""
    ((order, attempt),) = await _shop(db, 1)
    server = Batcher(db)
    async with db.transaction() as tx, db.connection() as observer:
        await orders.lock(tx, order.merchant_id, order.id)
        acknowledged = asyncio.create_task(server.take_in(gateway_event(attempt)))
        async with asyncio.timeout(20):
            while await waits(observer) is None:
                await asyncio.sleep(0.005)
        await said(tx, attempt, "DECLINED", reason="insufficient_funds")
    await asyncio.wait_for(acknowledged, 20)
    async with db.connection() as tx:
        paid = await orders.find(tx, order.merchant_id, order.id)
        assert (paid.status, paid.paid_attempt_id) == ("PAID", attempt.id)


async def test_a_batch_writes_its_events_in_the_transaction_of_its_payments(db: Db) -> None:
    """What another transaction writes is lost where the process dies before it."""
    made = await _shop(db, 5)
    server = Batcher(db)
    await asyncio.gather(*(server.take_in(gateway_event(attempt)) for _, attempt in made))
    assert server.alone == 0
    async with db.connection() as tx:
        for order, _ in made:
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
    """Batches that meet on the same balances wait for each other, and never in a ring."""
    made = [one for _ in range(4) for one in await _shop(db, 30)]
    pools = [await Db.connect(database_url, 4, acquire_timeout_s=20) for _ in range(3)]
    try:
        servers = [Batcher(pool) for pool in pools]
        jobs = [
            servers[(n + again) % 3].take_in(gateway_event(attempt))
            for again in range(2)
            for n, (_, attempt) in enumerate(made)
        ]
        await asyncio.gather(*jobs)
    finally:
        for pool in pools:
            await pool.close()
    async with db.connection() as tx:
        count = await tx.fetchval("select count(*) from entries where type = 'PAYMENT'")
    assert count == len(made)


async def test_a_merchant_whose_balance_is_locked_holds_up_nobody_else(
    db: Db, database_url: str
) -> None:
    """Though more is told of it than there are connections."""
    stuck, free = await _shop(db, 25), await _shop(db, 9)
    server = await Db.connect(database_url, 8, acquire_timeout_s=2)
    run_all = Batcher(server)
    try:
        for one in (stuck.pop(), free.pop()):
            await run_all.take_in(gateway_event(one[1]))
        async with db.transaction() as tx:
            await tx.fetch(
                "select from balances where merchant_id = $1 for update", stuck[0][0].merchant_id
            )
            waits = [asyncio.create_task(run_all.take_in(gateway_event(a))) for _, a in stuck]
            await asyncio.sleep(1.5)  # all of them have gone on alone
            for _, attempt in free:
                await asyncio.wait_for(run_all.take_in(gateway_event(attempt)), 20)
        told = await asyncio.gather(*waits, return_exceptions=True)
        assert {type(one) for one in told} <= {type(None), Contended}
        for _, attempt in stuck:  # gateways repeat what was not answered 200
            await run_all.take_in(gateway_event(attempt))
    finally:
        await server.close()


async def test_a_caller_that_went_away_spoils_nothing_for_the_others(db: Db) -> None:
    made = await _shop(db, 12)
    run_all = Batcher(db)
    calls = [asyncio.create_task(run_all.take_in(gateway_event(a))) for _, a in made]
    await asyncio.sleep(0.01)  # the first is on its way, the others wait for it
    for call in calls[::3]:
        call.cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(r) for r in results[::3]} <= {asyncio.CancelledError, type(None)}
    assert [r for n, r in enumerate(results) if n % 3] == [None] * 8
    await run_all.take_in(gateway_event(made[0][1]))  # the gathering goes on
    async with db.connection() as tx:
        for order, _ in made:
            assert (await orders.find(tx, order.merchant_id, order.id)).status == "PAID"


async def test_a_connection_that_dies_in_the_middle_of_a_batch_is_told_to_each(
    db: Db, database_url: str
) -> None:
    made = await _shop(db, 8)
    server = await Db.connect(database_url, 1, acquire_timeout_s=20)
    run_all = Batcher(server)
    try:
        async with db.transaction() as holder:
            await orders.lock(holder, made[-1][0].merchant_id, made[-1][0].id)
            calls = [asyncio.create_task(run_all.take_in(gateway_event(a))) for _, a in made]
            async with db.connection() as other:
                while (victim := await waits(other)) is None:
                    await asyncio.sleep(0.005)
                await other.execute(f"select pg_terminate_backend({victim})")
            results = await asyncio.gather(*calls, return_exceptions=True)
        assert Unavailable in {type(r) for r in results}
        assert {type(r) for r in results} <= {Unavailable, type(None)}
        async with db.connection() as tx:
            for result, (order, attempt) in zip(results, made, strict=True):
                after = await orders.find(tx, order.merchant_id, order.id)
                tried = await orders.find_attempt(tx, order.merchant_id, attempt.id)
                paid = result is None
                assert (after.status, tried.status) == (
                    ("PAID", "SUCCEEDED") if paid else ("CREATING", "SUBMITTED")
                )
        for _, attempt in made:  # a gateway repeats what was not answered 200
            await run_all.take_in(gateway_event(attempt))
        async with db.connection() as tx:
            assert await tx.fetchval("select count(*) from entries where type = 'PAYMENT'") == 8
    finally:
        await server.close()


async def test_a_batch_s_impatience_ends_with_it(database_url: str) -> None:
    """Whether it was committed, rolled back or stood outside a transaction."""
    db = await Db.connect(database_url, 1, acquire_timeout_s=20)
    try:
        made = await _shop(db, 2)
        async with db.connection() as tx:
            before = await tx.fetchval("show lock_timeout")
        await Batcher(db).take_in(gateway_event(made[0][1]))
        async with db.connection() as tx:
            assert await tx.fetchval("show lock_timeout") == before
            await queries.ATTEMPTS_OF_GATEWAYS.all(tx, gateway=["sandbox"], id=[made[1][1].id])
            assert await tx.fetchval("show lock_timeout") == before

        async def spoiled(tx: Tx) -> None:
            await confirmed(tx, [gateway_event(made[1][1])])
            assert await tx.fetchval("show lock_timeout") == "500ms"
            raise NotFound

        with pytest.raises(NotFound):
            await db.run(spoiled)
        async with db.connection() as tx:
            assert await tx.fetchval("show lock_timeout") == before
    finally:
        await db.close()
