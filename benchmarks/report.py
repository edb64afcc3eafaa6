"""What is printed and written: ratios first, then the figures they come from."""

import statistics
from collections.abc import Mapping
from typing import Final

import msgspec

from benchmarks.contest import Sample, median

OURS: Final = "OpenTill"


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
    ready_s: dict[str, float] = {}
    notes: list[str] = []

    def ratio(self, scenario: str, other: str) -> float | None:
        """Return what share of another's rate ours is: the median over the rounds."""
        found = self.samples[scenario]
        if other not in found or OURS not in found:
            return None
        pairs = zip(found[OURS], found[other], strict=True)
        return statistics.median(ours.rate / theirs.rate for ours, theirs in pairs)

    @property
    def failed(self) -> bool:
        """Whether something went wrong that makes the figures worthless."""
        everything = [s for found in self.samples.values() for all_ in found.values() for s in all_]
        return bool(self.violations) or any(sample.failures for sample in everything)


def text(report: Report) -> str:
    """Write a report for people, in Markdown that fits a terminal."""
    lines = ["", "## Ratios: OpenTill's requests per second as a share of", ""]
    others = [name for name in _competitors(report) if name != OURS]
    bare = report.limits.get("bare HTTP, constant")
    heads = ["", *others, *(["bare HTTP, constant"] if bare else [])]
    heads.append("bare ASGI, by server's processor time")
    rows = []
    for scenario, found in report.samples.items():
        shares = [report.ratio(scenario, other) for other in others]
        if bare and OURS in found:
            shares.append(median(found[OURS]).rate / bare.rate)
        shares.append(_by_processor(found))
        rows.append([scenario, *("-" if s is None else f"{s:.0%}" for s in shares)])
    lines += [*_table(heads, rows), "", "## Figures: medians of the rounds", ""]
    rows = []
    for scenario, found in report.samples.items():
        for name, samples in found.items():
            rows.append([scenario, name, *_figures(median(samples))])
    for name, sample in report.limits.items():
        rows.append(["limit", name, *_figures(sample)])
    heads = ["", "", "requests/s", "p50 ms", "p99 ms", "server µs", "PostgreSQL µs", "driver busy"]
    lines += [*_table(heads, rows), ""]
    lines += ["µs: processor time for each request, which other work on the machine hardly moves."]
    lines += ["", "## Size, start, books", ""]
    lines += [f"- resident {name}: {mb:.0f} MB" for name, mb in report.resident_mb.items()]
    lines += [f"- ready, {name}: {seconds:.2f} s" for name, seconds in report.ready_s.items()]
    lines.append(f"- check_books: {len(report.violations)} violations in {report.entries} entries")
    lines += [f"  - {violation}" for violation in report.violations[:10]]
    for scenario, found in report.samples.items():
        for name, samples in found.items():
            for what, count in median(samples).failures.items():
                lines.append(f"- FAILED {scenario} {name}: {count} times {what}")
    lines += [f"- {note}" for note in report.notes]
    if trivial := report.limits.get("driver, trivial server"):
        alone = trivial.rate / trivial.driver_busy
        lines.append(f"- the driver alone on a core would send {alone:.0f} requests per second")
    about = ", ".join(f"{name} {value}" for name, value in report.machine.items())
    lines += [f"- {report.rounds} rounds of {report.seconds:g} s; {about}", ""]
    return "\n".join(lines)


def _by_processor(found: Mapping[str, list[Sample]]) -> float | None:
    """Return the limit's processor time as a share of ours: what hardly moves with the load."""
    if OURS not in found or "bare ASGI" not in found:
        return None
    return median(found["bare ASGI"]).server_us / median(found[OURS]).server_us


def _competitors(report: Report) -> list[str]:
    return list(dict.fromkeys(name for found in report.samples.values() for name in found))


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
    first_numbers = 2 if len(cells) > 4 else 1
    padded = [
        cell.ljust(width) if n < first_numbers else cell.rjust(width)
        for n, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "| " + " | ".join(padded) + " |"
