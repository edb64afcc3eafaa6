"""An attempt's outcome locks the order first; other lock orders wait or are tried again."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from opentill import checkouts, orders
from opentill.db.database import Db, Tx
from opentill.gateways.model import PaymentOutcome
from opentill.orders import Order, PaymentAttempt
from opentill.orders.payments import queries
from support import world
from support.isolation import SERIALIZABLE
from support.transactions import db
from support.world import HOUR, NOW

__all__ = ["db"]
END = NOW + 24 * HOUR
PATIENCE_S = 30.0
DECLINE = "update payment_attempts set status = 'DECLINED', check_at = null where id = $1"


@pytest.fixture
async def late(db: Db) -> tuple[Order, PaymentAttempt]:
    """Create an order that was closed while its attempt was at its gateway."""

    async def create(tx: Tx) -> tuple[Order, PaymentAttempt]:
        order = await world.create_order(tx)
        attempt = await world.submit_attempt(tx, order, NOW + 1)
        attempt = await world.report_payment(tx, attempt, "ACTION_REQUIRED", NOW + 2)
        await checkouts.expire(tx, order.merchant_id, order.checkout_id, "its time is over", END)
        return order, attempt

    return await db.run(create)


async def _wait_for_lock(db: Db, waiting: int = 1) -> None:
    """Wait until this many transactions of this database wait for another one."""
    sql = (
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and wait_event_type = 'Lock'"
    )
    async with asyncio.timeout(PATIENCE_S):
        while await db.read(lambda tx: tx.fetchval(sql)) < waiting:
            await asyncio.sleep(0.01)


async def _report(tx: Tx, attempt: PaymentAttempt, status: str) -> None:
    outcome = PaymentOutcome(status=status)  # type: ignore[arg-type] # a status of the tests
    await orders.apply_outcome(
        tx, attempt.merchant_id, attempt.id, outcome, END + 1, gateway=attempt.gateway
    )


async def _both(*works: Awaitable[None]) -> None:
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(_await(work))


async def _await(work: Awaitable[None]) -> None:
    await work


async def _read(db: Db, order: Order) -> Order:
    return await db.read(lambda tx: orders.find(tx, order.merchant_id, order.id))


@pytest.mark.parametrize("reported", ["DECLINED", "SUCCEEDED"])
async def test_a_deadlock_of_an_attempt_and_its_order_is_tried_again(
    db: Db, late: tuple[Order, PaymentAttempt], reported: str
) -> None:
    """The trigger of a late decline locks the order, here after the attempt alone was locked."""
    order, attempt = late
    order_is_locked, attempt_is_locked = asyncio.Event(), asyncio.Event()
    runs: list[str] = []

    async def report(tx: Tx) -> None:
        runs.append("report")
        await orders.lock(tx, order.merchant_id, order.id)
        order_is_locked.set()
        await attempt_is_locked.wait()
        await _report(tx, attempt, reported)

    async def decline(tx: Tx) -> None:
        runs.append("decline")
        await tx.execute("select from payment_attempts where id = $1 for update", attempt.id)
        attempt_is_locked.set()
        await order_is_locked.wait()
        status = await tx.fetchval("select status from payment_attempts where id = $1", attempt.id)
        if status == "ACTION_REQUIRED":
            await tx.execute(DECLINE, attempt.id)

    await _both(db.run(report), db.run(decline))
    # PostgreSQL has ended one of the two, which ran again.
    assert len(runs) == 3 or (SERIALIZABLE and len(runs) > 3), runs
    after = await _read(db, order)
    if (reported, runs[-1]) == ("SUCCEEDED", "decline"):
        assert (after.status, after.closed_as) == ("PAID", None)
    elif reported == "DECLINED":
        assert (after.status, after.closed_as) == ("CLOSED", "DECLINED")
    else:  # the decline was first, and the money arrived after all
        assert (after.status, after.closed_as) == ("PAID", None)


async def _claim(tx: Tx) -> None:
    claimed = await queries.CLAIM_ATTEMPTS.all(
        tx, now=END + HOUR, lease_until=END + 2 * HOUR, limit=10, gateways=None, included=True
    )
    assert len(claimed) == 1


async def _mark_query(tx: Tx, attempt: PaymentAttempt) -> None:
    await queries.CLAIM_QUERY.run(
        tx, merchant_id=attempt.merchant_id, id=attempt.id, now=END, every_ms=1
    )


@pytest.mark.parametrize("hold", [lambda tx, _: _claim(tx), _mark_query], ids=["claim", "query"])
async def test_locks_of_an_attempt_alone_only_delay_its_outcome(
    db: Db,
    late: tuple[Order, PaymentAttempt],
    hold: Callable[[Tx, PaymentAttempt], Awaitable[None]],
) -> None:
    """What locks attempts without their orders locks nothing else in its transaction."""
    order, attempt = late
    held = asyncio.Event()
    runs: list[str] = []

    async def claim(tx: Tx) -> None:
        await hold(tx, attempt)
        held.set()
        await _wait_for_lock(db)

    async def report(tx: Tx) -> None:
        runs.append("report")
        await held.wait()
        await _report(tx, attempt, "DECLINED")

    await _both(db.run(claim), db.run(report))
    assert runs == ["report"] or (SERIALIZABLE and set(runs) == {"report"})
    after = await _read(db, order)
    assert (after.status, after.closed_as) == ("CLOSED", "DECLINED")


async def test_concurrent_reports_of_two_attempts_of_one_order_do_not_deadlock(db: Db) -> None:
    async def create(tx: Tx) -> tuple[Order, list[PaymentAttempt]]:
        order = await world.create_order(tx)
        attempts = []
        for number in range(2):
            attempt = await world.submit_attempt(
                tx, await orders.find(tx, order.merchant_id, order.id), NOW + number
            )
            attempts.append(await world.report_payment(tx, attempt, "ACTION_REQUIRED", NOW + 2))
        await checkouts.expire(tx, order.merchant_id, order.checkout_id, "its time is over", END)
        return order, attempts

    order, attempts = await db.run(create)
    runs: list[str] = []

    async def report(tx: Tx, attempt: PaymentAttempt) -> None:
        runs.append(attempt.id)
        await _report(tx, attempt, "DECLINED")

    await _both(*(db.run(lambda tx, a=attempt: report(tx, a)) for attempt in attempts * 4))
    expected = Counter([attempt.id for attempt in attempts] * 4)
    assert Counter(runs) == expected or (SERIALIZABLE and Counter(runs) >= expected)
    assert (await _read(db, order)).closed_as == "DECLINED"


async def test_without_another_try_the_other_lock_order_is_a_deadlock(
    db: Db, late: tuple[Order, PaymentAttempt]
) -> None:
    """The test above would also pass if the two orders of locks could not collide."""
    order, attempt = late
    async with db.transaction() as reporting, db.transaction() as declining:
        await orders.lock(reporting, order.merchant_id, order.id)
        await declining.execute("select from payment_attempts where id = $1 for update", attempt.id)
        results = await asyncio.gather(
            _report(reporting, attempt, "DECLINED"),
            declining.execute(DECLINE, attempt.id),
            return_exceptions=True,
        )
        (failure,) = [result for result in results if isinstance(result, BaseException)]
        assert isinstance(failure, asyncpg.DeadlockDetectedError)
