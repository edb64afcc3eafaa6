"""What waits for the same database goes there together, in one transaction.

A commit costs the same for one change as for fifty, and whoever changes a busy merchant's balance
waits for the one before. So while a batch is on its way, what comes meanwhile waits and is the next
batch. A caller that comes when no batch is on its way is served at once.

Once much waits, a second batch goes beside the first (a *lane*): while one waits for its commit the
other gets ready. A lane takes its share of all that is there, so that the lanes carry the same.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

WORTH_IT: Final = 8  # items that wait, for another lane: a batch costs as much as so many in one
# After a batch its callers are likely to come again. What comes is gathered for as long as each
# pause brings some more, and no longer than so many pauses.
PAUSE_S: Final = 0.0005
PAUSES: Final = 4


class Batcher(Generic[T, R]):
    """Gathers the items of concurrent callers into batches; each caller gets its own result."""

    def __init__(
        self, run: Callable[[Sequence[T]], Awaitable[Sequence[R]]], *, most: int, at_once: int
    ) -> None:
        """``run`` takes at most ``most`` items and returns what is told for each, in their order.

        It runs at most ``at_once`` times at once. What it raises is raised to every caller of the
        batch.
        """
        self._run = run
        self._most = most
        self._at_once = at_once
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._there = 0  # items that wait or are on their way
        self._busy = 0  # lanes
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself keeps no task alive

    async def do(self, item: T) -> R:
        """Do an item with whatever else waits, and return or raise what came of it."""
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        self._there += 1
        if self._busy == 0 or (self._busy < self._at_once and len(self._waiting) >= WORTH_IT):
            self._busy += 1
            lane = asyncio.create_task(self._work())
            self._tasks.add(lane)
            lane.add_done_callback(self._tasks.discard)
        return await result

    async def _work(self) -> None:
        """Run batches until nobody waits. The work itself is nobody's to cancel.

        The last lane leaves nobody waiting; another one leaves to it what is not worth a batch.
        """
        try:
            while self._waiting and (self._busy == 1 or len(self._waiting) >= WORTH_IT):
                share = -(-self._there // self._at_once)
                count = min(self._most, max(share, WORTH_IT), len(self._waiting))
                batch = [self._waiting.popleft() for _ in range(count)]
                try:
                    await self._one(batch)
                finally:
                    self._there -= count
                if count > 1:
                    await self._gather()
        finally:
            self._busy -= 1

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
        except BaseException as error:  # noqa: BLE001 - each caller is told
            for future in waiting:
                if not future.done():  # its caller may have gone away
                    future.set_exception(error)
            return
        for future, result in zip(waiting, results, strict=True):
            if not future.done():
                future.set_result(result)
