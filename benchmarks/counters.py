"""What exact totals cost a write: the same requests with and without the triggers that count."""

from benchmarks.contest import SCENARIOS, OverHttp, Work
from benchmarks.deployment import Serving
from benchmarks.run import Apart, Run
from benchmarks.seed import MERCHANTS, first_payments

_WRITING = ("create-many", "pay-many", "pay-hot")
# The trigger on entries also checks them against the balance.
_TRIGGERS = (
    ("orders", "orders_count_new"),
    ("orders", "orders_count_changed"),
    ("entries", "entries_check_and_count"),
)


async def measure(run: Run) -> None:
    """Open sessions and confirm payments, in turns with and without."""
    merchants = 10 if run.options.quick else MERCHANTS
    async with run.database("bench_counters", merchants) as apart:
        await first_payments(apart.db, apart.seed, apart.settings)
        work = Work(seed=apart.seed, postmaster=run.postmaster, read_from={}, merchants=merchants)
        serving = Serving(run.data_dir, with_worker=False, database_url=apart.url)
        try:
            ours = OverHttp("OpenTill", serving.port, serving.pid, run.driver)
            for scenario in map(work.sized, (s for s in SCENARIOS if s.name in _WRITING)):
                await ours.measure(work, scenario, min(run.options.seconds, 0.5))
                for number in range(run.options.rounds):
                    for counted in (True, False) if number % 2 else (False, True):
                        await _switch(apart, on=counted)
                        sample = await ours.measure(work, scenario, run.options.seconds)
                        name = f"{scenario.name} {'with' if counted else 'without'} counters"
                        run.note(name, sample.rate)
                        run.note(f"{name}, PostgreSQL µs", sample.database_us)
                        run.report.failures += [f"{name}: {one}" for one in sample.failures]
        finally:
            serving.close()


async def _switch(apart: Apart, *, on: bool) -> None:
    async with apart.db.transaction() as tx:
        for table, trigger in _TRIGGERS:
            await tx.execute(
                f"alter table {table} {'enable' if on else 'disable'} trigger {trigger}"
            )
