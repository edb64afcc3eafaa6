"""Success rates and breakers of gateway accounts, from calls and from attempts that have ended."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import asyncpg

from opentill.db.database import Db, Tx
from opentill.db.polling import poll_in_background
from opentill.gateways import Gateways, accounts
from opentill.gateways.breakers import Verdict
from opentill.gateways.model import Gateway, PaymentOutcome
from opentill.gateways.success_rates import EndedAttempt
from opentill.orders.payments import queries

POLL_S: Final = 2.0
_FIRST_MS: Final = 7_200_000  # a process begins with the attempts of the last two hours
_OVERLAP_MS: Final = 60_000  # attempts may be committed so long after the time that they store
_MOST: Final = 2000


async def judge_call(
    db: Db,
    gateways: Mapping[str, Gateway],
    account_id: str,
    outcome: PaymentOutcome,
    duration_ms: int,
    now: int,
) -> bool:
    """Pause an account whose call shows that it fails; return whether its error text says so.

    Costs nothing for accounts that never pause themselves.
    """
    breaker = gateways.breaker(account_id) if isinstance(gateways, Gateways) else None
    if breaker is None or not isinstance(gateways, Gateways) or not breaker.has_breaker:
        return False
    problem = gateways.breakers.judge_call(breaker, outcome, duration_ms)
    if problem:
        await _pause(db, gateways, account_id, problem, now)
    return problem.startswith("error: ")


class HealthFollower:
    """Reads the attempts that have ended, if rules or breakers need them."""

    def __init__(self, db: Db, gateways: Gateways, clock: Callable[[], int]) -> None:
        """``clock`` returns business time, which attempts store."""
        self._db = db
        self._gateways = gateways
        self._clock = clock
        self._read_until: int | None = None

    async def refresh(self) -> None:
        """Count the attempts that have ended since the last call. Raises Unavailable."""
        gateways = self._gateways
        with_breaker = gateways.list_breakers()
        if not with_breaker and not gateways.rules.needs_success_rates:
            return
        now = self._clock()
        after = now - _FIRST_MS if self._read_until is None else self._read_until - _OVERLAP_MS
        try:
            async with self._db.connection() as tx:
                newest = await self._read(tx, after)
        except asyncpg.UndefinedColumnError:  # before the migration
            return
        is_first = self._read_until is None
        self._read_until = now
        ended = gateways.success_rates.count(reversed(newest), now)
        for account in [] if is_first else with_breaker:
            mine = [attempt for attempt in ended if attempt.gateway == account.id]
            verdict = gateways.breakers.judge_attempts(account, mine)
            await self._follow(account.id, verdict, now)

    async def _read(self, tx: Tx, after: int) -> list[EndedAttempt]:
        """Return the attempts that ended after a time, the newest first."""
        newest = await queries.ENDED_ATTEMPTS.all(tx, after=after, limit=_MOST)
        if self._gateways.environment is None:  # before the migration of their index
            return newest
        newest += await queries.ENDED_ATTEMPTS_OF_ENVIRONMENT.all(tx, after=after, limit=_MOST)
        return sorted(newest, key=lambda attempt: attempt.updated_at, reverse=True)

    async def _follow(self, account_id: str, verdict: Verdict, now: int) -> None:
        if verdict.problem:
            await _pause(self._db, self._gateways, account_id, verdict.problem, now)
        elif verdict.is_mended:
            self._gateways.breakers.reset(account_id)
            await self._db.run(partial(accounts.mend, account_id=account_id, now=now))


async def _pause(db: Db, gateways: Gateways, account_id: str, problem: str, now: int) -> None:
    gateways.breakers.reset(account_id)
    pausing = partial(accounts.pause_broken, account_id=account_id, reason=problem, now=now)
    await db.run(pausing)


@asynccontextmanager
async def following(db: Db, gateways: object, clock: Callable[[], int]) -> AsyncIterator[None]:
    """Follow the success rates and breakers of accounts while the block runs."""
    if not isinstance(gateways, Gateways):
        yield
        return
    health = HealthFollower(db, gateways, clock)
    message = "attempts of gateway accounts cannot be read"
    async with poll_in_background(health.refresh, POLL_S, message):
        yield
