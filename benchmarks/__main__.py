"""``python -m benchmarks``: everything in one run; ``--help`` says what can be chosen."""

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from benchmarks import contest, pgbench
from benchmarks.bare import bare_server
from benchmarks.contest import (
    CONNECTIONS,
    POOL,
    READ_EACH,
    SCENARIOS,
    Competitor,
    OverHttp,
    Pgbench,
    Sample,
    Work,
)
from benchmarks.deployment import Beside, Serving, machine, postmaster, settings, used_cpu_s
from benchmarks.driver import Driver, Load, trivial_server
from benchmarks.report import OURS, Report, text
from benchmarks.seed import MERCHANTS, plant, record
from opentill.checks import check_books
from opentill.core import migrate
from opentill.core.db import Db
from opentill.core.embedded import EmbeddedPostgres

STARTS: Final = 3


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="of each scenario")
    parser.add_argument(
        "--only",
        default="",
        metavar="A,B",
        help="scenarios, or beginnings of them: " + ", ".join(s.name for s in SCENARIOS),
    )
    parser.add_argument("--competitors", default="", metavar="A,B", help="others than all of them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    return parser.parse_args()


def say(line: str) -> None:
    """Tell how far we are, beside the report."""
    sys.stderr.write(line + "\n")


async def measure(options: argparse.Namespace, data_dir: Path, report: Report) -> None:
    """Fill the report with the scenarios' samples."""
    with contextlib.ExitStack() as cleanup:
        database = cleanup.enter_context(EmbeddedPostgres.start(data_dir))
        await migrate.migrate(database.url)
        db = await Db.connect(database.url, 4)
        chosen = settings(data_dir, database_url=database.url)
        say("seeding")
        seed = await plant(db, chosen)
        traces = await record(database.url, seed, chosen)
        version = await db._pool.fetchval("show server_version")  # noqa: SLF001 - for the report
        report.machine = machine(version)
        read_from = {n: await seed.copy(n * READ_EACH, n) for n in (1, MERCHANTS)}
        async with db.connection() as tx:  # as autovacuum does within a minute
            await tx.execute("vacuum analyze")
            await tx.execute("checkpoint")
        work = Work(seed=seed, postmaster=postmaster(data_dir), read_from=read_from)

        ours = Serving(data_dir)
        cleanup.callback(ours.close)
        bare = Beside(bare_server, database.url, traces, POOL, chosen)
        cleanup.callback(bare.close)
        driver = Driver()
        cleanup.callback(driver.close)
        program = pgbench.find()
        competitors: list[Competitor] = [
            OverHttp(OURS, ours.port, ours.pid, driver),
            OverHttp("bare ASGI", bare.port, bare.pid, driver),
        ]
        if program is None:
            report.notes.append("no pgbench here (Debian: postgresql), so it is left out")
        else:
            competitors.append(Pgbench(program, data_dir / "postgres", traces))
        wanted = [name for name in options.competitors.split(",") if name]
        competitors = [c for c in competitors if not wanted or c.name in wanted]

        report.resident_mb["before, one process (API and worker)"] = ours.resident_mb()
        await _same_answers(work, competitors)
        _limits(options, driver, bare, report)
        for scenario in _scenarios(options.only):
            found = await contest.rounds(
                work, scenario, competitors, count=options.rounds, seconds=options.seconds, say=say
            )
            report.samples[scenario.name] = found
            async with db.snapshot() as tx:
                report.entries, violations = await check_books(tx)
            report.violations += [f"{scenario.name}: {violation}" for violation in violations]
        report.resident_mb["after, one process (API and worker)"] = ours.resident_mb()
        await db.close()


def _scenarios(only: str) -> list[contest.Scenario]:
    names = [name for name in only.split(",") if name]
    chosen = [s for s in SCENARIOS if not names or s.name.startswith(tuple(names))]
    if not chosen:
        sys.exit(f"--only {only} is none of {', '.join(s.name for s in SCENARIOS)}")
    return chosen


async def _same_answers(work: Work, competitors: list[Competitor]) -> None:
    """See that the servers do the same: equal status, equal fields of the answer."""
    for scenario in SCENARIOS:
        shapes = {}
        for each in competitors:
            if isinstance(each, OverHttp):
                status, body = await each.answer(work, scenario)
                answer = msgspec.json.decode(body)
                shapes[each.name] = (status, sorted(answer), sorted(answer.get("data", ())))
        if any(shape != next(iter(shapes.values())) for shape in shapes.values()):
            message = f"{scenario.name}: the answers differ: {shapes}"
            raise RuntimeError(message)


def _limits(options: argparse.Namespace, driver: Driver, bare: Beside, report: Report) -> None:
    """Measure what the driver and the HTTP server reach with nothing behind them."""
    trivial = Beside(trivial_server)
    try:
        for name, server in (("driver, trivial server", trivial), ("bare HTTP, constant", bare)):
            load = Load(
                port=server.port,
                requests=[contest.constant()],
                connections=CONNECTIONS,
                seconds=options.seconds,
            )
            driver.run(msgspec.structs.replace(load, seconds=0.2))
            samples = []
            for _ in range(options.rounds):
                before = used_cpu_s(server.pid)
                outcome = driver.run(load)
                samples.append(
                    Sample(
                        rate=outcome.requests / outcome.seconds,
                        p50_ms=outcome.p50_ms,
                        p99_ms=outcome.p99_ms,
                        server_us=(used_cpu_s(server.pid) - before) / outcome.requests * 1e6,
                        database_us=0.0,
                        driver_busy=outcome.busy,
                        requests=outcome.requests,
                        failures=outcome.failures,
                    )
                )
            report.limits[name] = contest.median(samples)
            say(f"{name}: {report.limits[name].rate:.0f}/s")
    finally:
        trivial.close()


def starts(data_dir: Path, report: Report) -> None:
    """Measure how long ``opentill serve`` takes until ``/readyz`` says so."""

    def middle(*, with_bank: bool) -> float:
        times = []
        for _ in range(STARTS):
            serving = Serving(data_dir, with_bank=with_bank)
            times.append(serving.ready_s)
            serving.close()
        return statistics.median(times)

    with EmbeddedPostgres.start(data_dir):
        report.ready_s["PostgreSQL runs"] = middle(with_bank=False)
    report.ready_s["embedded PostgreSQL and sandbox bank started along"] = middle(with_bank=True)


def main() -> None:
    """Run; exit code 1 if an answer was wrong or the books do not agree."""
    options = arguments()
    report = Report(machine={}, seconds=options.seconds, rounds=options.rounds)
    with tempfile.TemporaryDirectory(prefix="opentill-bench-") as folder:
        data_dir = Path(folder)
        asyncio.run(measure(options, data_dir, report))
        starts(data_dir, report)
    print(text(report))
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    sys.exit(1 if report.failed else 0)


if __name__ == "__main__":
    main()
