"""Headline figures: a number, its change, the period it is compared with, and a sparkline."""

from collections.abc import Sequence
from typing import Final

import msgspec

from opentill.web import sparklines
from opentill.web.language import Localizer
from opentill.web.sparklines import Sparkline
from opentill.web.translations import N_

# By hour or by day, and whether the last value may still change → the name of a drawing.
_LABELS: Final = {
    (False, False): N_("{name} by day: from {lowest} to {highest}"),
    (False, True): N_("{name} by day: from {lowest} to {highest}, today so far {current}"),
    (True, False): N_("{name} by hour: from {lowest} to {highest}"),
    (True, True): N_("{name} by hour: from {lowest} to {highest}, this hour so far {current}"),
}
_LARGEST_GROWTH: Final = 10  # growth above this factor is not shown as a percentage


class Headline(msgspec.Struct, frozen=True):
    """A headline figure as text.

    ``name`` is a message id. ``change`` is a percentage with its sign, and ``compared`` names the
    period before and its figure; both are "" if there is nothing to compare with. ``sparkline`` is
    the figure by day, None if there are too few days. ``is_bad``: the figure asks for attention.
    """

    name: str
    now: str
    compared: str = ""
    change: str = ""
    sparkline: Sparkline | None = None
    is_bad: bool = False


def change(localizer: Localizer, now: int, before: int) -> str:
    """Write the growth as a percentage, "" where a percentage would say little."""
    if before <= 0 or now < 0 or now == before or now > _LARGEST_GROWTH * before:
        return ""
    share = localizer.percent(abs(now - before) / before)
    return f"+{share}" if now > before else f"-{share}"


def change_of_rate(localizer: Localizer, now: float | None, before: float | None) -> str:
    """Write the change of a rate in percentage points, "" for no change or no rate before."""
    if now is None or before is None:
        return ""
    points = round(100 * now, 1) - round(100 * before, 1)
    if abs(points) < 0.05:  # noqa: PLR2004 - equal with the one decimal that is shown
        return ""
    number = localizer.tenths(abs(points))
    text = localizer.gettext("{points} pts", points=number)
    return f"+{text}" if points > 0 else f"-{text}"


def draw_days(
    localizer: Localizer,
    name: str,
    values: Sequence[float],
    texts: Sequence[str],
    *,
    has_today: bool,
    by_hour: bool = False,
) -> Sparkline | None:
    """Draw a figure by day or hour; its accessible name has the lowest and the highest value.

    ``has_today``: the last value is that of today or of this hour, which is not over yet. A dashed
    line leads to it, because a day that has just begun would look like a fall to zero. There is no
    drawing of zeros alone.
    """
    over = len(values) - has_today
    if over < 1 or not any(values):
        return None
    order = sorted(range(over), key=values.__getitem__)
    label = localizer.gettext(
        _LABELS[by_hour, has_today],
        name=localizer.gettext(name),
        lowest=texts[order[0]],
        highest=texts[order[-1]],
        current=texts[-1],
    )
    return sparklines.draw(str(label), values, has_current=has_today)
