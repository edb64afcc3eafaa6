"""Charts: what ``templates/charts.html`` draws, with a table of the same numbers.

The table is the chart for whoever has no script or does not see it, and the script
(``static/chart.js``) draws from nothing else.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

import msgspec

from opentill.core.money import Money, exponent
from opentill.web.language import Localizer

Kind = Literal["bars", "line"]


class Series(msgspec.Struct, frozen=True):
    """One column of the table: its name, how it is drawn, and what its numbers are.

    ``unit`` is "count", "percent" or a currency such as "USD". A chart has at most two units: the
    first one's axis is at the start, the other one's at the end.
    """

    name: str
    kind: Kind
    unit: str


class Cell(msgspec.Struct, frozen=True):
    """A number as it is read and as it is drawn: text, and a decimal, "" where there is none."""

    text: str
    value: str = ""


class Row(msgspec.Struct, frozen=True):
    """A row of the table: what it is about, the same for an axis, and a cell for each series."""

    name: str
    short: str
    cells: tuple[Cell, ...]


class Chart(msgspec.Struct, frozen=True):
    """A chart. ``id`` is its own on the page; ``summary`` says in words what it shows.

    ``about`` is the head of the first column, such as "Day".
    """

    id: str
    title: str
    summary: str
    about: str
    series: Sequence[Series]
    rows: Sequence[Row]


def money(localizer: Localizer, amount: Money) -> Cell:
    """Return the cell of an amount."""
    value = Decimal(amount.minor).scaleb(-exponent(amount.currency))
    return Cell(localizer.amount(amount), f"{value:f}")


def count(localizer: Localizer, number: int) -> Cell:
    """Return the cell of a number of things."""
    return Cell(localizer.number(number), str(number))


def percent(localizer: Localizer, share: float | None) -> Cell:
    """Return the cell of a share from 0 to 1, None where there is none."""
    if share is None:
        return Cell("–")
    return Cell(localizer.percent(share), f"{share * 100:.2f}")
