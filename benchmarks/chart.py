"""Draw line charts as SVG, with logarithmic or linear axes, for light and dark pages."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

Points = Sequence[tuple[float, float]]
WIDTH: Final = 720
CHART_HEIGHT: Final = 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 190, 44, 44
_COLORS: Final = 5
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
    """A chart with named lines. ``log`` names its logarithmic axes: "x", "y", "xy" or none."""

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Points]
    log: str = ""


class _Axis:
    """A scale between two ends, with the values at which it has marks."""

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
        """Return the position of a value, from 0 (low end) to 1 (high end)."""
        scaled = math.log10(max(value, 1e-6)) if self._log else value / self._interval
        return (scaled - self.low) / (self.high - self.low)


class _IntegerAxis(_Axis):
    """A linear axis of a few integers, with a mark at each."""

    def __init__(self, values: Sequence[float]) -> None:
        self._log = False
        self._interval = 1.0
        self.low, self.high = min(values) - 0.25, max(values) + 0.25
        self.marks = sorted(set(values))


def draw(charts: Sequence[Chart], note: str) -> str:
    """Draw charts below each other, with ``note`` under the last one."""
    height = CHART_HEIGHT * len(charts) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<style>{_STYLE}</style>",
    ]
    for number, chart in enumerate(charts):
        parts.append(f'<g transform="translate(0 {number * CHART_HEIGHT})">')
        parts += _draw_chart(chart)
        parts.append("</g>")
    parts.append(f'<text class="faint" x="16" y="{height - 8}">{_escape(note)}</text></svg>')
    return "\n".join(parts) + "\n"


def _draw_chart(chart: Chart) -> list[str]:
    points = [point for line in chart.lines.values() for point in line]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    x_axis = _Axis(xs, log=True) if "x" in chart.log else _IntegerAxis(xs)
    y_axis = _Axis(ys, log="y" in chart.log)
    right, bottom = WIDTH - _RIGHT, CHART_HEIGHT - _BOTTOM

    def to_pixels(x: float, y: float) -> tuple[float, float]:
        return (
            round(_LEFT + x_axis.share(x) * (right - _LEFT), 1),
            round(bottom - y_axis.share(y) * (bottom - _TOP), 1),
        )

    parts = [f'<text class="title" x="16" y="22">{_escape(chart.title)}</text>']
    for mark in y_axis.marks:
        _, y = to_pixels(x_axis.marks[0], mark)
        parts.append(f'<path class="grid" d="M{_LEFT} {y}H{right}"/>')
        parts.append(_label(_LEFT - 8, y + 4, _format_number(mark), "end"))
    for mark in x_axis.marks:
        x, _ = to_pixels(mark, y_axis.marks[0])
        parts.append(_label(x, bottom + 18, _format_number(mark), "middle"))
    parts.append(_label((_LEFT + right) / 2, bottom + 36, chart.x_label, "middle"))
    parts.append(_label(_LEFT - 8, _TOP - 10, chart.y_label, "end"))
    legend_ys = _separate_labels([to_pixels(*line[-1])[1] for line in chart.lines.values()])
    for number, ((name, line), legend_y) in enumerate(
        zip(chart.lines.items(), legend_ys, strict=True)
    ):
        pixels = [to_pixels(*point) for point in line]
        path = "M" + "L".join(f"{x} {y}" for x, y in pixels)
        parts.append(f'<g class="s{number % _COLORS}"><path class="line" d="{path}"/>')
        for (pixel_x, pixel_y), (x, y) in zip(pixels, line, strict=True):
            label = f"{name}, {_format_number(x)}: {y:.4g}"
            parts.append(f'<circle class="dot" cx="{pixel_x}" cy="{pixel_y}" r="3.5">')
            parts.append(f"<title>{_escape(label)}</title></circle>")
        dot = f'<circle class="dot" cx="{right + 16}" cy="{legend_y}" r="4"/>'
        parts.append(f"{dot}</g>{_label(right + 26, legend_y + 4, name, 'start', faint=False)}")
    return parts


def _separate_labels(label_ys: Sequence[float]) -> list[float]:
    """Move labels that would overlap, so that each stands at least 16 pixels below another."""
    order = sorted(range(len(label_ys)), key=label_ys.__getitem__)
    moved_ys = list(label_ys)
    for above, below in itertools.pairwise(order):
        moved_ys[below] = max(moved_ys[below], moved_ys[above] + 16)
    overflow = max(0.0, moved_ys[order[-1]] - (CHART_HEIGHT - _BOTTOM)) if order else 0.0
    return [round(y - overflow, 1) for y in moved_ys]


def _label(x: float, y: float, text: str, anchor: str, *, faint: bool = True) -> str:
    css = ' class="faint"' if faint else ""
    return f'<text{css} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_escape(text)}</text>'


def _format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
