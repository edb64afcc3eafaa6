"""Charts as SVG: lines over a logarithmic or an even axis, for light and dark pages."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

Points = Sequence[tuple[float, float]]
WIDTH: Final = 720
PANEL: Final = 300  # height of one chart
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 190, 44, 44
_COLOURS: Final = 5
_STYLE: Final = """
text { font: 12px system-ui, sans-serif; fill: #1f2933 }
.title { font-weight: 600; font-size: 14px }
.faint { fill: #616e7c }
.grid { stroke: #d9e2ec; stroke-width: 1 }
.line { fill: none; stroke-width: 2; stroke-linejoin: round }
.s0 { --c: #1d4ed8 } .s1 { --c: #b45309 } .s2 { --c: #047857 }
.s3 { --c: #be185d } .s4 { --c: #6d28d9 }
.line { stroke: var(--c) } .dot { fill: var(--c) }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb } .faint { fill: #9aa5b1 } .grid { stroke: #3e4c59 }
  .s0 { --c: #60a5fa } .s1 { --c: #fbbf24 } .s2 { --c: #34d399 }
  .s3 { --c: #f472b6 } .s4 { --c: #a78bfa }
}
"""


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """Lines by name. ``log``: the axes, "x", "y", "xy" or none, are logarithmic."""

    title: str
    across: str
    up: str
    lines: Mapping[str, Points]
    log: str = ""


class _Axis:
    """Where a value stands between two ends, and which values are written."""

    def __init__(self, values: Sequence[float], *, log: bool) -> None:
        self._log = log
        self.low: float
        self.high: float
        low, high = min(values), max(values)
        if log:
            self.low = math.floor(math.log10(max(low, 1e-6)))
            self.high = max(math.ceil(math.log10(max(high, 1e-6))), self.low + 1)
            powers = range(math.floor(self.low), math.ceil(self.high) + 1)
            self.marks = [10.0**power for power in powers]
        else:
            interval = 10 ** math.floor(math.log10(high or 1))
            interval = (
                interval
                if high / interval > 4
                else interval / 2
                if high / interval > 2
                else interval / 5
            )
            intervals = math.ceil(high / interval)
            self.low, self.high = 0, intervals
            self.marks = [interval * n for n in range(intervals + 1)]
            self._interval = interval

    def share(self, value: float) -> float:
        """Return where a value stands, from 0 to 1."""
        at = math.log10(max(value, 1e-6)) if self._log else value / self._interval
        return (at - self.low) / (self.high - self.low)


class _FewNumbers(_Axis):
    """An even axis of few whole numbers, each of which is written."""

    def __init__(self, values: Sequence[float]) -> None:
        self._log = False
        self._interval = 1.0
        self.low, self.high = min(values) - 0.25, max(values) + 0.25
        self.marks = sorted(set(values))


def draw(charts: Sequence[Chart], note: str) -> str:
    """Draw charts below each other; ``note`` stands under the last."""
    height = PANEL * len(charts) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<style>{_STYLE}</style>",
    ]
    for number, chart in enumerate(charts):
        parts.append(f'<g transform="translate(0 {number * PANEL})">')
        parts += _panel(chart)
        parts.append("</g>")
    parts.append(f'<text class="faint" x="16" y="{height - 8}">{_text(note)}</text></svg>')
    return "\n".join(parts) + "\n"


def _panel(chart: Chart) -> list[str]:
    points = [point for line in chart.lines.values() for point in line]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    across = _Axis(xs, log=True) if "x" in chart.log else _FewNumbers(xs)
    up = _Axis(ys, log="y" in chart.log)
    right, bottom = WIDTH - _RIGHT, PANEL - _BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            round(_LEFT + across.share(x) * (right - _LEFT), 1),
            round(bottom - up.share(y) * (bottom - _TOP), 1),
        )

    parts = [f'<text class="title" x="16" y="22">{_text(chart.title)}</text>']
    for mark in up.marks:
        _, y = place(across.marks[0], mark)
        parts.append(f'<path class="grid" d="M{_LEFT} {y}H{right}"/>')
        parts.append(_label(_LEFT - 8, y + 4, _number(mark), "end"))
    for mark in across.marks:
        x, _ = place(mark, up.marks[0])
        parts.append(_label(x, bottom + 18, _number(mark), "middle"))
    parts.append(_label((_LEFT + right) / 2, bottom + 36, chart.across, "middle"))
    parts.append(_label(_LEFT - 8, _TOP - 10, chart.up, "end"))
    ends = _apart([place(*line[-1])[1] for line in chart.lines.values()])
    for number, ((name, line), end) in enumerate(zip(chart.lines.items(), ends, strict=True)):
        kind = f"s{number % _COLOURS}"
        placed = [place(*point) for point in line]
        path = "M" + "L".join(f"{x} {y}" for x, y in placed)
        parts.append(f'<g class="{kind}"><path class="line" d="{path}"/>')
        for (x, y), (at, value) in zip(placed, line, strict=True):
            label = f"{name}, {_number(at)}: {value:.4g}"
            parts.append(f'<circle class="dot" cx="{x}" cy="{y}" r="3.5">')
            parts.append(f"<title>{_text(label)}</title></circle>")
        dot = f'<circle class="dot" cx="{right + 16}" cy="{end}" r="4"/>'
        parts.append(f"{dot}</g>{_label(right + 26, end + 4, name, 'start', faint=False)}")
    return parts


def _apart(ends: Sequence[float]) -> list[float]:
    """Move labels apart that would stand on each other."""
    order = sorted(range(len(ends)), key=ends.__getitem__)
    placed = list(ends)
    for before, after in itertools.pairwise(order):
        placed[after] = max(placed[after], placed[before] + 16)
    over = max(0.0, placed[order[-1]] - (PANEL - _BOTTOM)) if order else 0.0
    return [round(y - over, 1) for y in placed]


def _label(x: float, y: float, text: str, anchor: str, *, faint: bool = True) -> str:
    kind = ' class="faint"' if faint else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_text(text)}</text>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def _text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
