"""Measure the operations on all orders: export, settlement and ledger check."""

import http.client
import subprocess
import sys
import threading
import time

import asyncpg
import msgspec

from benchmarks.deployment import Server, build_environment, find_free_port, resident_mb
from benchmarks.run import BenchDatabase, Run
from opentill.db.clock import now_ms
from opentill.orders.settlement import service as settlement

_SAMPLING_INTERVAL_S = 0.05
_LONG_S = 10.0


async def measure_exports(
    run: Run, database: BenchDatabase, server: Server, order_count: int
) -> None:
    """Export the orders of both merchants, and compare the first export with a COPY.

    ``order_count``: the number of the first merchant's orders.
    """
    seconds = 0.0
    for _ in range(run.options.rounds):
        if seconds > _LONG_S:
            break  # an export that takes long is not repeated
        _, _, peak = _export(server, database, 1)
        run.record_figure("export's peak, 1,000 orders", peak)
        rows, seconds, peak = _export(server, database, 0)
        assert rows >= order_count, rows
        run.record_figure("export", rows / seconds)
        run.record_figure("export's peak", peak)
        run.record_figure("bare COPY", await _measure_copy_rate(database))


def _export(server: Server, database: BenchDatabase, index: int) -> tuple[int, float, float]:
    """Export a merchant's orders; return the number of rows, the seconds and the peak memory."""
    peak = resident_mb(server.pid)
    done = threading.Event()

    def sample() -> None:
        nonlocal peak
        while not done.wait(_SAMPLING_INTERVAL_S):
            peak = max(peak, resident_mb(server.pid))

    sampler = threading.Thread(target=sample)
    sampler.start()
    started = time.perf_counter()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        headers = {"x-api-key": database.seed.merchants[index].key}
        connection.request("GET", "/v1/orders/export", headers=headers)
        response = connection.getresponse()
        assert response.status == 200, response.read(500)
        lines = 0
        while chunk := response.read1(1 << 18):
            lines += chunk.count(b"\n")
        connection.close()
    finally:
        done.set()
        sampler.join()
    return lines - 1, time.perf_counter() - started, peak


async def _measure_copy_rate(database: BenchDatabase) -> float:
    """Return the rows per second of a COPY of the same orders whose output is discarded."""
    connection = await asyncpg.connect(database.url)
    byte_count = 0

    async def discard(data: bytes) -> None:
        nonlocal byte_count
        byte_count += len(data)

    try:
        started = time.perf_counter()
        status = await connection.copy_from_query(
            _EXPORT_QUERY, database.seed.merchants[0].merchant_id, output=discard, format="csv"
        )
        seconds = time.perf_counter() - started
    finally:
        await connection.close()
    assert byte_count, status
    return int(status.split()[1]) / seconds


# Reads the stored columns that the export shows, in the same order.
_EXPORT_QUERY = """
select id, checkout_id, product_id, customer_email, customer_name, amount_minor, currency,
    platform_fee_rate, platform_fee_minor, amount_minor - platform_fee_minor, net_settled_minor,
    settled_currency, exchange_rate, hkd_exchange_rate, payment_method, status, paid_at, settled_at,
    metadata, created_at, refunded_minor
from orders where merchant_id = $1 order by created_at, id
"""


async def measure_settlement(run: Run, database: BenchDatabase) -> None:
    """Settle all due orders, as the worker does."""
    started = time.perf_counter()
    count = await settlement.settle_due(database.db, now_ms())
    run.record_figure("settle", count / (time.perf_counter() - started))
    run.record_figure("settled", count)


async def measure_ledger_check(run: Run, database: BenchDatabase) -> None:
    """Time ``opentill ledger check`` on all entries, its start included."""
    command = [sys.executable, "-m", "opentill", "ledger", "check", "--json"]
    env = build_environment(run.data_dir, find_free_port(), OPENTILL_DATABASE_URL=database.url)
    started = time.perf_counter()
    process = subprocess.run(command, env=env, capture_output=True, text=True, check=False)  # noqa: S603, ASYNC221 - our own command, and nothing else runs
    seconds = time.perf_counter() - started
    assert process.stdout, process.stderr
    report = msgspec.json.decode(process.stdout)
    report = report.get("data", report)
    run.report.violations += [f"ledger: {violation}" for violation in report["violations"]]
    run.record_figure("ledger check", report["entries"] / seconds)
    run.record_figure("ledger check of a million", seconds / report["entries"] * 1_000_000)
