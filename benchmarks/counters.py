"""Measure what exact totals cost a write: requests with and without the counting triggers."""

from benchmarks.competitors import SCENARIOS, HttpCompetitor, Workload
from benchmarks.deployment import Server
from benchmarks.run import BenchDatabase, Run
from benchmarks.seed import MERCHANTS, confirm_first_payments

_WRITE_SCENARIOS = ("create-many", "pay-many", "pay-hot")
# The triggers that are switched off for the measurement: table and name. The trigger on entries not
# only counts entries, but also compares them with the balance.
_TRIGGERS = (
    ("orders", "orders_count_new"),
    ("orders", "orders_count_changed"),
    ("entries", "entries_check_and_count"),
)


async def measure(run: Run) -> None:
    """Open sessions and confirm payments, in turns with and without the triggers."""
    merchant_count = 10 if run.options.quick else MERCHANTS
    scenarios = [scenario for scenario in SCENARIOS if scenario.name in _WRITE_SCENARIOS]
    async with run.create_database("bench_counters", merchant_count) as database:
        await confirm_first_payments(database.db, database.seed, database.settings)
        workload = Workload(
            seed=database.seed,
            postmaster_pid=run.postmaster_pid,
            first_read_orders={},
            merchant_count=merchant_count,
        )
        server = Server(run.data_dir, with_worker=False, database_url=database.url)
        try:
            opentill = HttpCompetitor("OpenTill", server.port, server.pid, run.driver)
            for scenario in map(workload.with_available_merchants, scenarios):
                await opentill.measure(workload, scenario, min(run.options.seconds, 0.5))
                for number in range(run.options.rounds):
                    for enabled in (True, False) if number % 2 else (False, True):
                        await _switch_triggers(database, enabled=enabled)
                        sample = await opentill.measure(workload, scenario, run.options.seconds)
                        name = f"{scenario.name} {'with' if enabled else 'without'} counters"
                        run.record_figure(name, sample.rate)
                        run.record_figure(f"{name}, PostgreSQL µs", sample.database_us)
                        run.report.failures += [f"{name}: {failure}" for failure in sample.failures]
        finally:
            server.close()


async def _switch_triggers(database: BenchDatabase, *, enabled: bool) -> None:
    async with database.db.transaction() as tx:
        for table, trigger in _TRIGGERS:
            action = "enable" if enabled else "disable"
            await tx.execute(f"alter table {table} {action} trigger {trigger}")
