"""What is printed and written: ratios first, then the figures they come from."""

import statistics
from collections.abc import Mapping
from typing import Final

import msgspec

from benchmarks.chart import Chart, draw
from benchmarks.contest import Sample, median
from benchmarks.targets import TARGETS, line, verdict

OURS: Final = "OpenTill"
PEER: Final = "FastAPI + SQLAlchemy"
SAID: Final = {
    "create-many": "open a session",
    "read-many": "read an order",
    "pay-many": "confirm, many merchants",
    "pay-hot": "confirm, one merchant",
}


class Report(msgspec.Struct, kw_only=True):
    """Everything that a run found out."""

    machine: Mapping[str, str]
    seconds: float
    rounds: int
    samples: dict[str, dict[str, list[Sample]]] = {}  # by scenario and competitor
    limits: dict[str, Sample] = {}  # the driver's own, and the bare HTTP server's
    entries: int = 0
    violations: list[str] = []
    resident_mb: dict[str, float] = {}
    figures: dict[str, list[float]] = {}  # by name, one of each round
    growth: dict[str, dict[str, list[tuple[int, float]]]] = {}  # by series and operation
    stages: dict[str, dict[str, list[float]]] = {}  # of a paid order, by stage and figure
    failures: list[str] = []  # responses that were not 2xx, beside the contest's
    minutes: float = 0.0
    partial: bool = False  # not everything was chosen
    notes: list[str] = []

    def ratio(self, scenario: str, other: str) -> float | None:
        """Return what share of another's rate ours is: the median over the rounds."""
        samples = self.samples[scenario]
        if other not in samples or OURS not in samples:
            return None
        pairs = zip(samples[OURS], samples[other], strict=True)
        shares = [ours.rate / theirs.rate for ours, theirs in pairs if theirs.rate]
        return statistics.median(shares) if shares else None

    @property
    def failed(self) -> bool:
        """Whether something went wrong that makes the figures worthless."""
        everything = [s for found in self.samples.values() for all_ in found.values() for s in all_]
        wrong = [*self.violations, *self.failures]
        return bool(wrong) or any(sample.failures for sample in everything)


def text(report: Report) -> str:
    """Write a report for people, in Markdown that fits a terminal."""
    lines: list[str] = []
    if report.samples:
        lines += [*_ratios(report), ""]
    lines += ["## Targets", ""]
    lines += [*_targets(report), ""]
    if report.samples:
        lines += [*_contest(report), ""]
    if report.growth:
        lines += [*_growth(report), ""]
    lines += _stages(report)
    lines += ["## Other figures: median, and each round", ""]
    shown = {name for scenario in report.samples for name in _of_contest(report, scenario)}
    for name, values in report.figures.items():
        if name not in shown:
            each = ", ".join(f"{value:,.4g}" for value in values)
            lines.append(f"- {name}: {statistics.median(values):,.4g} ({each})")
    lines += [f"- resident {name}: {mb:.0f} MB" for name, mb in report.resident_mb.items()]
    lines.append(f"- check_books: {len(report.violations)} violations in {report.entries} entries")
    lines += [f"  - {violation}" for violation in report.violations[:10]]
    for scenario, by_competitor in report.samples.items():
        for name, samples in by_competitor.items():
            for what, count in median(samples).failures.items():
                lines.append(f"- FAILED {scenario} {name}: {count} times {what}")
    lines += [f"- FAILED {failure}" for failure in report.failures[:10]]
    lines += [f"- {note}" for note in report.notes]
    if trivial := report.limits.get("driver, trivial server"):
        rate = trivial.rate / trivial.driver_busy
        lines.append(
            f"- the driver with a core of its own would send {rate:.0f} requests per second"
        )
    about = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    time = f"{report.minutes:.1f} minutes in all"
    lines += [f"- {report.rounds} rounds of {report.seconds:g} s; {time}; {about}", ""]
    return "\n".join(["", *lines])


def _targets(report: Report) -> list[str]:
    """Return each target with what was found; those of parts that were left out are counted."""
    rows = [line(target, verdict(target, report.figures)) for target in TARGETS]
    if report.partial:
        rows = [row for row in rows if row[0] != "not measured"]
    lines = _table(["", "target", "is", "aim", "median figures"], rows)
    if len(rows) < len(TARGETS):
        lines += ["", f"{len(TARGETS) - len(rows)} of {len(TARGETS)} targets were not measured."]
    return lines


def _of_contest(report: Report, scenario: str) -> list[str]:
    short = scenario.partition(",")[0]
    return [f"{short} {name}" for name in report.samples[scenario]]


def _ratios(report: Report) -> list[str]:
    """Return OpenTill's rates as shares of the others'."""
    lines = ["## Ratios: OpenTill's requests per second as a share of", ""]
    races = {
        name: by_competitor
        for name, by_competitor in report.samples.items()
        if OURS in by_competitor
    }
    others = [name for name in _competitors(races) if name != OURS]
    rows = [
        [
            scenario,
            *(_percent(report.ratio(scenario, other)) for other in others),
            _percent(_by_processor(by_competitor)),
        ]
        for scenario, by_competitor in races.items()
    ]
    if races:
        lines += [*_table(["", *others, "bare ASGI, by server's processor time"], rows), ""]
    several = {
        name: by_competitor
        for name, by_competitor in report.samples.items()
        if OURS not in by_competitor
    }
    names = _competitors(several)
    rows = []
    for scenario, by_competitor in several.items():
        rates = [
            f"{median(by_competitor[name]).rate:,.0f}" if name in by_competitor else "-"
            for name in names
        ]
        rows.append([scenario, *rates])
    return [*lines, *(_table(["requests/s", *names], rows) if rows else [])]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _contest(report: Report) -> list[str]:
    """Return every competitor's figures."""
    rows = [
        [scenario, name, *_figures(median(samples))]
        for scenario, found in report.samples.items()
        for name, samples in found.items()
    ]
    rows += [["limit", name, *_figures(sample)] for name, sample in report.limits.items()]
    heads = ["", "", "requests/s", "p50 ms", "p99 ms", "server µs", "PostgreSQL µs", "driver busy"]
    about = "µs: processor time for each request, which other work on the machine hardly moves."
    return ["## Figures: medians of the rounds", "", *_table(heads, rows), "", about]


def _stages(report: Report) -> list[str]:
    """Return what each part of the way of a paid order costs."""
    if not report.stages:
        return []
    heads = list(dict.fromkeys(name for found in report.stages.values() for name in found))
    rows = [
        [stage, *(f"{statistics.median(found.get(name, [0.0])):.2f}" for name in heads)]
        for stage, found in report.stages.items()
    ]
    sums = [sum(float(row[n]) for row in rows) for n in range(1, len(heads) + 1)]
    rows.append(["together", *(f"{value:.2f}" for value in sums)])
    table = _table(["", *heads], rows)
    return ["## A paid order, part by part: medians of the rounds", "", *table, ""]


def _growth(report: Report) -> list[str]:
    """Return the times by number of orders."""
    lines = ["## Milliseconds of one operation at a time, by orders there are"]
    for series, points_by_name in report.growth.items():
        sizes = [f"{size:,}" for size, _ in next(iter(points_by_name.values()))]
        rows = [
            [name, *(f"{ms:.2f}" for _, ms in points)] for name, points in points_by_name.items()
        ]
        lines += ["", *_table([series, *sizes], rows)]
    return lines


def charts(report: Report) -> dict[str, str]:
    """Draw what grows and what several processes do, by name of the image."""
    about = f"{report.machine.get('cores', '?')} cores shared by client, server and database"
    drawn = {}
    if report.growth:
        panels = [
            Chart(
                title=f"Time of one operation: {series}",
                across="orders there are",
                up="ms",
                lines=found,
                log="xy",
            )
            for series, found in report.growth.items()
        ]
        drawn["growth"] = draw(panels, about)
    several = {
        SAID[name.partition(",")[0]]: [
            (float(other.rpartition(" ")[2]), median(samples).rate)
            for other, samples in found.items()
            if other.startswith(f"{OURS} x ")
        ]
        for name, found in report.samples.items()
        if OURS not in found
    }
    if several:
        chart = Chart(
            title="Throughput by server processes",
            across="server processes",
            up="/s",
            lines=several,
        )
        drawn["processes"] = draw([chart], about)
    return drawn


def _by_processor(samples: Mapping[str, list[Sample]]) -> float | None:
    """Return the limit's processor time as a share of ours: what hardly moves with the load."""
    if OURS not in samples or "bare ASGI" not in samples:
        return None
    return median(samples["bare ASGI"]).server_us / median(samples[OURS]).server_us


def _competitors(samples: Mapping[str, Mapping[str, list[Sample]]]) -> list[str]:
    return list(dict.fromkeys(name for found in samples.values() for name in found))


def _figures(sample: Sample) -> list[str]:
    return [
        f"{sample.rate:.0f}",
        f"{sample.p50_ms:.2f}",
        f"{sample.p99_ms:.2f}",
        f"{sample.server_us:.0f}" if sample.server_us else "-",
        f"{sample.database_us:.0f}",
        f"{sample.driver_busy:.0%}" if sample.driver_busy else "-",
    ]


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[n]) for row in [heads, *rows]) for n in range(len(heads))]
    lines = [_row(heads, widths), "|" + "|".join("-" * (width + 2) for width in widths) + "|"]
    return lines + [_row(row, widths) for row in rows]


def _row(cells: list[str], widths: list[int]) -> str:
    padded = [
        cell.rjust(width) if cell[:1].isdigit() and n else cell.ljust(width)
        for n, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "| " + " | ".join(padded) + " |"
