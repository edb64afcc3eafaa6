"""Worker jobs of figures: count committed entries and attempts in bounded batches.

Money is counted from the ledger's entries in the order of their numbers, which is the order of
their commits; the progress is written in the same transaction. Nothing is therefore missed or
counted twice, wherever a worker stops. The first count of an old database works the same way.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import structlog

from opentill import orders
from opentill.db.database import Db, Tx
from opentill.figures import brand_queries, gateway_queries, queries
from opentill.figures.model import Behind
from opentill.orders import FailedAttempts

_log: Final = structlog.get_logger()
# At most this many entries or attempts are counted in a transaction, in about 0.1 s.
BATCH: Final = 5000
_SCAN_LIMIT: Final = 200  # one statement returns at most this many merchants or balances


async def count_all(
    db: Db, batch: int = BATCH, advance: Callable[[int], None] = lambda _: None
) -> int:
    """Count everything that is not counted yet; return the number of entries and attempts.

    ``advance`` is called with the number of entries of each batch. Safe beside other workers.
    """
    return await _count_entries(db, batch, advance) + await _count_attempts(db, batch)


async def catch_up(db: Db, merchant_id: str) -> None:
    """Bring a merchant's figures up to date, for a page that shows them.

    Counts at most ``BATCH`` entries of each balance and as many attempts. Figures that are further
    behind show the time that they cover, and the worker continues.
    """
    async with db.connection() as tx:
        behind = await queries.BEHIND_OF.all(tx, merchant_id=merchant_id)
        failed = await orders.find_uncounted_since(tx, merchant_id)
    for balance in behind:
        await db.run(partial(count_entries, balance=balance))
    if failed is not None:
        await db.run(partial(count_attempts, merchant_id=merchant_id))


async def _count_entries(db: Db, batch: int, advance: Callable[[int], None]) -> int:
    counted = 0
    last = Behind("", "", 0)
    while True:
        async with db.connection() as tx:
            behind = await queries.BEHIND.all(
                tx, merchant_id=last.merchant_id, currency=last.currency, limit=_SCAN_LIMIT
            )
        for balance in behind:
            count = partial(count_entries, balance=balance, most=batch)
            while entries := await db.run(count):
                counted += entries
                advance(entries)
                if entries < batch:
                    break
        if len(behind) < _SCAN_LIMIT:
            return counted
        last = behind[-1]


async def count_entries(tx: Tx, balance: Behind, most: int = BATCH) -> int:
    """Count up to ``most`` of a balance's entries; return their number."""
    key = {"merchant_id": balance.merchant_id, "currency": balance.currency}
    await queries.OPEN_HEAD.run(tx, **key)
    after = await queries.LOCK_HEAD.get(tx, **key)
    if after is None:
        return 0  # there is no such balance
    return await queries.COUNT.get(tx, **key, after=after, limit=most) or 0


async def _count_attempts(db: Db, batch: int) -> int:
    counted = 0
    last = ""
    while True:
        async with db.connection() as tx:
            merchants = await orders.list_uncounted_merchants(tx, last, _SCAN_LIMIT)
        for merchant_id in merchants:
            count = partial(count_attempts, merchant_id=merchant_id, most=batch)
            while attempts := await db.run(count):
                counted += attempts
                if attempts < batch:
                    break
        if len(merchants) < _SCAN_LIMIT:
            return counted
        last = merchants[-1]


async def count_attempts(tx: Tx, merchant_id: str, most: int = BATCH) -> int:
    """Count up to ``most`` of a merchant's failed attempts; return their number."""
    await queries.OPEN_ATTEMPTS.run(tx, merchant_id=merchant_id)
    await queries.LOCK_ATTEMPTS.get(tx, merchant_id=merchant_id)
    changed = await orders.count_failed(tx, merchant_id, most)
    failed: dict[int, int] = defaultdict(int)
    counted = [change for change in changed if change.failed]  # others were canceled by customers
    for change in counted:
        failed[change.since] += change.failed
    if failed:
        changes = {"since": list(failed), "failed": list(failed.values())}
        await queries.OPEN_QUARTERS.run(tx, merchant_id=merchant_id, since=changes["since"])
        await queries.ADD_FAILED.run(tx, merchant_id=merchant_id, **changes)
        await gateway_queries.ADD_FAILED.run(tx, **_columns(counted))
    return sum(change.attempts for change in changed)


def _columns(changed: Sequence[FailedAttempts]) -> dict[str, list[Any]]:
    names = ("since", "gateway", "method", "currency", "failed")
    return {name: [getattr(one, name) for one in changed] for name in names}


async def repair_by_gateway(db: Db) -> bool:
    """Recount by gateway if the sums differ from those of merchants; return whether it recounted.

    They differ after a worker of the previous version, which does not count by gateway.
    """
    async with db.connection() as tx:
        if not await gateway_queries.DIFFER.get(tx):
            return False

    async def work(tx: Tx) -> None:
        await gateway_queries.LOCK.run(tx)
        await gateway_queries.CLEAR.run(tx)
        await gateway_queries.RECOUNT.run(tx)

    await db.run(work)
    _log.warning("figures by gateway are counted anew")
    return True


async def repair_by_brand(db: Db) -> bool:
    """Recount by card brand if the number of payments differs; return whether it did.

    A worker of the previous version does not count by brand.
    """
    async with db.connection() as tx:
        if not await brand_queries.DIFFER.get(tx):
            return False

    async def work(tx: Tx) -> None:
        await brand_queries.LOCK.run(tx)
        await brand_queries.CLEAR.run(tx)
        await brand_queries.RECOUNT.run(tx)

    await db.run(work)
    _log.warning("figures by card brand are counted anew")
    return True


async def count_uncounted_entries(db: Db) -> int:
    """Return the number of entries that are not counted yet."""
    return await db.read(queries.WAITING.get) or 0
