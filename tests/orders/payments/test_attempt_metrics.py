"""The metrics count each payment attempt once, after the commit."""

from opentill.core import metrics
from opentill.db.database import Db, Tx, after_commit
from opentill.orders import PaymentAttempt
from support import world

PREFIX = 'opentill_payment_attempts_total{gateway="sandbox",method="CREDIT_CARD",outcome='


def _count(outcome: str) -> float:
    lines = metrics.render().decode().splitlines()
    prefix = f'{PREFIX}"{outcome}"}} '
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(prefix))


async def _submit(db: Db) -> PaymentAttempt:
    async def change(tx: Tx) -> PaymentAttempt:
        return await world.submit_attempt(tx, await world.create_order(tx))

    return await db.run(change)


async def test_an_attempt_that_is_reported_repeatedly_is_counted_once(db: Db) -> None:
    attempt = await _submit(db)
    before = _count("succeeded")
    for _ in range(3):
        await db.run(lambda tx: world.report_payment(tx, attempt, "SUCCEEDED", provider_ref="p"))
    assert _count("succeeded") == before + 1


async def test_an_outcome_that_is_rolled_back_is_not_counted(db: Db) -> None:
    attempt = await _submit(db)
    before = _count("declined")

    class Broken(Exception):
        pass

    async def change(tx: Tx) -> None:
        await world.report_payment(tx, attempt, "DECLINED", reason="insufficient_funds")
        raise Broken

    try:
        await db.run(change)
    except Broken:
        assert _count("declined") == before
    await db.run(
        lambda tx: world.report_payment(tx, attempt, "DECLINED", reason="insufficient_funds")
    )
    assert _count("declined") == before + 1


async def test_a_callback_runs_after_the_commit_or_at_once_outside_a_transaction(db: Db) -> None:
    calls: list[str] = []
    async with db.transaction() as tx:
        after_commit(tx, lambda: calls.append("after the commit"))
        assert calls == []
    assert calls == ["after the commit"]
    async with db.connection() as tx:
        after_commit(tx, lambda: calls.append("at once"))
    assert calls[1:] == ["at once"]
