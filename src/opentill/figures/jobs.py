"""Worker jobs of figures: count committed entries and attempts in bounded batches.

Money is counted from the ledger's entries in the order of their numbers, which is the order of
their commits; the progress is written in the same transaction. Nothing is therefore missed or
counted twice, wherever a worker stops. The first count of an old database works the same way.
Direct payments have no entry of their own, so they are counted like failed attempts.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import structlog

from opentill import orders
from opentill.db.database import Db, Tx
from opentill.figures import attempt_queries, brand_queries, gateway_queries, queries
from opentill.figures.model import Behind
from opentill.orders import DirectPayments, FailedAttempts

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
    """Count up to ``most`` failed attempts and direct payments of a merchant; return their number.

    ``most`` is the limit of each of the two.
    """
    await attempt_queries.OPEN_ATTEMPTS.run(tx, merchant_id=merchant_id)
    await attempt_queries.LOCK_ATTEMPTS.get(tx, merchant_id=merchant_id)
    changed = await orders.count_failed(tx, merchant_id, most)
    direct = await orders.count_direct(tx, merchant_id, most)
    failed = [change for change in changed if change.failed]  # others were canceled by customers
    if failed:
        await _add_failed(tx, merchant_id, failed)
    if failed or direct:
        await gateway_queries.ADD.run(tx, **_by_gateway(failed, direct))
    if direct:
        await _add_direct(tx, merchant_id, direct)
    return sum(change.attempts for change in changed) + sum(sums.payments for sums in direct)


async def _add_failed(tx: Tx, merchant_id: str, changes: Sequence[FailedAttempts]) -> None:
    failed: dict[int, int] = defaultdict(int)
    for change in changes:
        failed[change.since] += change.failed
    since = list(failed)
    await attempt_queries.OPEN_QUARTERS.run(tx, merchant_id=merchant_id, since=since)
    await attempt_queries.ADD_FAILED.run(
        tx, merchant_id=merchant_id, since=since, failed=list(failed.values())
    )


async def _add_direct(tx: Tx, merchant_id: str, direct: Sequence[DirectPayments]) -> None:
    quarters = {
        "currency": [sums.settled_currency for sums in direct],
        "since": [sums.since for sums in direct],
    }
    await attempt_queries.OPEN_DIRECT.run(tx, merchant_id=merchant_id, **quarters)
    await attempt_queries.ADD_DIRECT.run(
        tx,
        merchant_id=merchant_id,
        **quarters,
        payments=[sums.payments for sums in direct],
        paid_minor=[sums.settled_minor for sums in direct],
    )
    names = ("since", "method", "brand", "currency", "payments", "volume_minor")
    await brand_queries.ADD.run(
        tx,
        merchant_id=merchant_id,
        **{name: [getattr(sums, name) for sums in direct] for name in names},
    )


def _by_gateway(
    failed: Sequence[FailedAttempts], direct: Sequence[DirectPayments]
) -> dict[str, list[Any]]:
    names = ("since", "gateway", "method", "currency")
    rows = (*failed, *direct)
    return {
        **{name: [getattr(row, name) for row in rows] for name in names},
        "payments": [0] * len(failed) + [sums.payments for sums in direct],
        "volume_minor": [0] * len(failed) + [sums.volume_minor for sums in direct],
        "failed": [change.failed for change in failed] + [0] * len(direct),
    }


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
