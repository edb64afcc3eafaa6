"""Batches: who waits together goes together, each gets its own answer, and nobody is left."""

import asyncio
from collections.abc import Sequence

import pytest

from opentill.db.batcher import MIN_BATCH, PAUSE_S, PAUSES, Batcher


class Work:
    """Batches that were begun, each of which ends when it is told to."""

    def __init__(self) -> None:
        self.begun: list[list[int]] = []
        self.at_once = 0
        self.most = 0
        self.gate = asyncio.Semaphore(0)

    async def run(self, batch: Sequence[int]) -> list[int]:
        self.begun.append(list(batch))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await self.gate.acquire()
        self.at_once -= 1
        if any(item < 0 for item in batch):
            msg = f"spoiled: {batch}"
            raise ValueError(msg)
        return [item * 10 for item in batch]


async def _settle() -> None:
    """Long enough for what can go on to have gone on."""
    await asyncio.sleep(PAUSE_S * PAUSES * 2)
    for _ in range(10):
        await asyncio.sleep(0)


async def test_concurrent_batches_share_what_waits() -> None:
    work = Work()
    run_all = Batcher(work.run, most=100, at_once=2)
    callers = [asyncio.create_task(run_all.do(item)) for item in range(32)]
    await _settle()
    assert work.begun == [list(range(16)), list(range(16, 32))]
    work.gate.release()
    await _settle()
    more = [asyncio.create_task(run_all.do(item)) for item in range(32, 40)]
    await _settle()
    assert work.begun[2:] == [list(range(32, 40))]  # what there is, though its share is more
    assert len(work.begun[2]) == MIN_BATCH
    for _ in range(2):
        work.gate.release()
    assert await asyncio.gather(*callers, *more) == [item * 10 for item in range(40)]


async def test_who_comes_alone_goes_at_once_and_few_wait_for_each_other() -> None:
    work = Work()
    run_all = Batcher(work.run, most=100, at_once=2)
    first = asyncio.create_task(run_all.do(1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert work.begun == [[1]]  # without any pause
    others = [asyncio.create_task(run_all.do(item)) for item in range(2, MIN_BATCH + 1)]
    await _settle()
    assert work.begun == [[1]]  # not worth another batch
    work.gate.release()
    await _settle()
    assert work.begun == [[1], list(range(2, MIN_BATCH + 1))]
    work.gate.release()
    assert await asyncio.gather(first, *others) == [n * 10 for n in range(1, MIN_BATCH + 1)]


async def test_one_task_leaves_few_to_the_other_which_leaves_none() -> None:
    work = Work()
    run_all = Batcher(work.run, most=8, at_once=2)
    callers = [asyncio.create_task(run_all.do(item)) for item in range(19)]
    await _settle()
    assert [len(batch) for batch in work.begun] == [8, 8]
    work.gate.release()
    await _settle()
    assert len(work.begun) == 2  # three are not worth it while the other is on its way
    work.gate.release()
    await _settle()
    assert work.begun[2] == [16, 17, 18]
    work.gate.release()
    assert await asyncio.gather(*callers) == [item * 10 for item in range(19)]


@pytest.mark.parametrize("at_once", [1, 2, 3])
async def test_no_batch_is_larger_no_more_run_at_once_and_all_are_answered(at_once: int) -> None:
    work = Work()
    run_all = Batcher(work.run, most=9, at_once=at_once)
    callers = [asyncio.create_task(run_all.do(item)) for item in range(100)]
    while not all(caller.done() for caller in callers):
        await _settle()
        work.gate.release()
    assert await asyncio.gather(*callers) == [item * 10 for item in range(100)]
    assert work.most == at_once
    assert max(map(len, work.begun)) == 9
    assert sorted(item for batch in work.begun for item in batch) == list(range(100))


async def test_what_spoils_a_batch_is_told_to_all_of_it_and_the_next_goes_on() -> None:
    work = Work()
    run_all = Batcher(work.run, most=2, at_once=1)
    callers = [asyncio.create_task(run_all.do(item)) for item in (1, -2, 3, 4)]
    for _ in range(2):
        await _settle()
        work.gate.release()
    results = await asyncio.gather(*callers, return_exceptions=True)
    assert [str(result) for result in results] == ["spoiled: [1, -2]"] * 2 + ["30", "40"]
    work.gate.release()
    assert await run_all.do(5) == 50


async def test_a_caller_that_goes_away_takes_nothing_with_it() -> None:
    work = Work()
    run_all = Batcher(work.run, most=10, at_once=1)
    first, gone, third = (asyncio.create_task(run_all.do(item)) for item in (1, 2, 3))
    await _settle()
    gone.cancel()
    work.gate.release()
    assert await asyncio.gather(first, third) == [10, 30]
    work.gate.release()
    assert await run_all.do(4) == 40
