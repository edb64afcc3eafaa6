"""The contest: OpenTill, its limits and its peer in turns; and OpenTill with several processes."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks import pgbench, plain
from benchmarks.bare import bare_server
from benchmarks.contest import (
    CONNECTIONS,
    POOL,
    READ_EACH,
    SCENARIOS,
    Competitor,
    OverHttp,
    Pgbench,
    Plain,
    Sample,
    Scenario,
    Work,
    constant,
    median,
    rounds,
)
from benchmarks.deployment import Beside, Serving, peer, settings, used_cpu_s
from benchmarks.driver import Load, trivial_server
from benchmarks.report import OURS, PEER
from benchmarks.run import Run, say
from benchmarks.seed import MERCHANTS, first_payments, plant, record
from opentill.db import migrations
from opentill.db.database import Db
from opentill.integrity.rules import check_books

_PROCESSES = (1, 2, 3)
_OF_WORKERS = ("create-many", "read-many", "pay-many", "pay-hot")


async def contest(run: Run, scenarios: Sequence[Scenario]) -> None:
    """Let all take turns at the scenarios."""
    with contextlib.ExitStack() as cleanup:
        db, work = await _prepare(run)
        chosen = settings(run.data_dir, database_url=run.url)
        traces = await record(run.url, work.seed, chosen)
        ours = Serving(run.data_dir)
        cleanup.callback(ours.close)
        bare = Beside(bare_server, run.url, traces, POOL, chosen)
        cleanup.callback(bare.close)
        competitors: list[Competitor] = [
            OverHttp(OURS, ours.port, ours.pid, run.driver),
            OverHttp("bare ASGI", bare.port, bare.pid, run.driver),
        ]
        if run.options.peers.exists():
            other = peer(run.options.peers, run.url, run.data_dir)
            cleanup.callback(other.close)
            competitors.append(OverHttp(PEER, other.port, other.pid, run.driver, plain.SCHEMA))
        else:
            run.report.notes.append("no environment of the peers (`make bench` makes it): left out")
        if program := _pgbench(run):
            competitors.append(Pgbench(program, run.socket_dir, traces))
        names = [name for name in run.options.competitors.split(",") if name]
        competitors = [one for one in competitors if not names or one.name in names]

        run.report.resident_mb["before, one process (API and worker)"] = ours.resident_mb()
        await _same_responses(work, competitors)
        _limits(run, bare)
        for scenario in scenarios:
            await _race(run, db, work, scenario, competitors)
        resident = ours.resident_mb()
        run.report.resident_mb["after, one process (API and worker)"] = resident
        run.note("resident", resident)
        await db.close()


async def workers(run: Run) -> None:
    """Let deployments of one, two and three server processes take turns, and a plain pgbench."""
    with contextlib.ExitStack() as cleanup:
        db, work = await _prepare(run)
        competitors: list[Competitor] = []
        for number in _PROCESSES:
            serving = Serving(run.data_dir, workers=number, with_worker=False, database_url=run.url)
            cleanup.callback(serving.close)
            name = f"{OURS} x {number}"
            competitors.append(OverHttp(name, serving.port, serving.pid, run.driver))
        if program := _pgbench(run):
            competitors.append(Plain(program, run.socket_dir))
        for scenario in SCENARIOS:
            if scenario.name in _OF_WORKERS:
                named = msgspec.structs.replace(scenario, name=f"{scenario.name}, processes")
                await _race(run, db, work, named, competitors)
        await db.close()


async def _prepare(run: Run) -> tuple[Db, Work]:
    """Seed the database if it is empty, and let it settle."""
    await migrations.migrate(run.url)
    db = await Db.connect(run.url, 4)
    if run.work is None:
        say("seeding")
        merchants = 10 if run.options.quick else MERCHANTS
        chosen = settings(run.data_dir, database_url=run.url)
        seed = await plant(db, chosen, merchants)
        # The first payment of a merchant makes its balance: all have one before anything counts.
        await first_payments(db, seed, chosen)
        async with db.transaction() as tx:
            await plain.build(tx)
        read_from = {}
        for count in (1, merchants):
            read_from[count] = await seed.copy(count * READ_EACH, count)
            await seed.copy(count * READ_EACH, count, plain.SCHEMA, read_from[count])
        async with db.connection() as tx:  # as autovacuum does within a minute
            await tx.execute("vacuum analyze")
            await tx.execute("checkpoint")
        run.work = Work(
            seed=seed, postmaster=run.postmaster, read_from=read_from, merchants=merchants
        )
    run.work.seed.db = db
    return db, run.work


def _pgbench(run: Run) -> Path | None:
    program = pgbench.find()
    note = "no pgbench here (Debian: postgresql), so it is left out"
    if program is None and note not in run.report.notes:
        run.report.notes.append(note)
    return program


async def _race(
    run: Run, db: Db, work: Work, scenario: Scenario, competitors: Sequence[Competitor]
) -> None:
    """Do a scenario, keep every figure, and look into the books."""
    report, options = run.report, run.options
    scenario = work.sized(scenario)
    samples_by_name = await rounds(
        work, scenario, competitors, count=options.rounds, seconds=options.seconds, say=say
    )
    report.samples[scenario.name] = samples_by_name
    short = scenario.name.partition(",")[0]
    for name, samples in samples_by_name.items():
        report.figures[f"{short} {name}"] = [sample.rate for sample in samples]
    async with db.snapshot() as tx:
        report.entries, violations = await check_books(tx)
    report.violations += [f"{scenario.name}: {violation}" for violation in violations]


async def _same_responses(work: Work, competitors: Sequence[Competitor]) -> None:
    """See that the servers do the same: equal status, equal fields of the response."""
    for scenario in map(work.sized, SCENARIOS):
        shapes = {}
        for each in competitors:
            if isinstance(each, OverHttp):
                status, body = await each.response(work, scenario)
                response = msgspec.json.decode(body)
                shapes[each.name] = (status, sorted(response), sorted(response.get("data", ())))
        if any(shape != next(iter(shapes.values())) for shape in shapes.values()):
            message = f"{scenario.name}: the responses differ: {shapes}"
            raise RuntimeError(message)


def _limits(run: Run, bare: Beside) -> None:
    """Measure what the driver and the HTTP server reach with nothing behind them."""
    trivial = Beside(trivial_server)
    try:
        for name, server in (("driver, trivial server", trivial), ("bare HTTP, constant", bare)):
            load = Load(
                port=server.port,
                requests=[constant()],
                connections=CONNECTIONS,
                seconds=run.options.seconds,
            )
            run.driver.run(msgspec.structs.replace(load, seconds=0.2))
            samples = []
            for _ in range(run.options.rounds):
                before = used_cpu_s(server.pid)
                outcome = run.driver.run(load)
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
            run.report.limits[name] = median(samples)
            say(f"{name}: {run.report.limits[name].rate:.0f}/s")
    finally:
        trivial.close()
