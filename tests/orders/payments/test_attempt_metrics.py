"""Payment attempts in the metrics: each counted once, and only when that is committed."""

from opentill.core import metrics
from opentill.db.database import Db, Tx, once_committed
from opentill.orders import PaymentAttempt
from support import world

SUCCEEDED = 'opentill_payment_attempts_total{gateway="sandbox",method="CREDIT_CARD",outcome='


def _counted(outcome: str) -> float:
    lines = metrics.render().decode().splitlines()
    wanted = f'{SUCCEEDED}"{outcome}"}} '
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(wanted))


async def _submitted(db: Db) -> PaymentAttempt:
    async def work(tx: Tx) -> PaymentAttempt:
        return await world.submitted(tx, await world.opened(tx))

    return await db.run(work)


async def test_an_attempt_is_counted_once_it_is_committed_however_often_it_is_reported(
    db: Db,
) -> None:
    attempt = await _submitted(db)
    before = _counted("succeeded")
    for _ in range(3):
        await db.run(lambda tx: world.said(tx, attempt, "SUCCEEDED", provider_ref="p"))
    assert _counted("succeeded") == before + 1


async def test_an_end_that_is_rolled_back_is_not_counted(db: Db) -> None:
    attempt = await _submitted(db)
    before = _counted("declined")

    class Broken(Exception):
        pass

    async def work(tx: Tx) -> None:
        await world.said(tx, attempt, "DECLINED", reason="insufficient_funds")
        raise Broken

    try:
        await db.run(work)
    except Broken:
        assert _counted("declined") == before
    await db.run(lambda tx: world.said(tx, attempt, "DECLINED", reason="insufficient_funds"))
    assert _counted("declined") == before + 1


async def test_what_is_to_be_done_once_committed_is_done_at_once_outside_a_transaction(
    db: Db,
) -> None:
    done: list[str] = []
    async with db.transaction() as tx:
        once_committed(tx, lambda: done.append("after the commit"))
        assert done == []
    assert done == ["after the commit"]
    async with db.connection() as tx:
        once_committed(tx, lambda: done.append("at once"))
    assert done[1:] == ["at once"]
