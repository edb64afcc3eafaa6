"""Sparklines: small line drawings beside a figure, as SVG in the page.

They have no axis and no script. The accessible name of a sparkline says what it shows, and the
page has a chart with a table of the same numbers.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

_WIDTH: Final = 120
_HEIGHT: Final = 32
_MARGIN: Final = 2  # so that the line is not cut off at its highest and lowest point


class Sparkline(msgspec.Struct, frozen=True):
    """A sparkline: its accessible name, and the points of its line and of the area below it.

    ``current`` are the points of the last part, to a value that may still change; "" for none.
    """

    name: str
    line: str
    area: str
    current: str = ""
    box: str = f"0 0 {_WIDTH} {_HEIGHT}"


def draw(name: str, values: Sequence[float], *, has_current: bool = False) -> Sparkline | None:
    """Draw the values from the left to the right; None for fewer than two values.

    ``has_current``: the last value may still change, so that another line leads to it. The
    lowest point is zero, or the lowest value if one is negative, so that heights can be compared.
    """
    if len(values) < 2:  # noqa: PLR2004 - a line has two ends
        return None
    low, high = min(0, *values), max(0, *values)
    scale = (_HEIGHT - 2 * _MARGIN) / (high - low) if high > low else 0
    distance = _WIDTH / (len(values) - 1)
    points = [
        f"{index * distance:.1f},{_HEIGHT - _MARGIN - (value - low) * scale:.1f}"
        for index, value in enumerate(values)
    ]
    area = " ".join((f"0,{_HEIGHT}", *points, f"{_WIDTH},{_HEIGHT}"))
    if has_current:
        return Sparkline(name, " ".join(points[:-1]), area, " ".join(points[-2:]))
    return Sparkline(name, " ".join(points), area)
