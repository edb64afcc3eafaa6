"""``python -m benchmarks``: everything in one run; ``--help`` says what can be chosen."""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

from benchmarks import (
    counters,
    dashboard,
    deliveries,
    deployment,
    emulator,
    growth,
    paid_order,
    race,
    size,
)
from benchmarks.contest import SCENARIOS
from benchmarks.deployment import machine
from benchmarks.driver import Driver
from benchmarks.report import Report, charts, text
from benchmarks.run import Run, say
from opentill.server.embedded.postgres import EmbeddedPostgres

PARTS: Final = {
    "workers": "several server processes, beside pgbench with a plain payment",
    "counters": "what exact totals cost a write",
    "order-cost": "what a whole paid order costs, from its session to its event",
    "growth": "from a thousand orders to a million: lists, export, settle, ledger check",
    "dashboard": "pages and searches of a merchant with a million orders",
    "webhooks": "deliveries to a receiver on loopback",
    "localstripe": "a curiosity",
    "size": "how long the programs take to start",
}
PEERS: Final = Path(__file__).parents[1] / ".venv-bench" / "bin" / "python"


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="of each measurement")
    names = [*(s.name for s in SCENARIOS), *PARTS]
    parser.add_argument(
        "--only", default="", metavar="A,B", help="some, or beginnings of them: " + ", ".join(names)
    )
    parser.add_argument("--competitors", default="", metavar="A,B", help="others than all of them")
    parser.add_argument(
        "--peers", type=Path, default=PEERS, metavar="PYTHON", help="of the peers' environment"
    )
    parser.add_argument("--quick", action="store_true", help="little of everything: does it run?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument(
        "--write", type=Path, metavar="FILE.md", help="write the report there, its charts beside it"
    )
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.rounds = 0.3, 1
    prefixes = tuple(name for name in options.only.split(",") if name)
    options.chosen = {name for name in names if not prefixes or name.startswith(prefixes)}
    if not options.chosen:
        parser.error(f"--only {options.only} is none of {', '.join(names)}")
    return options


async def measure(run: Run) -> None:
    """Measure what was chosen; what cannot be measured is noted in the report."""
    chosen = run.options.chosen
    if scenarios := [scenario for scenario in SCENARIOS if scenario.name in chosen]:
        await race.contest(run, scenarios)
    if "workers" in chosen:
        await race.workers(run)
    if "counters" in chosen:
        await counters.measure(run)
    if "order-cost" in chosen:
        await paid_order.measure(run)
    if "growth" in chosen:
        await growth.measure(run)
    if "dashboard" in chosen:
        await dashboard.measure(run)
    if "webhooks" in chosen:
        await deliveries.measure(run)
    if "localstripe" in chosen:
        emulator.measure(run)


def main() -> None:
    """Run; exit code 1 if a response was wrong or the books do not agree."""
    options = arguments()
    report = Report(machine=machine(), seconds=options.seconds, rounds=options.rounds)
    report.partial = len(options.chosen) < len(SCENARIOS) + len(PARTS)
    if options.quick:
        report.notes.append("--quick: little data, few rounds; the figures mean nothing")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="opentill-bench-") as folder:
        data_dir = Path(folder)
        driver = Driver()
        with EmbeddedPostgres.start(data_dir) as database:
            if not options.quick:
                asyncio.run(deployment.warm_log(database.url))
            run = Run(
                options=options, data_dir=data_dir, url=database.url, driver=driver, report=report
            )
            asyncio.run(measure(run))
        driver.close()
        if "size" in options.chosen:
            size.measure(run)
    report.minutes = (time.monotonic() - started) / 60
    print(text(report))
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    if options.write:
        _write(options.write, report)
    sys.exit(1 if report.failed else 0)


_HEAD: Final = """# Figures

Written by `make bench ARGS="--write benchmarks/figures.md"`; what is what: [README](README.md).
"""


def _write(path: Path, report: Report) -> None:
    drawn = charts(report)
    images = [f"![{name}]({name}.svg)\n" for name in drawn]
    path.write_text("\n".join([_HEAD, text(report).lstrip("\n"), *images]))
    for name, svg in drawn.items():
        path.with_name(f"{name}.svg").write_text(svg)
        say(f"{path.with_name(f'{name}.svg')} written")


if __name__ == "__main__":
    main()
