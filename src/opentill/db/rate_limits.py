"""Rate limits: sliding windows of one minute, exact across all processes.

A window is the list of the times at which requests passed, with how many passed then; one statement
drops the old ones, counts and adds. The row lock of the upsert makes it exact: of requests that
run at once in any number of processes, never more than the limit pass in any 60 seconds. A refused
request is not counted, so a client that keeps knocking is served again once its minute allows.

Above a limit of 1,000 a minute, times are rounded up to whole seconds, so that a row stays small.
"""

from typing import Final, Literal

import msgspec

from opentill.core.errors import TooManyRequests
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx
from opentill.db.query import Command, Query

WINDOW_MS: Final = 60_000
OfMerchant = Literal["checkouts", "resends"]  # what a merchant may do so many times a minute

# Also a part of the statement that authenticates.
_TIME: Final = "case when :limit::bigint > 1000 then (:now::bigint / 1000 + 1) * 1000 else :now end"
# Clocks of servers differ a little; a time further ahead is from before the clock was set back.
_LIVE: Final = """unnest(w.hits, w.counts) as live (hit, count)
    where hit > :now - 60000 and hit <= :now + 60000"""
HIT_SQL: Final = f"""
    insert into rate_limit_windows as w (scope, subject, hits, counts, last_at)
    values (:scope::text, :subject::text, array[{_TIME}], array[1], :now::bigint)
    on conflict (scope, subject) do update
        set (hits, counts) = (
                select array_agg(hit order by hit), array_agg(count order by hit) from (
                    select hit, sum(count)::int as count from (
                        select hit, count from {_LIVE} union all select {_TIME}, 1
                    ) as one group by hit
                ) as summed),
            last_at = :now::bigint
        where (select coalesce(sum(count), 0) from {_LIVE}) < :limit
    returning (select sum(count)::bigint from unnest(counts) count) as used, hits[1] as oldest
"""  # noqa: S608 - put together from constants of ours


class Window(msgspec.Struct, frozen=True):
    """How full a window is: requests used, and the time (Unix ms) of the oldest one in it."""

    used: int
    oldest: int


HIT: Final = Query(Window, HIT_SQL)
LOOK: Final = Query(
    Window,
    """
    select coalesce(sum(count), 0)::bigint as used, coalesce(min(hit), :now::bigint) as oldest
    from rate_limit_windows w, unnest(w.hits, w.counts) as live (hit, count)
    where w.scope = :scope and w.subject = :subject
        and hit > :now::bigint - 60000 and hit <= :now::bigint + 60000
    """,
)
PRUNE: Final = Command(
    """
    delete from rate_limit_windows where (scope, subject) in (
        select scope, subject from rate_limit_windows where last_at < :before or last_at > :after
        limit 1000 for update skip locked)
    """
)
FORGET: Final = Command("delete from rate_limit_windows")


async def hit(tx: Tx, scope: str, subject: str, limit: int, now: int) -> Window | None:
    """Count a request. Returns the window, or None if the limit (per minute) is used up."""
    return await HIT.first(tx, scope=scope, subject=subject, limit=limit, now=now)


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


async def retry_after_s(tx: Tx, scope: str, subject: str, now: int) -> int:
    """Return after how many whole seconds the oldest request leaves the window."""
    window = await LOOK.first(tx, scope=scope, subject=subject, now=now)
    oldest = now if window is None else window.oldest
    return min(max(1, -(-(oldest + WINDOW_MS - now) // 1000)), WINDOW_MS // 1000 + 1)


async def prune(tx: Tx, now: int) -> int:
    """Delete a batch of windows that nobody used for two minutes, and return how many."""
    return await PRUNE.run(tx, before=now - 2 * WINDOW_MS, after=now + 2 * WINDOW_MS)


async def forget(tx: Tx) -> None:
    """Begin all windows anew: they hold times that the clock has gone back behind."""
    await FORGET.run(tx)
