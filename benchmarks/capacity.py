"""Estimate what a rate of payments needs: ``python -m benchmarks.capacity --help``.

A model of one PostgreSQL, not a measurement. It multiplies what was measured on one machine: the
rates and processor times of ``figures.md``, and the constants below.
"""

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

FIGURES: Final = Path(__file__).with_name("figures.md")
# Processor time (µs) and bytes for a whole paid order, from opening its session to delivering its
# event. They were measured with 400 orders at 40 per second, on a busy machine.
ORDER_POSTGRES_US: Final = 4_200
ORDER_SERVER_US: Final = 6_500
ORDER_WORKER_US: Final = 500
ORDER_LOG_BYTES: Final = 23_800  # includes the full pages that are logged after a checkpoint
ORDER_STORED_BYTES: Final = 16_600  # an upper bound: ORDER_LOG_BYTES without the full pages
SERVER_BYTES: Final = 99_000_000  # a server's resident memory after a run of all benchmarks
CONNECTION_BYTES: Final = 10_000_000  # assumed memory of a PostgreSQL connection with its plans
POOL: Final = 10  # a server process has this many database connections by default
HOT_S: Final = 900  # assumed time for which an order is accessed and should be in memory
# If more than this share of all cores is busy, requests wait; in the benchmarks it was 60 to 70 %.
MAX_UTILIZATION: Final = 0.65


class MeasuredScenario(NamedTuple):
    """OpenTill's rate in one scenario, and processor times per request, from ``figures.md``."""

    rate: float  # requests per second
    server_us: float
    postgres_us: float


class Capacity(NamedTuple):
    """The resources that a rate of payments needs, and the rates at which limits are reached."""

    database_cores: float  # cores that PostgreSQL keeps busy
    server_cores: float  # cores that servers and workers keep busy
    servers: int  # server processes, each with a core
    log_bytes: int  # bytes of write-ahead log per second, for each copy of the database
    memory_bytes: int  # memory of the database and the servers together
    limits: dict[str, float]  # name of a limit → payments per second at which it is reached


def read_figures(path: Path = FIGURES) -> dict[str, MeasuredScenario]:
    """Read OpenTill's rates and processor times from a report of the benchmarks."""
    scenarios: dict[str, MeasuredScenario] = {}
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) == 8 and cells[1] == "OpenTill":
            rate, server_us, postgres_us = (float(cells[column]) for column in (2, 5, 6))
            scenarios[cells[0]] = MeasuredScenario(rate, server_us, postgres_us)
    return scenarios


def predict_rate(scenario: MeasuredScenario, cores: int) -> float:
    """Return how many requests per second a server and its database reach on these cores."""
    return cores * MAX_UTILIZATION * 1e6 / (scenario.server_us + scenario.postgres_us)


def estimate(payments: float, *, cores: int = 32, log_bytes: int = 400_000_000) -> Capacity:
    """Return what ``payments`` per second need.

    The limits are those of a PostgreSQL with ``cores``, whose disk and standby take ``log_bytes``
    of write-ahead log per second.
    """
    server_cores = payments * (ORDER_SERVER_US + ORDER_WORKER_US) / 1e6
    servers = max(1, math.ceil(server_cores / MAX_UTILIZATION))
    hot_bytes = payments * HOT_S * ORDER_STORED_BYTES
    return Capacity(
        database_cores=payments * ORDER_POSTGRES_US / 1e6,
        server_cores=server_cores,
        servers=servers,
        log_bytes=round(payments * ORDER_LOG_BYTES),
        memory_bytes=round(hot_bytes + servers * (SERVER_BYTES + POOL * CONNECTION_BYTES)),
        limits={
            "balance row, if all payments are of one merchant": read_figures()["pay-hot"].rate,
            "cores of the database": cores * MAX_UTILIZATION * 1e6 / ORDER_POSTGRES_US,
            "write-ahead log": log_bytes / ORDER_LOG_BYTES,
        },
    )


def format_lines(capacity: Capacity) -> Iterator[str]:
    """Yield the lines of a table of the capacity."""
    gb = 1_000_000_000
    log = f"{capacity.log_bytes / 1e6:,.1f} MB/s, {capacity.log_bytes * 86_400 / gb:,.0f} GB/day"
    rows = [
        ("cores kept busy by PostgreSQL", f"{capacity.database_cores:,.1f}"),
        ("cores kept busy by servers and workers", f"{capacity.server_cores:,.1f}"),
        ("server processes", f"{capacity.servers:,}"),
        ("write-ahead log", log),
        ("memory", f"{capacity.memory_bytes / gb:,.1f} GB"),
    ]
    limits = sorted(capacity.limits.items(), key=lambda limit: limit[1])
    rows += [(f"limit: {name}", f"{rate:,.0f} payments/s") for name, rate in limits]
    width = max(len(name) for name, _ in rows)
    return (f"{name:{width}}  {value}" for name, value in rows)


def main() -> None:
    """Print the estimate for the command line's options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capacity", description=__doc__)
    parser.add_argument("--payments", type=float, required=True, help="per second, up to 100,000")
    parser.add_argument("--cores", type=int, default=32, help="of the database's machine")
    parser.add_argument(
        "--log-mb", type=int, default=400, help="of log that disk and standby take in a second"
    )
    options = parser.parse_args()
    if not 0 < options.payments <= 100_000:
        parser.error("--payments must be above 0 and at most 100000")
    capacity = estimate(options.payments, cores=options.cores, log_bytes=options.log_mb * 1_000_000)
    print("\n".join(format_lines(capacity)))


if __name__ == "__main__":
    main()
