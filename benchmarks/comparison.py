"""Measure OpenTill, its upper limits and its peer in turns; and OpenTill with several processes."""

import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from benchmarks import pgbench, plain_payment
from benchmarks.bare import serve_bare
from benchmarks.competitors import (
    CONNECTIONS,
    ORDERS_PER_MERCHANT,
    POOL,
    SCENARIOS,
    Competitor,
    HttpCompetitor,
    Pgbench,
    PlainPgbench,
    Scenario,
    Workload,
    build_constant_request,
    median_sample,
    run_rounds,
    take_sample,
)
from benchmarks.deployment import Server, ServerProcess, build_settings, start_peer
from benchmarks.driver import Load, serve_constant
from benchmarks.report import OURS, PEER
from benchmarks.run import Run, log_progress
from benchmarks.seed import MERCHANTS, confirm_first_payments, record_traces, seed_merchants
from opentill.db import migrations
from opentill.db.database import Db
from opentill.integrity.rules import check_books

_PROCESS_COUNTS = (1, 2, 3)
_PROCESS_SCENARIOS = ("create-many", "read-many", "pay-many", "pay-hot")


async def compare_competitors(run: Run, scenarios: Sequence[Scenario]) -> None:
    """Measure all competitors in turns at each of the scenarios."""
    with contextlib.ExitStack() as cleanup:
        db, workload = await _prepare(run)
        settings = build_settings(run.data_dir, database_url=run.url)
        traces = await record_traces(run.url, workload.seed, settings)
        opentill = Server(run.data_dir)
        cleanup.callback(opentill.close)
        bare = ServerProcess(serve_bare, run.url, traces, POOL, settings)
        cleanup.callback(bare.close)
        competitors: list[Competitor] = [
            HttpCompetitor(OURS, opentill.port, opentill.pid, run.driver),
            HttpCompetitor("bare ASGI", bare.port, bare.pid, run.driver),
        ]
        if run.options.peers.exists():
            peer = start_peer(run.options.peers, run.url, run.data_dir)
            cleanup.callback(peer.close)
            competitors.append(
                HttpCompetitor(PEER, peer.port, peer.pid, run.driver, plain_payment.SCHEMA)
            )
        else:
            run.report.notes.append(
                f"{PEER} was not measured: its environment is missing (`make bench` creates it)"
            )
        if program := _find_pgbench(run):
            competitors.append(Pgbench(program, run.socket_dir, traces))
        names = [name for name in run.options.competitors.split(",") if name]
        competitors = [each for each in competitors if not names or each.name in names]

        run.report.resident_mb["before, one process (API and worker)"] = opentill.resident_mb()
        await _compare_responses(workload, competitors)
        _measure_limits(run, bare)
        for scenario in scenarios:
            await _measure_scenario(run, db, workload, scenario, competitors)
        resident = opentill.resident_mb()
        run.report.resident_mb["after, one process (API and worker)"] = resident
        run.record_figure("resident", resident)
        await db.close()


async def compare_process_counts(run: Run) -> None:
    """Measure one, two and three server processes in turns, and pgbench with a plain payment."""
    with contextlib.ExitStack() as cleanup:
        db, workload = await _prepare(run)
        competitors: list[Competitor] = []
        for count in _PROCESS_COUNTS:
            server = Server(run.data_dir, workers=count, with_worker=False, database_url=run.url)
            cleanup.callback(server.close)
            name = f"{OURS} x {count}"
            competitors.append(HttpCompetitor(name, server.port, server.pid, run.driver))
        if program := _find_pgbench(run):
            competitors.append(PlainPgbench(program, run.socket_dir))
        for scenario in SCENARIOS:
            if scenario.name in _PROCESS_SCENARIOS:
                renamed = msgspec.structs.replace(scenario, name=f"{scenario.name}, processes")
                await _measure_scenario(run, db, workload, renamed, competitors)
        await db.close()


async def _prepare(run: Run) -> tuple[Db, Workload]:
    """Migrate and seed the database, unless that was done before."""
    await migrations.migrate(run.url)
    db = await Db.connect(run.url, 4)
    if run.workload is None:
        log_progress("seeding")
        merchant_count = 10 if run.options.quick else MERCHANTS
        settings = build_settings(run.data_dir, database_url=run.url)
        seed = await seed_merchants(db, settings, merchant_count)
        # A merchant's first payment also creates the balance, so it must not be measured.
        await confirm_first_payments(db, seed, settings)
        async with db.transaction() as tx:
            await plain_payment.create_schema(tx)
        first_read_orders = {}
        for count in (1, merchant_count):
            first = await seed.copy_orders(count * ORDERS_PER_MERCHANT, count)
            await seed.copy_orders(count * ORDERS_PER_MERCHANT, count, plain_payment.SCHEMA, first)
            first_read_orders[count] = first
        # Do not wait for autovacuum, which would start within a minute and disturb a measurement.
        async with db.connection() as tx:
            await tx.execute("vacuum analyze")
            await tx.execute("checkpoint")
        run.workload = Workload(
            seed=seed,
            postmaster_pid=run.postmaster_pid,
            first_read_orders=first_read_orders,
            merchant_count=merchant_count,
        )
    run.workload.seed.db = db
    return db, run.workload


def _find_pgbench(run: Run) -> Path | None:
    program = pgbench.find_program()
    note = "pgbench was not measured: it is not installed (Debian's package: postgresql)"
    if program is None and note not in run.report.notes:
        run.report.notes.append(note)
    return program


async def _measure_scenario(
    run: Run, db: Db, workload: Workload, scenario: Scenario, competitors: Sequence[Competitor]
) -> None:
    """Measure a scenario, add its samples and figures to the report, and check the ledger."""
    report, options = run.report, run.options
    scenario = workload.with_available_merchants(scenario)
    samples_by_name = await run_rounds(
        workload,
        scenario,
        competitors,
        count=options.rounds,
        seconds=options.seconds,
        log_progress=log_progress,
    )
    report.samples[scenario.name] = samples_by_name
    short_name = scenario.name.partition(",")[0]
    for name, samples in samples_by_name.items():
        report.figures[f"{short_name} {name}"] = [sample.rate for sample in samples]
    async with db.snapshot() as tx:
        report.entries, violations = await check_books(tx)
    report.violations += [f"{scenario.name}: {violation}" for violation in violations]


async def _compare_responses(workload: Workload, competitors: Sequence[Competitor]) -> None:
    """Raise RuntimeError unless all servers respond with the same status and fields.

    Fields that are null do not count: the peer leaves them out.
    """
    for scenario in map(workload.with_available_merchants, SCENARIOS):
        shapes = {}
        for competitor in competitors:
            if isinstance(competitor, HttpCompetitor):
                status, body = await competitor.fetch_response(workload, scenario)
                response = msgspec.json.decode(body)
                values = response.get("data") or {}
                fields = sorted(name for name, value in values.items() if value is not None)
                shapes[competitor.name] = (status, sorted(response), fields)
        if any(shape != next(iter(shapes.values())) for shape in shapes.values()):
            message = f"{scenario.name}: the responses differ: {shapes}"
            raise RuntimeError(message)


def _measure_limits(run: Run, bare: ServerProcess) -> None:
    """Measure the driver with a trivial server, and the HTTP server with a constant response."""
    trivial = ServerProcess(serve_constant)
    try:
        for name, server in (("driver, trivial server", trivial), ("bare HTTP, constant", bare)):
            load = Load(
                port=server.port,
                requests=[build_constant_request()],
                connections=CONNECTIONS,
                seconds=run.options.seconds,
            )
            run.driver.run(msgspec.structs.replace(load, seconds=0.2))
            samples = [
                take_sample(partial(run.driver.run, load), server.pid, None)
                for _ in range(run.options.rounds)
            ]
            run.report.limits[name] = median_sample(samples)
            log_progress(f"{name}: {run.report.limits[name].rate:.0f}/s")
    finally:
        trivial.close()
