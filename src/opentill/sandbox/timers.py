"""What the bank does by itself later: kept in storage, so that a restart forgets nothing."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal

import msgspec

from opentill.sandbox.storage import Store, Tx

Task = Literal["decline", "dispute", "fail_refund"]

TIMERS: Final = "timers"  # the topic that says: there is a new timer
_LONGEST_WAIT_S: Final = 60.0


class Timer(msgspec.Struct, frozen=True):
    """A row of ``timers``: do ``task`` with the payment or refund ``subject`` at ``due_at`` ms."""

    id: int
    due_at: int
    task: Task
    subject: str


def now_ms() -> int:
    """Return the time in Unix ms, which every time of the bank is in."""
    return time.time_ns() // 1_000_000


def set_timer(tx: Tx, task: Task, subject: str, due_at: int) -> None:
    """Have the task done at ``due_at`` (Unix ms)."""
    tx.insert("timers", {"due_at": due_at, "task": task, "subject": subject})
    tx.announce(TIMERS)


class TimerRunner:
    """Does what is due: each task in one transaction with the removal of its timer."""

    def __init__(self, store: Store, run_timer: Callable[[Tx, Timer, int], None]) -> None:
        """``run_timer(tx, timer, now)`` does the task of one timer."""
        self._store = store
        self._run_timer = run_timer
        self._notified = asyncio.Event()

    def notify(self) -> None:
        """Look again: there is a new timer."""
        self._notified.set()

    async def run(self) -> None:
        """Do what is due, forever."""
        while True:
            self._notified.clear()
            next_at = await self._store.do(self._do_due)
            wait_s = _LONGEST_WAIT_S if next_at is None else next_at / 1000 - time.time()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(max(wait_s, 0.001), _LONGEST_WAIT_S)):
                    await self._notified.wait()

    def _do_due(self, tx: Tx) -> int | None:
        """Do up to 100 tasks that are due; return when the next one is."""
        now = now_ms()
        sql = "select * from timers where due_at <= :now order by due_at limit 100"
        for timer in tx.all(Timer, sql, now=now):
            self._run_timer(tx, timer, now)
            tx.run("delete from timers where id = :id", id=timer.id)
        following = tx.first(Timer, "select * from timers order by due_at limit 1")
        return following.due_at if following else None
