"""The bank's timers for later tasks, which are stored and so survive a restart."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal

import msgspec

from opentill.sandbox.storage import Store, Tx

Task = Literal["decline", "dispute", "fail_refund", "expire"]

TIMERS: Final = "timers"  # the name of the topic that announces new timers
_MAX_WAIT_S: Final = 60.0


class Timer(msgspec.Struct, frozen=True):
    """A row of ``timers``: run ``task`` for the payment or refund ``subject`` at ``due_at`` ms."""

    id: int
    due_at: int
    task: Task
    subject: str


def now_ms() -> int:
    """Return the current time in Unix ms, the unit of all the bank's times."""
    return time.time_ns() // 1_000_000


def set_timer(tx: Tx, task: Task, subject: str, due_at: int) -> None:
    """Schedule a task at ``due_at`` (Unix ms)."""
    tx.insert("timers", {"due_at": due_at, "task": task, "subject": subject})
    tx.announce(TIMERS)


class TimerRunner:
    """Runs due tasks, each in one transaction with the deletion of its timer."""

    def __init__(self, store: Store, run_timer: Callable[[Tx, Timer, int], None]) -> None:
        """``run_timer(tx, timer, now)`` runs the task of one timer."""
        self._store = store
        self._run_timer = run_timer
        self._notified = asyncio.Event()

    def notify(self) -> None:
        """Check again, because there is a new timer."""
        self._notified.set()

    async def run(self) -> None:
        """Run tasks when they are due, until the task of this coroutine is cancelled."""
        while True:
            self._notified.clear()
            next_at = await self._store.do(self._do_due)
            wait_s = _MAX_WAIT_S if next_at is None else next_at / 1000 - time.time()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(wait_s, 0.001), _MAX_WAIT_S)):
                    await self._notified.wait()

    def _do_due(self, tx: Tx) -> int | None:
        """Run up to 100 due tasks; return when the next one is due."""
        now = now_ms()
        sql = "select * from timers where due_at <= :now order by due_at limit 100"
        for timer in tx.all(Timer, sql, now=now):
            self._run_timer(tx, timer, now)
            tx.run("delete from timers where id = :id", id=timer.id)
        next_timer = tx.first(Timer, "select * from timers order by due_at limit 1")
        return next_timer.due_at if next_timer else None
