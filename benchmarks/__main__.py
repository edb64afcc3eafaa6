"""``python -m benchmarks`` runs all benchmarks, or the selected ones (``--help``)."""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

from benchmarks import (
    comparison,
    counters,
    dashboard,
    deliveries,
    deployment,
    growth,
    localstripe,
    paid_order,
    routing,
    startup,
)
from benchmarks.competitors import SCENARIOS
from benchmarks.deployment import describe_machine
from benchmarks.driver import Driver
from benchmarks.report import Report, draw_charts, format_report
from benchmarks.run import Run, log_progress
from opentill.server.embedded.postgres import EmbeddedPostgres

PARTS: Final = {
    "workers": "one, two and three server processes, compared with pgbench and a plain payment",
    "counters": "what exact totals of lists cost a write",
    "order-cost": "what a paid order costs, from its session to its event",
    "routing": "what many accounts and rules cost the start of a payment",
    "growth": "lists, export, settlement and ledger check, from a thousand orders to a million",
    "dashboard": "pages and searches of a merchant with a million orders",
    "webhooks": "deliveries to a receiver on loopback",
    "localstripe": "the same operations of a Stripe emulator",
    "size": "how long the programs take to start",
}
PEERS_PYTHON: Final = Path(__file__).parents[1] / ".venv-bench" / "bin" / "python"


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="of each measurement")
    names = [*(scenario.name for scenario in SCENARIOS), *PARTS]
    parser.add_argument(
        "--only", default="", metavar="A,B", help="names, or prefixes, of: " + ", ".join(names)
    )
    parser.add_argument(
        "--competitors", default="", metavar="A,B", help="measure only these competitors"
    )
    parser.add_argument(
        "--peers",
        type=Path,
        default=PEERS_PYTHON,
        metavar="PYTHON",
        help="the interpreter of the peers' environment",
    )
    parser.add_argument(
        "--quick", action="store_true", help="check that everything runs; figures mean nothing"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples to FILE")
    parser.add_argument(
        "--write", type=Path, metavar="FILE.md", help="write the report, and its charts next to it"
    )
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.rounds = 0.3, 1
    prefixes = tuple(name for name in options.only.split(",") if name)
    options.selected = {name for name in names if not prefixes or name.startswith(prefixes)}
    if not options.selected:
        parser.error(f"--only {options.only} is none of {', '.join(names)}")
    return options


async def measure(run: Run) -> None:
    """Run the selected benchmarks, except for ``size``, which starts a PostgreSQL of its own."""
    selected = run.options.selected
    if scenarios := [scenario for scenario in SCENARIOS if scenario.name in selected]:
        await comparison.compare_competitors(run, scenarios)
    if "workers" in selected:
        await comparison.compare_process_counts(run)
    if "counters" in selected:
        await counters.measure(run)
    if "order-cost" in selected:
        await paid_order.measure(run)
    if "routing" in selected:
        await routing.measure(run)
    if "growth" in selected:
        await growth.measure(run)
    if "dashboard" in selected:
        await dashboard.measure(run)
    if "webhooks" in selected:
        await deliveries.measure(run)
    if "localstripe" in selected:
        localstripe.measure(run)


def main() -> None:
    """Run the benchmarks; exit with 1 if a response or the ledger was wrong."""
    options = parse_arguments()
    report = Report(machine=describe_machine(), seconds=options.seconds, rounds=options.rounds)
    report.partial = len(options.selected) < len(SCENARIOS) + len(PARTS)
    if options.quick:
        report.notes.append("--quick: little data and one round; the figures mean nothing")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="opentill-bench-") as folder:
        data_dir = Path(folder)
        driver = Driver()
        with EmbeddedPostgres.start(data_dir) as database:
            if not options.quick:
                asyncio.run(deployment.preallocate_wal(database.url))
            run = Run(
                options=options, data_dir=data_dir, url=database.url, driver=driver, report=report
            )
            asyncio.run(measure(run))
        driver.close()
        if "size" in options.selected:
            startup.measure(run)
    report.minutes = (time.monotonic() - started) / 60
    print(format_report(report))
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    if options.write:
        _write_report(options.write, report)
    sys.exit(1 if report.failed else 0)


_HEAD: Final = """# Figures

`make bench ARGS="--write benchmarks/figures.md"` writes this page. The [README](README.md)
explains it.
"""


def _write_report(path: Path, report: Report) -> None:
    charts = draw_charts(report)
    images = [f"![{name}]({name}.svg)\n" for name in charts]
    path.write_text("\n".join([_HEAD, format_report(report).lstrip("\n"), *images]))
    for name, svg in charts.items():
        path.with_name(f"{name}.svg").write_text(svg)
        log_progress(f"{path.with_name(f'{name}.svg')} written")


if __name__ == "__main__":
    main()
