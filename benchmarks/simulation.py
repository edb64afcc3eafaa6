"""How many machines so many payments a second need: ``python -m benchmarks.simulation --help``.

A model, not a measurement. It multiplies what was measured on one machine: rates and processor
times of ``figures.md``, and the constants below. Merchants have sizes by Zipf's law and lie on the
nodes of a database by a hash, as cells would place them; the fullest node says how many
nodes are needed.
"""

import argparse
import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

FIGURES: Final = Path(__file__).with_name("figures.md")
# A whole paid order, from the session to the event; 400 orders at 40 a second, machine busy.
ORDER_POSTGRES_US: Final = 4_200
ORDER_SERVER_US: Final = 6_500
ORDER_WORKER_US: Final = 500
ORDER_LOG_BYTES: Final = 23_800  # with whole pages after a checkpoint
ORDER_STORED_BYTES: Final = 16_600  # at most: the log without whole pages
SERVER_BYTES: Final = 99_000_000  # resident, after the whole bench
CONNECTION_BYTES: Final = 10_000_000  # an assumption: PostgreSQL's for a connection with its plans
POOL: Final = 10  # connections of a server process, as by default
HOT_S: Final = 900  # an assumption: for so long an order is worked on, and should be in memory
# Of the cores, how much is used before callers wait: 60 to 70 % in the bench.
BUSY: Final = 0.65
ENGINES: Final = ("postgres", "cells")
MOST_NODES: Final = 4_096
_SINGLE: Final = 4_096  # as many of the largest are placed one by one, the others evenly
_PLACES: Final = tuple(
    int.from_bytes(hashlib.blake2b(rank.to_bytes(8, "big"), digest_size=8).digest(), "big")
    for rank in range(_SINGLE)
)


class Measured(NamedTuple):
    """A line of the figures: OpenTill's, of one scenario."""

    rate: float  # requests per second
    server_us: float
    postgres_us: float


class Machine(NamedTuple):
    """What a node of the database is."""

    cores: int = 32
    log_bytes: int = 400_000_000  # that it can write in a second, to disk and standby
    failover_s: int = 30  # until a standby takes writes


class Need(NamedTuple):
    """What so many payments need; ``nodes`` is 0 where no number of nodes is enough."""

    nodes: int
    database_cores: float  # kept busy, over all nodes
    server_cores: float
    servers: int  # processes, a core each
    log_bytes: int  # in a second, over all nodes, for one copy
    memory_bytes: int  # of databases and servers together
    hottest_rate: float  # payments per second of the largest merchant
    hottest_most: float  # as many as its balance row takes
    fullest: float  # how much of its bound the fullest node uses
    lost_share: float  # of payments, while the fullest node is away
    lost_payments: float  # that get 503 until its standby takes over
    limits: dict[str, float]  # payments per second at which each is reached, with these nodes


def figures(path: Path = FIGURES) -> dict[str, Measured]:
    """Read OpenTill's rates and processor times out of a report of the bench."""
    measured: dict[str, Measured] = {}
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) == 8 and cells[1] == "OpenTill":
            measured[cells[0]] = Measured(*(float(cells[place]) for place in (2, 5, 6)))
    return measured


def rate_of(measured: Measured, cores: int) -> float:
    """Return how many requests per second server and database reach on so many cores."""
    return cores * BUSY * 1e6 / (measured.server_us + measured.postgres_us)


def shares(merchants: int, exponent: float) -> list[float]:
    """Return what share of the payments each merchant has, the largest first."""
    sizes = [rank**-exponent for rank in range(1, merchants + 1)]
    whole = math.fsum(sizes)
    return [size / whole for size in sizes]


def fullest(portions: list[float], nodes: int) -> float:
    """Return the share of the payments that the fullest of so many nodes has."""
    loads = [math.fsum(portions[_SINGLE:]) / nodes] * nodes
    for place, portion in zip(_PLACES, portions, strict=False):
        loads[place % nodes] += portion
    return max(loads)


def need(
    merchants: int,
    payments: float,
    *,
    engine: str = "cells",
    exponent: float = 1.0,
    machine: Machine | None = None,
) -> Need:
    """Return what so many merchants with so many payments per second in all need."""
    machine = machine or Machine()
    portions = shares(merchants, exponent)
    most = figures()["pay-hot"].rate
    node_most = min(
        machine.cores * BUSY * 1e6 / ORDER_POSTGRES_US, machine.log_bytes / ORDER_LOG_BYTES
    )
    least = 1 if engine == "postgres" else max(1, math.ceil(payments / node_most))
    tried = range(least, 2 if engine == "postgres" else MOST_NODES + 1)
    fitting = (n for n in tried if payments * fullest(portions, n) <= node_most)
    nodes = next(fitting, 0) if payments * portions[0] <= most else 0
    share = fullest(portions, nodes or least)  # where none is enough: of as many as the sum needs
    processes = (ORDER_SERVER_US + ORDER_WORKER_US) * payments / 1e6 / BUSY
    servers = max(1, math.ceil(processes))
    hot_bytes = payments * HOT_S * ORDER_STORED_BYTES
    return Need(
        nodes=nodes,
        database_cores=payments * ORDER_POSTGRES_US / 1e6,
        server_cores=payments * (ORDER_SERVER_US + ORDER_WORKER_US) / 1e6,
        servers=servers,
        log_bytes=round(payments * ORDER_LOG_BYTES),
        memory_bytes=round(hot_bytes + servers * (SERVER_BYTES + POOL * CONNECTION_BYTES)),
        hottest_rate=payments * portions[0],
        hottest_most=most,
        fullest=payments * share / node_most,
        lost_share=share,
        lost_payments=payments * share * machine.failover_s,
        limits={
            "balance row of the largest merchant": most / portions[0],
            "cores of the fullest node": machine.cores * BUSY * 1e6 / ORDER_POSTGRES_US / share,
            "log of the fullest node": machine.log_bytes / ORDER_LOG_BYTES / share,
        },
    )


def table(needed: Need, machine: Machine) -> Iterator[str]:
    """Yield the lines of a table of what is needed."""
    gb = 1_000_000_000
    log = f"{needed.log_bytes / 1e6:,.1f} MB/s, {needed.log_bytes * 86_400 / gb:,.0f} GB/day"
    rows = [
        ("nodes of the database", f"{needed.nodes:,}" if needed.nodes else "no number is enough"),
        ("with a standby each", f"{2 * needed.nodes:,}" if needed.nodes else "-"),
        ("cores kept busy by PostgreSQL", f"{needed.database_cores:,.1f}"),
        ("cores kept busy by servers and workers", f"{needed.server_cores:,.1f}"),
        ("server processes", f"{needed.servers:,}"),
        ("write-ahead log", log),
        ("memory", f"{needed.memory_bytes / gb:,.1f} GB"),
        ("largest merchant", f"{needed.hottest_rate:,.1f}/s of {needed.hottest_most:,.0f}/s"),
        ("fullest node uses", f"{needed.fullest:.0%} of its bound"),
        ("a lost node stops", f"{needed.lost_share:.1%} of payments"),
        (f"and in {machine.failover_s} s", f"{needed.lost_payments:,.0f} get 503 and try again"),
    ]
    limits = sorted(needed.limits.items(), key=lambda limit: limit[1])
    rows += [(f"limit: {name}", f"{rate:,.0f}/s") for name, rate in limits]
    width = max(len(name) for name, _ in rows)
    return (f"{name:{width}}  {value}" for name, value in rows)


def main() -> None:
    """Print what the options need."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description=__doc__)
    parser.add_argument("--merchants", type=int, required=True)
    parser.add_argument("--payments", type=float, required=True, help="per second, up to 100,000")
    parser.add_argument("--engine", choices=ENGINES, default="cells")
    parser.add_argument("--exponent", type=float, default=1.0, help="of Zipf's law; 0: all alike")
    parser.add_argument("--cores", type=int, default=Machine().cores, help="of a node")
    parser.add_argument("--log-mb", type=int, default=400, help="that a node writes in a second")
    parser.add_argument("--failover", type=int, default=30, help="seconds")
    options = parser.parse_args()
    if options.merchants < 1 or not 0 < options.payments <= 100_000:
        parser.error("--merchants must be 1 or more, --payments above 0 and at most 100000")
    machine = Machine(options.cores, options.log_mb * 1_000_000, options.failover)
    needed = need(
        options.merchants, options.payments, engine=options.engine, exponent=options.exponent,
        machine=machine,
    )  # fmt: skip
    print("\n".join(table(needed, machine)))


if __name__ == "__main__":
    main()
