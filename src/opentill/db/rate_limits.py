"""Rate limits: sliding windows of a minute, an hour or a day, exact across all processes.

A window is a list of times with the number of requests that passed at each. One statement drops old
times, counts the requests and adds the new one. The row lock of the upsert makes it exact: never
more requests than the limit pass in any 60 seconds, however many processes serve them. A refused
request does not count, so that a client which keeps sending is served again when there is room.

Above a limit of 1,000 a minute, times are rounded up to whole seconds to keep the row small.
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
    "PerMerchant",
    "Window",
    "forget",
    "hit",
    "hit_daily",
    "hit_hourly",
    "hit_merchant",
    "prune",
    "retry_after_s",
]

PerMerchant = Literal["checkouts", "resends"]  # operations with a limit per merchant and minute


async def hit(tx: Tx, scope: str, subject: str, limit: int, now: int) -> Window | None:
    """Count a request and return the window, or None if the limit per minute is reached.

    ``scope`` names the limit, ``subject`` is what it counts, such as an address or an API key.
    """
    return await queries.HIT.first(tx, scope=scope, subject=subject, limit=limit, now=now)


async def hit_merchant(
    db: Db, settings: Settings, scope: PerMerchant, merchant_id: str, now: int
) -> None:
    """Count a request of a merchant. Raises TooManyRequests."""
    limit = {
        "checkouts": settings.limit_checkouts_per_minute,
        "resends": settings.limit_resends_per_minute,
    }[scope]
    if not limit:
        return
    async with db.connection() as tx:
        if await hit(tx, scope, merchant_id, limit, now) is None:
            raise TooManyRequests(limit, await retry_after_s(tx, scope, merchant_id, now))


async def hit_hourly(tx: Tx, scope: str, subject: str, limit: int, now: int) -> None:
    """Count an action in the action's transaction: at most ``limit`` in an hour.

    Concurrent actions for the same subject wait until the transaction ends. Raises TooManyRequests.
    """
    window = {"scope": f"hourly {scope}", "subject": subject, "now": now}
    if await queries.HIT_HOURLY.first(tx, **window, limit=limit) is None:
        oldest = (await queries.WINDOW_HOURLY.one(tx, **window)).oldest
        wait = _wait_s(oldest, queries.HOUR_MS, now)
        raise TooManyRequests(limit, wait, queries.HOUR_MS // 1000)


async def hit_daily(tx: Tx, scope: str, subject: str, limit: int, now: int) -> None:
    """Count an action like ``hit_hourly``: at most ``limit`` in 24 hours."""
    window = {"scope": f"daily {scope}", "subject": subject, "now": now}
    if await queries.HIT_DAILY.first(tx, **window, limit=limit) is None:
        oldest = (await queries.WINDOW_DAILY.one(tx, **window)).oldest
        wait = _wait_s(oldest, queries.DAY_MS, now)
        raise TooManyRequests(limit, wait, queries.DAY_MS // 1000)


async def retry_after_s(tx: Tx, scope: str, subject: str, now: int) -> int:
    """Return in how many whole seconds the oldest request leaves the window of ``hit``."""
    window = await queries.WINDOW.first(tx, scope=scope, subject=subject, now=now)
    return _wait_s(now if window is None else window.oldest, WINDOW_MS, now)


def _wait_s(oldest: int, window_ms: int, now: int) -> int:
    """Return the time until ``oldest`` leaves the window, in whole seconds, at least one.

    It is at most the window's length plus one second, even if a clock is ahead.
    """
    return min(max(1, -(-(oldest + window_ms - now) // 1000)), window_ms // 1000 + 1)


async def prune(tx: Tx, now: int) -> int:
    """Delete a batch of windows unused for twice their length, and return how many."""
    return await queries.PRUNE_WINDOWS.run(
        tx,
        before=now - 2 * WINDOW_MS,
        before_hourly=now - 2 * queries.HOUR_MS,
        before_daily=now - 2 * queries.DAY_MS,
        after=now + 2 * WINDOW_MS,
    )


async def forget(tx: Tx) -> None:
    """Delete all windows, because a clock that was set back has left times in the future."""
    await queries.DELETE_WINDOWS.run(tx)
