"""Measure what a whole paid order costs, and what each stage of it costs.

A shop opens a session. Its customer loads the page, submits the form, pays at the bank, returns and
reads the receipt. The bank reports the payment, and the worker sends the event to the shop. Server,
worker, PostgreSQL, bank and the shop's receiver are processes of their own; the customers run in
this process.

First, customers start at a constant rate, and each goes through all stages. Then all customers
finish a stage before the next one starts, and the worker is stopped until the last stage, so that
the cost of each stage shows. The idle usage of server, worker and PostgreSQL is measured before,
and subtracted.
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
from benchmarks.customers import STAGES, Browser, Order
from benchmarks.deployment import Program, Server, ServerProcess, build_environment, find_free_port
from benchmarks.meter import Meter, Usage
from benchmarks.run import BenchDatabase, Run
from opentill.integrity.rules import check_books

MERCHANTS: Final = 10
RATE: Final = 40.0  # this many customers begin per second
_BROWSERS: Final = 16
_PAUSE_AT_BANK_S: Final = 0.3  # a customer stays on the bank's last page for this time
_IDLE_S: Final = 4.0
# After the events, the worker gets this time to index search terms and to compute figures.
_AFTER_DELIVERY_S: Final = 3.0
_TIMEOUT_S: Final = 60.0
_DELIVERED: Final = "event delivered"


async def measure(run: Run) -> None:
    """Measure whole orders and stages, and check the ledger."""
    async with run.create_database("bench_paid_order", MERCHANTS) as database:
        async with _deploy(run, database) as deployment:
            quick = run.options.quick
            await deployment.warm_up(4 if quick else 80)
            count = 4 if quick else int(run.options.seconds * 5 * RATE)
            for _ in range(run.options.rounds):
                await deployment.measure_whole_orders(count)
                await deployment.measure_stages(4 if quick else count // 2)
            async with deployment.meter.counting_statements():
                await deployment.count_statements(4 if quick else 40)
        async with database.db.snapshot() as tx:
            run.report.entries, violations = await check_books(tx)
        run.report.violations += [f"paid orders: {violation}" for violation in violations]


class _Deployment:
    """The running server, worker, bank and receiver, to which customers are sent."""

    def __init__(
        self,
        run: Run,
        database: BenchDatabase,
        *,
        server: Server,
        bank: Program,
        receiver: ServerProcess,
        worker_pid: int,
    ) -> None:
        self.meter = Meter(database.db, run.data_dir, run.postmaster_pid, server.pid, worker_pid)
        self._run, self._database, self._worker_pid = run, database, worker_pid
        self._ports = server.port, bank.port
        self._receiver_port = receiver.port
        self._order_count = 0
        self._events_per_order = 0.0
        self._idle_s = 0.5 if run.options.quick else _IDLE_S

    async def warm_up(self, count: int) -> None:
        """Let all connections prepare their statements, and count the events of an order."""
        before = self._count_received()
        await self._run_customers(self._new_orders(count), _run_all_stages)
        previous, received = -1, before
        while received != previous or received == before:
            previous = received
            await asyncio.sleep(2)
            received = self._count_received()
        self._events_per_order = (received - before) / count
        async with self._database.db.connection() as tx:
            await tx.execute("vacuum analyze")
            await tx.execute("checkpoint")
        # PostgreSQL logs a full page when the page is first changed after a checkpoint. These
        # orders cause that before the measurement.
        await self._run_customers(self._new_orders(count), _run_all_stages)
        await self._wait_for_deliveries(received, count)

    async def measure_whole_orders(self, count: int) -> None:
        """Record what an order costs while customers start at a constant rate."""
        idle = await self._measure_idle()
        received = self._count_received()
        before = await self.meter.read()
        await self._run_customers(self._new_orders(count), _run_all_stages)
        await self._wait_for_deliveries(received, count)
        usage = (await self.meter.read()).since(before).without_idle(idle).per(count)
        for name, value in usage.figures().items():
            self._run.record_figure(f"paid order, {name}", value)
        self._run.record_figure("paid order, server while nobody comes, µs/s", idle.server_us)
        self._run.record_figure("paid order, worker while nobody comes, µs/s", idle.worker_us)
        self._run.record_figure("paid order, PostgreSQL while nobody comes, µs/s", idle.database_us)

    async def measure_stages(self, count: int) -> None:
        """Record what each stage costs."""
        async for stage, usage in self._run_stages(count):
            self._record(stage, usage.figures())

    async def count_statements(self, count: int) -> None:
        """Record how many statements each stage runs, according to PostgreSQL's log."""
        async for stage, usage in self._run_stages(count):
            self._record(stage, {"statements": usage.statements})

    def _record(self, stage: str, figures: dict[str, float]) -> None:
        for name, value in figures.items():
            values = self._run.report.stages.setdefault(stage, {})
            values.setdefault(name, []).append(value)

    async def _run_stages(self, count: int) -> AsyncIterator[tuple[str, Usage]]:
        """Run each stage for all customers; yield the usage per order."""
        idle = await self._measure_idle()
        orders = self._new_orders(count)
        received = self._count_received()
        os.kill(self._worker_pid, signal.SIGSTOP)
        try:
            idle_without_worker = await self._measure_idle()
            before = await self.meter.read()
            for name, stage in STAGES.items():
                await self._run_customers(orders, stage)
                if stage is customers.pay_at_bank:
                    await self._wait_for_reports(orders)
                after = await self.meter.read()
                yield name, after.since(before).without_idle(idle_without_worker).per(count)
                before = after
        finally:
            os.kill(self._worker_pid, signal.SIGCONT)
        await self._wait_for_deliveries(received, count)
        usage = (await self.meter.read()).since(before)
        yield _DELIVERED, usage.without_idle(idle).per(count)

    async def _measure_idle(self) -> Usage:
        """Return the usage per second while there are no customers."""
        before = await self.meter.read()
        await asyncio.sleep(self._idle_s)
        return (await self.meter.read()).since(before).per_second()

    def _count_received(self) -> int:
        return deliveries.fetch_received_count(self._receiver_port)[0]

    def _new_orders(self, count: int) -> list[Order]:
        numbers = range(self._order_count, self._order_count + count)
        self._order_count += count
        return [Order(self._database.seed, number % MERCHANTS) for number in numbers]

    async def _run_customers(
        self, orders: Sequence[Order], stage: Callable[[Browser, Order], Awaitable[None]]
    ) -> None:
        await customers.run_customers(
            orders, stage, ports=self._ports, rate=RATE, browser_count=_BROWSERS
        )

    async def _wait_for_reports(self, orders: Sequence[Order]) -> None:
        """Wait until the bank's reports of all payments are applied."""
        attempt_ids = [order.attempt_id for order in orders]
        deadline = time.monotonic() + _TIMEOUT_S
        async with self._database.db.connection() as tx:
            while await tx.fetchval(_COUNT_UNCONFIRMED, attempt_ids):
                assert time.monotonic() < deadline, "the bank's reports do not arrive"
                await asyncio.sleep(0.2)

    async def _wait_for_deliveries(self, before: int, count: int) -> None:
        """Wait until the shop has received all events of ``count`` orders, and the worker is idle.

        ``before``: the number of deliveries that the shop had received before these orders.
        """
        deadline = time.monotonic() + _TIMEOUT_S
        expected = before + math.floor(self._events_per_order * count)
        while self._count_received() < expected:
            assert time.monotonic() < deadline, "events are not delivered"
            await asyncio.sleep(0.1)
        await asyncio.sleep(_AFTER_DELIVERY_S)


async def _run_all_stages(browser: Browser, order: Order) -> None:
    for stage in STAGES.values():
        await stage(browser, order)
        if stage is customers.pay_at_bank:
            await asyncio.sleep(_PAUSE_AT_BANK_S)


@contextlib.asynccontextmanager
async def _deploy(run: Run, database: BenchDatabase) -> AsyncIterator[_Deployment]:
    """Start bank, receiver, server and worker; stop them afterwards."""
    with contextlib.ExitStack() as cleanup:
        bank_port = find_free_port()
        bank_dir = run.data_dir / "bank"
        bank_dir.mkdir(mode=0o700, exist_ok=True)
        bank_env = build_environment(
            bank_dir, find_free_port(), OPENTILL_SANDBOX_PORT=str(bank_port)
        )
        opentill = [sys.executable, "-m", "opentill"]
        bank = Program([*opentill, "sandbox"], bank_port, run.data_dir / "bank.log", bank_env)
        cleanup.callback(bank.close)
        receiver = ServerProcess(deliveries.serve_receiver)
        cleanup.callback(receiver.close)
        await deliveries.create_endpoints(database, receiver.port)
        variables = {
            "OPENTILL_DATABASE_URL": database.url,
            "OPENTILL_SANDBOX_URL": f"http://127.0.0.1:{bank_port}",
            "OPENTILL_OUTGOING_HTTP": "yes",
            "OPENTILL_OUTGOING_ALLOW": "127.0.0.0/8",
        }
        server = Server(run.data_dir, with_worker=False, others=variables)
        cleanup.callback(server.close)
        log = cleanup.enter_context((run.data_dir / "worker.log").open("ab"))
        worker = subprocess.Popen(  # noqa: ASYNC220, S603 - our own command, started before the measurement
            [*opentill, "worker"],
            env=build_environment(run.data_dir, find_free_port(), **variables),
            stdout=log,
            stderr=log,
        )
        cleanup.callback(worker.wait, 30)
        cleanup.callback(worker.terminate)
        yield _Deployment(
            run, database, server=server, bank=bank, receiver=receiver, worker_pid=worker.pid
        )


_COUNT_UNCONFIRMED: Final = """
select count(*) from directory d
join payment_attempts a on a.merchant_id = d.merchant_id and a.id = d.id
where d.id = any ($1::text[]) and a.status <> 'SUCCEEDED'
"""
