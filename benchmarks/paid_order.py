"""What a whole paid order costs, the way a customer goes, and each part of the way apart.

A shop opens a session, its customer looks at the page, sends the form, pays at the bank, comes back
and reads the receipt; the bank reports the payment, and the worker sends the shop its event.
Server, worker, PostgreSQL, bank and the shop's receiver are processes of their own; customers are
here.

Once as customers come, one after the other and some at a time; and once each part by all of them
before the next, with the worker stopped until the last, so that it shows what a part costs. What
server, worker and PostgreSQL use while nobody comes is measured before, and taken off.
"""

import asyncio
import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from benchmarks import customers, deliveries
from benchmarks.customers import STAGES, Order, Visitor
from benchmarks.deployment import Beside, Program, Serving, environment, free_port
from benchmarks.meter import Meter, Spent
from benchmarks.run import Apart, Run
from opentill.integrity.rules import check_books

MERCHANTS: Final = 10
RATE: Final = 40.0  # customers that come in a second
_AT_ONCE: Final = 16
_READS_S: Final = 0.3  # how long a customer looks at the bank's last page
_IDLE_S: Final = 4.0
_REST_S: Final = 3.0  # what the worker does a while after the last delivery: searches, figures
_GIVE_UP_S: Final = 60.0
_DELIVERED: Final = "event delivered"


async def measure(run: Run) -> None:
    """Send customers, as they come and part by part, and see that the books agree."""
    async with run.database("bench_paid_order", MERCHANTS) as apart:
        async with _deployment(run, apart) as way:
            quick = run.options.quick
            await way.warm(4 if quick else 80)
            each = 4 if quick else int(run.options.seconds * 5 * RATE)
            for _ in range(run.options.rounds):
                await way.as_they_come(each)
                await way.part_by_part(4 if quick else each // 2)
            async with way.meter.counting_statements():
                await way.count(4 if quick else 40)
        async with apart.db.snapshot() as tx:
            run.report.entries, violations = await check_books(tx)
        run.report.violations += [f"paid orders: {violation}" for violation in violations]


class _Deployed:
    """Server, worker, bank and receiver, and the customers that are sent there."""

    def __init__(self, run: Run, apart: Apart, server: Serving, bank: Program, worker: int) -> None:
        self.meter = Meter(apart.db, run.data_dir, run.postmaster, server.pid, worker)
        self.receiver_port = 0
        self._run, self._apart, self._worker = run, apart, worker
        self._server_port, self._bank_port = server.port, bank.port
        self._made = 0
        self._events = 0.0  # that an order has
        self._idle_s = 0.5 if run.options.quick else _IDLE_S

    async def warm(self, count: int) -> None:
        """Let all connections prepare their statements, and find out how many events there are."""
        before = deliveries.received(self.receiver_port)[0]
        await self._all(self._orders(count), self._whole)
        following, seen = -1, before
        while seen != following or seen == before:
            following = seen
            await asyncio.sleep(2)
            seen = deliveries.received(self.receiver_port)[0]
        self._events = (seen - before) / count
        async with self._apart.db.connection() as tx:
            await tx.execute("vacuum analyze")
            await tx.execute("checkpoint")
        await self._all(self._orders(count), self._whole)  # on the pages that the checkpoint wrote
        await self._delivered(seen, count)

    async def as_they_come(self, count: int) -> None:
        """Note what an order costs of those that come one after the other."""
        idle = await self._idle()
        received = deliveries.received(self.receiver_port)[0]
        before = await self.meter.read()
        await self._all(self._orders(count), self._whole)
        await self._delivered(received, count)
        spent = (await self.meter.read()).since(before).beyond(idle).each(count)
        for name, value in spent.figures().items():
            self._run.note(f"paid order, {name}", value)
        self._run.note("paid order, server while nobody comes, µs/s", idle.server_us)
        self._run.note("paid order, worker while nobody comes, µs/s", idle.worker_us)
        self._run.note("paid order, PostgreSQL while nobody comes, µs/s", idle.database_us)

    async def part_by_part(self, count: int) -> None:
        """Note what each part costs."""
        await self._stages(count, lambda name, spent: self._keep(name, spent.figures()))

    async def count(self, count: int) -> None:
        """Note how many statements each part runs, as PostgreSQL's log shows."""

        def keep(name: str, spent: Spent) -> None:
            self._keep(name, {"statements": spent.statements})

        await self._stages(count, keep)

    def _keep(self, stage: str, figures: dict[str, float]) -> None:
        for name, value in figures.items():
            values = self._run.report.stages.setdefault(stage, {})
            values.setdefault(name, []).append(value)

    async def _stages(self, count: int, keep: Callable[[str, Spent], None]) -> None:
        running = await self._idle()
        orders = self._orders(count)
        received = deliveries.received(self.receiver_port)[0]
        os.kill(self._worker, signal.SIGSTOP)
        try:
            stopped = await self._idle()
            before = await self.meter.read()
            for name, do in STAGES.items():
                await self._all(orders, do)
                if do is customers.pay_at_bank:
                    await self._confirmed(orders)
                after = await self.meter.read()
                keep(name, after.since(before).beyond(stopped).each(count))
                before = after
        finally:
            os.kill(self._worker, signal.SIGCONT)
        await self._delivered(received, count)
        spent = (await self.meter.read()).since(before)
        keep(_DELIVERED, spent.beyond(running).each(count))

    async def _idle(self) -> Spent:
        before = await self.meter.read()
        await asyncio.sleep(self._idle_s)
        return (await self.meter.read()).since(before).a_second()

    def _orders(self, count: int) -> list[Order]:
        numbers = range(self._made, self._made + count)
        self._made += count
        return [Order(self._apart.seed, number % MERCHANTS) for number in numbers]

    async def _all(
        self, orders: Sequence[Order], do: Callable[[Visitor, Order], Awaitable[None]]
    ) -> None:
        await customers.send(
            orders, do, ports=(self._server_port, self._bank_port), rate=RATE, at_once=_AT_ONCE
        )

    async def _whole(self, visitor: Visitor, order: Order) -> None:
        for do in STAGES.values():
            await do(visitor, order)
            if do is customers.pay_at_bank:
                await asyncio.sleep(_READS_S)

    async def _confirmed(self, orders: Sequence[Order]) -> None:
        """Wait until the bank's reports are in."""
        attempts = [order.attempt for order in orders]
        end = time.monotonic() + _GIVE_UP_S
        async with self._apart.db.connection() as tx:
            while await tx.fetchval(_UNDECIDED, attempts):
                assert time.monotonic() < end, "the bank's reports do not arrive"
                await asyncio.sleep(0.2)

    async def _delivered(self, before: int, count: int) -> None:
        """Wait until the shop has all events, and the worker has written that down."""
        end = time.monotonic() + _GIVE_UP_S
        expected = before + math.floor(self._events * count)
        while deliveries.received(self.receiver_port)[0] < expected:
            assert time.monotonic() < end, "events are not delivered"
            await asyncio.sleep(0.1)
        await asyncio.sleep(_REST_S)


@contextlib.asynccontextmanager
async def _deployment(run: Run, apart: Apart) -> AsyncIterator[_Deployed]:
    """Start bank, receiver, server and worker."""
    with contextlib.ExitStack() as cleanup:
        bank_port = free_port()
        folder = run.data_dir / "bank"
        folder.mkdir(mode=0o700, exist_ok=True)
        own = environment(folder, free_port(), OPENTILL_SANDBOX_PORT=str(bank_port))
        opentill = [sys.executable, "-m", "opentill"]
        bank = Program([*opentill, "sandbox"], bank_port, run.data_dir / "bank.log", own)
        cleanup.callback(bank.close)
        receiver = Beside(deliveries.receiver)
        cleanup.callback(receiver.close)
        await deliveries.make_endpoints(apart, receiver.port)
        others = {
            "OPENTILL_DATABASE_URL": apart.url,
            "OPENTILL_SANDBOX_URL": f"http://127.0.0.1:{bank_port}",
            "OPENTILL_OUTGOING_HTTP": "yes",
            "OPENTILL_OUTGOING_ALLOW": "127.0.0.0/8",
        }
        server = Serving(run.data_dir, with_worker=False, others=others)
        cleanup.callback(server.close)
        log = cleanup.enter_context((run.data_dir / "worker.log").open("ab"))
        worker = subprocess.Popen(  # noqa: ASYNC220, S603 - our own words
            [*opentill, "worker"],
            env=environment(run.data_dir, free_port(), **others),
            stdout=log,
            stderr=log,
        )
        cleanup.callback(worker.wait, 30)
        cleanup.callback(worker.terminate)
        way = _Deployed(run, apart, server, bank, worker.pid)
        way.receiver_port = receiver.port
        yield way


_UNDECIDED: Final = """
select count(*) from directory d
join payment_attempts a on a.merchant_id = d.merchant_id and a.id = d.id
where d.id = any ($1::text[]) and a.status <> 'SUCCEEDED'
"""
