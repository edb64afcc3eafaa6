"""What takes many orders at once: export, settlement, the check of the books."""

import http.client
import subprocess
import sys
import threading
import time

import asyncpg
import msgspec

from benchmarks.deployment import Serving, environment, free_port, resident_mb
from benchmarks.run import Apart, Run
from opentill.db.clock import now_ms
from opentill.orders.settlement import service as settling

_SAMPLE_S = 0.05
_LONG_S = 10.0


async def exports(run: Run, apart: Apart, serving: Serving, sizes: tuple[int, ...]) -> None:
    """Export the orders of the first merchant and of the second, beside a COPY of the first's."""
    seconds = 0.0
    for _ in range(run.options.rounds):
        if seconds > _LONG_S:
            break  # a slow one is known well enough after one round
        _, _, peak = _export(serving, apart, 1)
        run.note("export's peak, 1,000 orders", peak)
        rows, seconds, peak = _export(serving, apart, 0)
        assert rows >= sizes[-1], rows
        run.note("export", rows / seconds)
        run.note("export's peak", peak)
        run.note("bare COPY", await _measure_copy_rate(apart))


def _export(serving: Serving, apart: Apart, place: int) -> tuple[int, float, float]:
    """Return how many rows an export has, how long it took, and the server's peak of memory."""
    peak = resident_mb(serving.pid)
    done = threading.Event()

    def sample() -> None:
        nonlocal peak
        while not done.wait(_SAMPLE_S):
            peak = max(peak, resident_mb(serving.pid))

    sampler = threading.Thread(target=sample)
    sampler.start()
    started = time.perf_counter()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=120)
        headers = {"x-api-key": apart.seed.tenants[place].key}
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


async def _measure_copy_rate(apart: Apart) -> float:
    """Return the rows per second of a bare COPY of the same orders, to nowhere."""
    connection = await asyncpg.connect(apart.url)
    total = 0

    async def nowhere(data: bytes) -> None:
        nonlocal total
        total += len(data)

    try:
        started = time.perf_counter()
        status = await connection.copy_from_query(
            _COPIED, apart.seed.tenants[0].merchant_id, output=nowhere, format="csv"
        )
        seconds = time.perf_counter() - started
    finally:
        await connection.close()
    assert total, status
    return int(status.split()[1]) / seconds


# The columns of the table that the export shows, in the order of the export.
_COPIED = """
select id, checkout_id, product_id, customer_email, customer_name, amount_minor, currency,
    platform_fee_rate, platform_fee_minor, amount_minor - platform_fee_minor, net_settled_minor,
    settled_currency, exchange_rate, hkd_exchange_rate, payment_method, status, paid_at, settled_at,
    metadata, created_at, refunded_minor
from orders where merchant_id = $1 order by created_at, id
"""


async def settlement(run: Run, apart: Apart) -> None:
    """Settle everything that is due, as the worker does."""
    started = time.perf_counter()
    count = await settling.settle_due(apart.db, now_ms())
    run.note("settle", count / (time.perf_counter() - started))
    run.note("settled", count)


async def check(run: Run, apart: Apart) -> None:
    """Run ``opentill ledger check`` on all of it, from its start to its end."""
    command = [sys.executable, "-m", "opentill", "ledger", "check", "--json"]
    env = environment(run.data_dir, free_port(), OPENTILL_DATABASE_URL=apart.url)
    started = time.perf_counter()
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)  # noqa: S603, ASYNC221 - our own words, and nothing else runs
    seconds = time.perf_counter() - started
    assert done.stdout, done.stderr
    report = msgspec.json.decode(done.stdout)
    report = report.get("data", report)
    run.report.violations += [f"books: {one}" for one in report["violations"]]
    run.note("ledger check", report["entries"] / seconds)
    run.note("ledger check of a million", seconds / report["entries"] * 1_000_000)
