"""Rate limits: sliding windows of a minute, an hour or a day, exact across all processes.

A window is the list of the times at which requests passed, with how many passed then; one statement
drops the old ones, counts and adds. The row lock of the upsert makes it exact: of requests that
run at once in any number of processes, never more than the limit pass in any 60 seconds. A refused
request is not counted: a client that keeps asking is served again once its window has room.

Above a limit of 1,000 a minute, times are rounded up to whole seconds, so that a row stays small.
"""

from typing import Final, Literal

from opentill.core.errors import TooManyRequests
from opentill.core.settings import Settings
from opentill.db import queries
from opentill.db.database import Db, Tx
from opentill.db.queries import HIT_SQL, Window

WINDOW_MS: Final = 60_000
__all__ = [
    "HIT_SQL",
    "OfMerchant",
    "Window",
    "forget",
    "hit",
    "hit_daily",
    "hit_hourly",
    "hit_merchant",
    "prune",
    "retry_after_s",
]

OfMerchant = Literal["checkouts", "resends"]  # what a merchant may do so many times a minute


async def hit(tx: Tx, scope: str, subject: str, limit: int, now: int) -> Window | None:
    """Count a request. Returns the window, or None if the limit (per minute) is used up."""
    return await queries.HIT.first(tx, scope=scope, subject=subject, limit=limit, now=now)


async def hit_merchant(
    db: Db, settings: Settings, what: OfMerchant, merchant_id: str, now: int
) -> None:
    """Count a request of a merchant. Raises TooManyRequests."""
    limit = {
        "checkouts": settings.limit_checkouts_per_minute,
        "resends": settings.limit_resends_per_minute,
    }[what]
    if not limit:
        return
    async with db.connection() as tx:
        if await hit(tx, what, merchant_id, limit, now) is None:
            raise TooManyRequests(limit, await retry_after_s(tx, what, merchant_id, now))


async def hit_hourly(tx: Tx, what: str, subject: str, limit: int, now: int) -> None:
    """Count something in the transaction that does it, ``limit`` times an hour at most.

    Others who do it for the same subject wait until the transaction ends. Raises TooManyRequests.
    """
    where = {"scope": f"hourly {what}", "subject": subject, "now": now}
    if await queries.HIT_HOURLY.first(tx, **where, limit=limit) is None:
        window = await queries.WINDOW_HOURLY.one(tx, **where)
        wait_s = -(-(window.oldest + queries.HOUR_MS - now) // 1000)
        raise TooManyRequests(limit, min(max(1, wait_s), queries.HOUR_MS // 1000 + 1))


async def hit_daily(tx: Tx, what: str, subject: str, limit: int, now: int) -> None:
    """Count something as ``hit_hourly`` does, ``limit`` times in 24 hours at most."""
    where = {"scope": f"daily {what}", "subject": subject, "now": now}
    if await queries.HIT_DAILY.first(tx, **where, limit=limit) is None:
        window = await queries.WINDOW_DAILY.one(tx, **where)
        wait_s = -(-(window.oldest + queries.DAY_MS - now) // 1000)
        raise TooManyRequests(limit, min(max(1, wait_s), queries.DAY_MS // 1000 + 1))


async def retry_after_s(tx: Tx, scope: str, subject: str, now: int) -> int:
    """Return after how many whole seconds the oldest request leaves the window."""
    window = await queries.WINDOW.first(tx, scope=scope, subject=subject, now=now)
    oldest = now if window is None else window.oldest
    return min(max(1, -(-(oldest + WINDOW_MS - now) // 1000)), WINDOW_MS // 1000 + 1)


async def prune(tx: Tx, now: int) -> int:
    """Delete a batch of windows that nobody used for twice as long, and return how many."""
    return await queries.PRUNE_WINDOWS.run(
        tx,
        before=now - 2 * WINDOW_MS,
        before_hourly=now - 2 * queries.HOUR_MS,
        before_daily=now - 2 * queries.DAY_MS,
        after=now + 2 * WINDOW_MS,
    )


async def forget(tx: Tx) -> None:
    """Delete all windows: once the clock was set back, the times in them are in the future."""
    await queries.DELETE_WINDOWS.run(tx)
