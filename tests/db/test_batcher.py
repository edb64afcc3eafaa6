"""The batcher: concurrent callers share batches, and each receives its own result."""

import asyncio
from collections.abc import Sequence

import pytest

from opentill.db.batcher import MIN_BATCH, PAUSE_S, PAUSES, Batcher


class Work:
    """Records the batches that have started; each ends when ``gate`` is released."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.running = 0
        self.most_running = 0
        self.gate = asyncio.Semaphore(0)

    async def run(self, batch: Sequence[int]) -> list[int]:
        self.batches.append(list(batch))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await self.gate.acquire()
        self.running -= 1
        if any(item < 0 for item in batch):
            msg = f"failed: {batch}"
            raise ValueError(msg)
        return [item * 10 for item in batch]


async def _settle() -> None:
    """Wait until every task that can continue has done so."""
    await asyncio.sleep(PAUSE_S * PAUSES * 2)
    for _ in range(10):
        await asyncio.sleep(0)


async def test_concurrent_batches_share_the_waiting_items() -> None:
    work = Work()
    batcher = Batcher(work.run, most=100, at_once=2)
    callers = [asyncio.create_task(batcher.do(item)) for item in range(32)]
    await _settle()
    assert work.batches == [list(range(16)), list(range(16, 32))]
    work.gate.release()
    await _settle()
    later_callers = [asyncio.create_task(batcher.do(item)) for item in range(32, 40)]
    await _settle()
    assert work.batches[2:] == [list(range(32, 40))]  # so few items run in a single batch
    assert len(work.batches[2]) == MIN_BATCH
    for _ in range(2):
        work.gate.release()
    assert await asyncio.gather(*callers, *later_callers) == [item * 10 for item in range(40)]


async def test_a_single_item_runs_at_once_and_a_few_wait_for_the_running_batch() -> None:
    work = Work()
    batcher = Batcher(work.run, most=100, at_once=2)
    first = asyncio.create_task(batcher.do(1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert work.batches == [[1]]  # the first batch starts without a pause
    others = [asyncio.create_task(batcher.do(item)) for item in range(2, MIN_BATCH + 1)]
    await _settle()
    assert work.batches == [[1]]  # the others are too few to run beside the first batch
    work.gate.release()
    await _settle()
    assert work.batches == [[1], list(range(2, MIN_BATCH + 1))]
    work.gate.release()
    assert await asyncio.gather(first, *others) == [n * 10 for n in range(1, MIN_BATCH + 1)]


async def test_the_last_items_wait_for_the_batch_that_still_runs() -> None:
    work = Work()
    batcher = Batcher(work.run, most=8, at_once=2)
    callers = [asyncio.create_task(batcher.do(item)) for item in range(19)]
    await _settle()
    assert [len(batch) for batch in work.batches] == [8, 8]
    work.gate.release()
    await _settle()
    assert len(work.batches) == 2  # the last three are too few to run beside the second batch
    work.gate.release()
    await _settle()
    assert work.batches[2] == [16, 17, 18]
    work.gate.release()
    assert await asyncio.gather(*callers) == [item * 10 for item in range(19)]


@pytest.mark.parametrize("at_once", [1, 2, 3])
async def test_batches_stay_within_size_and_concurrency_and_miss_no_item(at_once: int) -> None:
    work = Work()
    batcher = Batcher(work.run, most=9, at_once=at_once)
    callers = [asyncio.create_task(batcher.do(item)) for item in range(100)]
    while not all(caller.done() for caller in callers):
        await _settle()
        work.gate.release()
    assert await asyncio.gather(*callers) == [item * 10 for item in range(100)]
    assert work.most_running == at_once
    assert max(map(len, work.batches)) == 9
    assert sorted(item for batch in work.batches for item in batch) == list(range(100))


async def test_all_callers_of_a_batch_receive_its_error_and_the_next_batch_runs() -> None:
    work = Work()
    batcher = Batcher(work.run, most=2, at_once=1)
    callers = [asyncio.create_task(batcher.do(item)) for item in (1, -2, 3, 4)]
    for _ in range(2):
        await _settle()
        work.gate.release()
    results = await asyncio.gather(*callers, return_exceptions=True)
    assert [str(result) for result in results] == ["failed: [1, -2]"] * 2 + ["30", "40"]
    work.gate.release()
    assert await batcher.do(5) == 50


async def test_a_cancelled_caller_does_not_affect_the_other_callers() -> None:
    work = Work()
    batcher = Batcher(work.run, most=10, at_once=1)
    first, second, third = (asyncio.create_task(batcher.do(item)) for item in (1, 2, 3))
    await _settle()
    second.cancel()
    work.gate.release()
    assert await asyncio.gather(first, third) == [10, 30]
    work.gate.release()
    assert await batcher.do(4) == 40
