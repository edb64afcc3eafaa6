"""Data of charts, which ``templates/charts.html`` renders with a table of the same numbers.

The table serves readers without scripts or with screen readers, and is the only input of the script
(``static/chart.js``).
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

import msgspec

from opentill.core.money import Money, exponent
from opentill.web.language import Localizer

Kind = Literal["bars", "line"]


class Series(msgspec.Struct, frozen=True):
    """A column of the table: its name, its kind of drawing and its unit.

    ``unit`` is "count", "percent" or a currency such as "USD". A chart has at most two units: the
    first has its axis at the start, the second at the end.
    """

    name: str
    kind: Kind
    unit: str


class Cell(msgspec.Struct, frozen=True):
    """A number as formatted text and as a decimal for the drawing, "" if there is none."""

    text: str
    value: str = ""


class Row(msgspec.Struct, frozen=True):
    """A row of the table: its name, a short name for the axis, and a cell for each series.

    ``is_open``: the row is of a day that is not over, so that lines to it are dashed.
    """

    name: str
    short: str
    cells: tuple[Cell, ...]
    is_open: bool = False


class Chart(msgspec.Struct, frozen=True):
    """A chart. ``id`` is unique on the page; ``summary`` describes the content in words.

    ``about`` is the heading of the first column, such as "Day".
    """

    id: str
    title: str
    summary: str
    about: str
    series: Sequence[Series]
    rows: Sequence[Row]

    @property
    def is_empty(self) -> bool:
        """Whether all numbers are zero or missing, so that there is nothing to draw."""
        return not any(Decimal(cell.value or 0) for row in self.rows for cell in row.cells)


def money(localizer: Localizer, amount: Money) -> Cell:
    """Return the cell of an amount."""
    value = Decimal(amount.minor).scaleb(-exponent(amount.currency))
    return Cell(localizer.amount(amount), f"{value:f}")


def count(localizer: Localizer, number: int) -> Cell:
    """Return the cell of an integer."""
    return Cell(localizer.number(number), str(number))


def percent(localizer: Localizer, share: float | None) -> Cell:
    """Return the cell of a share from 0 to 1; None: a dash."""
    if share is None:
        return Cell("–")
    return Cell(localizer.percent(share), f"{share * 100:.2f}")
