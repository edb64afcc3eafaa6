"""What waits for the same database goes there together, in one transaction.

A commit costs the same for one change as for fifty, and whoever changes a busy merchant's balance
waits for the one before. So while as many batches are on their way as there are lanes, what comes
meanwhile waits and is the next batch; as long as a lane is free, nothing waits. A batch is a lane's
share of all that is there, so that the lanes carry the same.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Together(Generic[T, R]):
    """Gathers the items of concurrent callers into batches; each caller gets its own result."""

    def __init__(
        self, run: Callable[[Sequence[T]], Awaitable[Sequence[R]]], *, most: int, lanes: int
    ) -> None:
        """``run`` takes at most ``most`` items and returns what is told for each, in their order.

        It runs at most ``lanes`` times at once. What it raises is raised to every caller of the
        batch.
        """
        self._run = run
        self._most = most
        self._lanes = lanes
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._busy = 0
        self._there = 0  # items that wait or are on their way
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself keeps no task alive

    async def do(self, item: T) -> R:
        """Do an item with whatever else waits, and return or raise what came of it."""
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        self._there += 1
        if self._busy < self._lanes:
            self._busy += 1
            lane = asyncio.create_task(self._work())
            self._tasks.add(lane)
            lane.add_done_callback(self._tasks.discard)
        return await result

    async def _work(self) -> None:
        """Run batches until nobody waits. The work itself is nobody's to cancel."""
        try:
            while self._waiting:
                share = -(-self._there // self._lanes)
                count = min(self._most, share, len(self._waiting))
                batch = [self._waiting.popleft() for _ in range(count)]
                try:
                    await self._one(batch)
                finally:
                    self._there -= count
        finally:
            self._busy -= 1

    async def _one(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        waiting = [future for _, future in batch]
        try:
            results = await self._run([item for item, _ in batch])
        except BaseException as error:  # noqa: BLE001 - each caller is told
            for future in waiting:
                if not future.done():  # its caller may have gone away
                    future.set_exception(error)
            return
        for future, result in zip(waiting, results, strict=True):
            if not future.done():
                future.set_result(result)
