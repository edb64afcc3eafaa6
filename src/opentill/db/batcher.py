"""Gathers what concurrent callers ask for into batches, each of which is one transaction.

A commit costs the same for one change as for fifty, and a change of a busy merchant's balance waits
for the change before it. So what is asked for while a batch runs waits, and is the next batch. A
caller that comes when no batch runs is served at once.

Once enough items wait, a second batch runs beside the first: while one waits for its commit, the
other is prepared. Each takes its share of all items, so that concurrent batches are of one size.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# How many items must wait before a batch begins beside one that runs: a batch costs as much as
# so many items.
MIN_BATCH: Final = 8
# After a batch its callers are likely to ask again. Items are gathered for as long as each pause
# brings more of them, and for at most so many pauses.
PAUSE_S: Final = 0.0005
PAUSES: Final = 4


class Batcher(Generic[T, R]):
    """Gathers the items of concurrent callers into batches; each caller gets its own result."""

    def __init__(
        self, run: Callable[[Sequence[T]], Awaitable[Sequence[R]]], *, most: int, at_once: int
    ) -> None:
        """``run`` takes at most ``most`` items and returns a result for each, in their order.

        At most ``at_once`` batches run at the same time. What ``run`` raises is raised to every
        caller of the batch.
        """
        self._run = run
        self._most = most
        self._at_once = at_once
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._unfinished = 0  # items that wait, or whose batch runs
        self._running = 0  # batches
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself keeps no task alive

    async def do(self, item: T) -> R:
        """Do an item in a batch with others that wait, and return or raise its result."""
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        self._unfinished += 1
        if self._running == 0 or (
            self._running < self._at_once and len(self._waiting) >= MIN_BATCH
        ):
            self._running += 1
            task = asyncio.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await result

    async def _work(self) -> None:
        """Run batches, until no item waits or another task can take the few that do.

        It is a task of its own, so that no caller who is cancelled ends it.
        """
        try:
            while self._waiting and (self._running == 1 or len(self._waiting) >= MIN_BATCH):
                share = -(-self._unfinished // self._at_once)
                count = min(self._most, max(share, MIN_BATCH), len(self._waiting))
                batch = [self._waiting.popleft() for _ in range(count)]
                try:
                    await self._one(batch)
                finally:
                    self._unfinished -= count
                if count > 1:
                    await self._gather()
        finally:
            self._running -= 1

    async def _gather(self) -> None:
        """Wait a moment for the next items, longer if there are more and more."""
        before = -1
        for _ in range(PAUSES):
            if len(self._waiting) == before or len(self._waiting) >= self._most:
                return
            before = len(self._waiting)
            await asyncio.sleep(PAUSE_S)

    async def _one(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        waiting = [future for _, future in batch]
        try:
            results = await self._run([item for item, _ in batch])
        except BaseException as error:  # noqa: BLE001 - raised to each caller
            for future in waiting:
                if not future.done():  # its caller may have gone away
                    future.set_exception(error)
            return
        for future, result in zip(waiting, results, strict=True):
            if not future.done():
                future.set_result(result)
