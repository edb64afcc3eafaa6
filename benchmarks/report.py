"""Format the report of a run: ratios first, then the figures from which they are computed."""

import statistics
from collections.abc import Mapping
from typing import Final

import msgspec

from benchmarks.chart import Chart, draw
from benchmarks.competitors import Sample, median_sample
from benchmarks.targets import TARGETS, format_row, judge

_Samples = dict[str, dict[str, list[Sample]]]  # scenario → competitor → samples
OURS: Final = "OpenTill"
PEER: Final = "FastAPI + SQLAlchemy"
SCENARIO_TITLES: Final = {
    "create-many": "open a session",
    "read-many": "read an order",
    "pay-many": "confirm, many merchants",
    "pay-hot": "confirm, one merchant",
}


class Report(msgspec.Struct, kw_only=True):
    """The samples, figures and failures of a run."""

    machine: Mapping[str, str]
    seconds: float
    rounds: int
    samples: _Samples = {}
    limits: dict[str, Sample] = {}  # name → what the driver or the HTTP server achieves alone
    entries: int = 0
    violations: list[str] = []
    resident_mb: dict[str, float] = {}
    figures: dict[str, list[float]] = {}  # name → one value for each round
    growth: dict[str, dict[str, list[tuple[int, float]]]] = {}  # series → operation → (orders, ms)
    stages: dict[str, dict[str, list[float]]] = {}  # stage of a paid order → figure → values
    failures: list[str] = []  # unexpected responses that no sample counts
    minutes: float = 0.0
    partial: bool = False  # whether only some benchmarks were selected
    notes: list[str] = []

    def ratio(self, scenario: str, other: str) -> float | None:
        """Return the median, over the rounds, of OpenTill's rate divided by another's."""
        samples = self.samples[scenario]
        if other not in samples or OURS not in samples:
            return None
        pairs = zip(samples[OURS], samples[other], strict=True)
        ratios = [ours.rate / theirs.rate for ours, theirs in pairs if theirs.rate]
        return statistics.median(ratios) if ratios else None

    @property
    def failed(self) -> bool:
        """Whether there were failures that make the figures worthless."""
        samples_of_all = (
            samples for by_competitor in self.samples.values() for samples in by_competitor.values()
        )
        return bool(self.violations or self.failures) or any(
            sample.failures for samples in samples_of_all for sample in samples
        )


def format_report(report: Report) -> str:
    """Return the report in Markdown that fits a terminal."""
    lines: list[str] = []
    if report.samples:
        lines += [*_format_ratios(report), ""]
    lines += ["## Targets", ""]
    lines += [*_format_targets(report), ""]
    if report.samples:
        lines += [*_format_samples(report), ""]
    if report.growth:
        lines += [*_format_growth(report), ""]
    lines += _format_stages(report)
    lines += ["## Other figures: median, and each round", ""]
    sample_figures = {
        f"{scenario.partition(',')[0]} {name}"
        for scenario, by_competitor in report.samples.items()
        for name in by_competitor
    }
    for name, values in report.figures.items():
        if name not in sample_figures:
            rounds = ", ".join(f"{value:,.4g}" for value in values)
            lines.append(f"- {name}: {statistics.median(values):,.4g} ({rounds})")
    lines += [f"- resident {name}: {mb:.0f} MB" for name, mb in report.resident_mb.items()]
    lines.append(f"- check_books: {len(report.violations)} violations in {report.entries} entries")
    lines += [f"  - {violation}" for violation in report.violations[:10]]
    for scenario, by_competitor in report.samples.items():
        for name, samples in by_competitor.items():
            for failure, count in median_sample(samples).failures.items():
                lines.append(f"- FAILED {scenario} {name}: {count} times {failure}")
    lines += [f"- FAILED {failure}" for failure in report.failures[:10]]
    lines += [f"- {note}" for note in report.notes]
    if trivial := report.limits.get("driver, trivial server"):
        rate = trivial.rate / trivial.driver_busy
        lines.append(
            f"- the driver with a core of its own would send {rate:.0f} requests per second"
        )
    machine = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    duration = f"{report.minutes:.1f} minutes in total"
    lines += [f"- {report.rounds} rounds of {report.seconds:g} s; {duration}; {machine}", ""]
    return "\n".join(["", *lines])


def _format_targets(report: Report) -> list[str]:
    """List the targets with their values; of a partial report, only those that were measured."""
    rows = [format_row(target, judge(target, report.figures)) for target in TARGETS]
    if report.partial:
        rows = [row for row in rows if row[0] != "not measured"]
    lines = _table(["", "target", "value", "bound", "median figures"], rows)
    if len(rows) < len(TARGETS):
        lines += ["", f"{len(TARGETS) - len(rows)} of {len(TARGETS)} targets were not measured."]
    return lines


def _format_ratios(report: Report) -> list[str]:
    """List the ratio of OpenTill's rate to each competitor's, and rates by number of processes."""
    lines = ["## Ratios: OpenTill's requests per second as a share of", ""]
    with_opentill, with_processes = _samples_of_competitors_and_of_processes(report)
    others = [name for name in _competitor_names(with_opentill) if name != OURS]
    rows = [
        [
            scenario,
            *(_percent(report.ratio(scenario, other)) for other in others),
            _percent(_processor_time_ratio(by_competitor)),
        ]
        for scenario, by_competitor in with_opentill.items()
    ]
    if rows:
        lines += [*_table(["", *others, "bare ASGI, by server's processor time"], rows), ""]
    names = _competitor_names(with_processes)
    rows = []
    for scenario, by_competitor in with_processes.items():
        rates = [
            f"{median_sample(by_competitor[name]).rate:,.0f}" if name in by_competitor else "-"
            for name in names
        ]
        rows.append([scenario, *rates])
    return [*lines, *(_table(["requests/s", *names], rows) if rows else [])]


def _samples_of_competitors_and_of_processes(report: Report) -> tuple[_Samples, _Samples]:
    """Return the samples of the scenarios of all competitors, and those with several processes."""
    with_opentill: _Samples = {}
    with_processes: _Samples = {}
    for scenario, by_competitor in report.samples.items():
        scenarios = with_opentill if OURS in by_competitor else with_processes
        scenarios[scenario] = by_competitor
    return with_opentill, with_processes


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _format_samples(report: Report) -> list[str]:
    """List every competitor's figures."""
    rows = [
        [scenario, name, *_sample_cells(median_sample(samples))]
        for scenario, by_competitor in report.samples.items()
        for name, samples in by_competitor.items()
    ]
    rows += [["limit", name, *_sample_cells(sample)] for name, sample in report.limits.items()]
    heads = ["", "", "requests/s", "p50 ms", "p99 ms", "server µs", "PostgreSQL µs", "driver busy"]
    note = "µs: processor time per request, which other work on the machine hardly changes."
    return ["## Figures: medians of the rounds", "", *_table(heads, rows), "", note]


def _format_stages(report: Report) -> list[str]:
    """List what each stage of a paid order costs."""
    if not report.stages:
        return []
    heads = list(dict.fromkeys(name for figures in report.stages.values() for name in figures))
    rows = [
        [stage, *(f"{statistics.median(figures.get(name, [0.0])):.2f}" for name in heads)]
        for stage, figures in report.stages.items()
    ]
    sums = [sum(float(row[n]) for row in rows) for n in range(1, len(heads) + 1)]
    rows.append(["total", *(f"{value:.2f}" for value in sums)])
    table = _table(["", *heads], rows)
    return ["## A paid order, stage by stage: medians of the rounds", "", *table, ""]


def _format_growth(report: Report) -> list[str]:
    """List the times by number of orders."""
    lines = ["## Milliseconds of one operation at a time, by number of orders"]
    for series, points_by_name in report.growth.items():
        sizes = [f"{size:,}" for size, _ in next(iter(points_by_name.values()))]
        rows = [
            [name, *(f"{ms:.2f}" for _, ms in points)] for name, points in points_by_name.items()
        ]
        lines += ["", *_table([series, *sizes], rows)]
    return lines


def draw_charts(report: Report) -> dict[str, str]:
    """Return the charts of growth and of several processes as SVG, by name."""
    note = f"{report.machine.get('cores', '?')} cores shared by client, server and database"
    svg_by_name = {}
    if report.growth:
        charts = [
            Chart(
                title=f"Time of one operation: {series}",
                x_label="number of orders",
                y_label="ms",
                lines=points_by_name,
                log="xy",
            )
            for series, points_by_name in report.growth.items()
        ]
        svg_by_name["growth"] = draw(charts, note)
    _, with_processes = _samples_of_competitors_and_of_processes(report)
    rates_by_title = {
        SCENARIO_TITLES[name.partition(",")[0]]: [
            (float(competitor.rpartition(" ")[2]), median_sample(samples).rate)
            for competitor, samples in by_competitor.items()
            if competitor.startswith(f"{OURS} x ")
        ]
        for name, by_competitor in with_processes.items()
    }
    if rates_by_title:
        chart = Chart(
            title="Throughput by server processes",
            x_label="server processes",
            y_label="/s",
            lines=rates_by_title,
        )
        svg_by_name["processes"] = draw([chart], note)
    return svg_by_name


def _processor_time_ratio(samples: Mapping[str, list[Sample]]) -> float | None:
    """Return the bare application's processor time divided by OpenTill's.

    Other work on the machine hardly changes it.
    """
    if OURS not in samples or "bare ASGI" not in samples:
        return None
    return median_sample(samples["bare ASGI"]).server_us / median_sample(samples[OURS]).server_us


def _competitor_names(samples: _Samples) -> list[str]:
    return list(dict.fromkeys(name for competitors in samples.values() for name in competitors))


def _sample_cells(sample: Sample) -> list[str]:
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
