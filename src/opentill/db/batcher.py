"""Combines the work of concurrent callers in batches, each of which is one transaction.

A commit costs the same for one change as for fifty, and changes of one merchant's balance wait for
each other. So items that arrive while a batch runs form the next batch. An item that arrives while
no batch runs starts one immediately.

When enough items wait, a second batch runs at the same time: one is prepared while the other waits
for its commit. Each takes its share of all items, so that concurrent batches have the same size.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

# A second batch starts only if this many items wait, because the fixed cost of a batch is about the
# cost of as many items.
MIN_BATCH: Final = 8
# The callers of a batch often come back with another item. So the next batch waits while each pause
# brings more items, for at most PAUSES pauses.
PAUSE_S: Final = 0.0005
PAUSES: Final = 4


class Batcher(Generic[T, R]):
    """Combines the items of concurrent callers in batches; each caller gets its own result."""

    def __init__(
        self, run: Callable[[Sequence[T]], Awaitable[Sequence[R]]], *, most: int, at_once: int
    ) -> None:
        """``run`` takes at most ``most`` items and returns a result for each, in their order.

        At most ``at_once`` batches run at the same time. Every caller of a batch gets the exception
        that ``run`` raises.
        """
        self._run = run
        self._most = most
        self._at_once = at_once
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._unfinished = 0  # items that wait or are in a running batch
        self._running = 0
        # Keeps references to the tasks, since the event loop has only weak ones.
        self._tasks: set[asyncio.Task[None]] = set()

    async def do(self, item: T) -> R:
        """Run an item in a batch, and return or raise its result."""
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
        """Run batches until no item waits, or until another task can take the few that wait.

        It is a task of its own, so that the cancellation of a caller does not stop it.
        """
        try:
            while self._waiting and (self._running == 1 or len(self._waiting) >= MIN_BATCH):
                share = -(-self._unfinished // self._at_once)
                count = min(self._most, max(share, MIN_BATCH), len(self._waiting))
                batch = [self._waiting.popleft() for _ in range(count)]
                try:
                    await self._run_batch(batch)
                finally:
                    self._unfinished -= count
                if count > 1:
                    await self._wait_for_items()
        finally:
            self._running -= 1

    async def _wait_for_items(self) -> None:
        """Wait for the next items while more and more arrive."""
        before = -1
        for _ in range(PAUSES):
            if len(self._waiting) == before or len(self._waiting) >= self._most:
                return
            before = len(self._waiting)
            await asyncio.sleep(PAUSE_S)

    async def _run_batch(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        futures = [future for _, future in batch]
        try:
            results = await self._run([item for item, _ in batch])
        except BaseException as error:  # noqa: BLE001 - raised to each caller
            for future in futures:
                if not future.done():  # it is done if its caller was cancelled
                    future.set_exception(error)
            return
        for future, result in zip(futures, results, strict=True):
            if not future.done():
                future.set_result(result)
