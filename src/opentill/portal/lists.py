"""Filters and pages of lists, all in the query.

A list is a GET form (``templates/lists.html``), so that a link to it shows the same rows. An
invalid field gets an error and does not filter.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final, Literal, TypeVar
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec

from opentill.core import pasted
from opentill.core.ids import is_id
from opentill.figures.model import FIRST_DAY, day_bounds, local
from opentill.list_counts import FOREVER
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

SIZE: Final = 50  # rows on a page
_LAST_PAGE: Final = 10_000_000
_MONTHS: Final = 4  # months that a report offers by name
PresetName = Literal["today", "week", "30 days", "month", "before"]
C = TypeVar("C", bound=str)


class Preset(msgspec.Struct, frozen=True):
    """A usual range of days; ``first`` and ``last`` have the form ``YYYY-MM-DD``."""

    name: PresetName
    first: str
    last: str


class Month(msgspec.Struct, frozen=True):
    """A month that a report can show; the present month ends today.

    ``preset`` is its usual name, None for months before the last one.
    """

    start: date
    end: date
    preset: PresetName | None = None

    @property
    def query(self) -> dict[str, str]:
        """The fields of the query that choose its days."""
        return {"from": self.start.isoformat(), "to": self.end.isoformat()}


class Days(msgspec.Struct, frozen=True):
    """The days that a list shows, in the merchant's time zone.

    ``since`` and ``until`` are their inclusive Unix ms. ``first`` and ``last`` are the texts of the
    fields ``from`` and ``to``: ``YYYY-MM-DD``, or empty for an open end. ``start`` and ``end`` are
    the days in these fields, None for an open end or an error. ``errors``: field → error text.
    """

    since: int
    until: int
    first: str
    last: str
    errors: dict[str, str]
    start: date | None = None
    end: date | None = None
    presets: tuple[Preset, ...] = ()

    @property
    def preset(self) -> PresetName | None:
        """The name of the preset with these days, None if no preset has them."""
        shown = (self.first, self.last)
        return next((row.name for row in self.presets if (row.first, row.last) == shown), None)

    @property
    def is_this_year(self) -> bool:
        """Whether the entered days are in the year of today, with which the presets end."""
        year = self.presets[0].last[:4] if self.presets else ""
        return all(text[:4] == year for text in (self.first, self.last) if text)

    @property
    def range(self) -> tuple[int, int]:
        """The first and last time of the days, inclusive Unix ms."""
        return self.since, self.until

    def filename(self, kind: str) -> str:
        """Return a name for the file of these days, such as ``orders_from_2025-01-01.csv``."""
        if self.first and self.last:
            return f"{kind}_{self.first}_{self.last}.csv"
        if self.first or self.last:
            return f"{kind}_from_{self.first}.csv" if self.first else f"{kind}_to_{self.last}.csv"
        return f"{kind}_all.csv"


class Pager(msgspec.Struct, frozen=True):
    """The page that is shown, from 1, and the total of rows."""

    number: int
    total: int
    size: int = SIZE

    @property
    def pages(self) -> int:
        """The number of pages, at least one."""
        return max(1, -(-self.total // self.size))

    @property
    def first(self) -> int:
        """The number of the first row of the page, from 1."""
        return min((self.number - 1) * self.size + 1, self.total)

    @property
    def last(self) -> int:
        """The number of the last row of the page."""
        return min(self.number * self.size, self.total)


def file_address(request: PageRequest, name: str, *fields: str) -> str:
    """Return the URL of a list as a file, with the fields of the request that select its rows."""
    query = {field: request.query[field] for field in fields if request.query.get(field)}
    address = request.link(name)
    return f"{address}?{urlencode(query)}" if query else address


def days(
    request: PageRequest,
    zone: ZoneInfo,
    default: tuple[date, date] | None = None,
    *,
    reads_query: bool = True,
) -> Days:
    """Read the query's ``from`` and ``to``.

    ``default``: the first and last day if the query has neither field, not even empty, or if it is
    not read.
    """
    first, last = (request.query.get(name, "").strip() for name in ("from", "to"))
    if default is not None and not (reads_query and {"from", "to"} & request.query.keys()):
        first, last = (day.isoformat() for day in default)
    errors: dict[str, str] = {}
    since, until = 0, FOREVER
    if (start := _day(first, "from", errors)) is not None:
        since = day_bounds(start, zone).since
    if (end := _day(last, "to", errors)) is not None:
        until = day_bounds(end, zone).until - 1
    if since > until:
        errors["to"] = N_("The last day must not be before the first one")
        since, until, start, end = 0, FOREVER, None, None
    return Days(since, until, first, last, errors, start, end, _presets(request, zone))


def _presets(request: PageRequest, zone: ZoneInfo) -> tuple[Preset, ...]:
    """Return the usual ranges of days; each of them ends today or earlier."""
    today = local(request.now, zone).date()
    month = today.replace(day=1)
    before = month - timedelta(days=1)  # the last day of the previous month
    ranges: dict[PresetName, tuple[date, date]] = {
        "today": (today, today),
        "week": (today - timedelta(days=6), today),
        "30 days": (today - timedelta(days=29), today),
        "month": (month, today),
        "before": (before.replace(day=1), before),
    }
    return tuple(
        Preset(name, first.isoformat(), last.isoformat()) for name, (first, last) in ranges.items()
    )


def months(request: PageRequest, zone: ZoneInfo, number: int = _MONTHS) -> list[Month]:
    """Return the present month until today and the months before it, newest first."""
    end = local(request.now, zone).date()
    names: tuple[PresetName | None, ...] = ("month", "before", *[None] * (number - 2))
    rows: list[Month] = []
    for name in names:
        rows.append(Month(end.replace(day=1), end, name))
        end = end.replace(day=1) - timedelta(days=1)
    return rows


def _day(text: str, field: str, errors: dict[str, str]) -> date | None:
    """Read a day; None for an empty field and, with an error at the field, for an invalid one."""
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = date.max
    # Days of the year 9999 are refused, because the end of its last day cannot be represented.
    if len(text) != len("2026-01-31") or day.year == date.max.year:
        errors[field] = N_("Enter a day as 2026-01-31")
    elif day < FIRST_DAY:
        errors[field] = N_("Enter a day from 1980 on")
    else:
        return day
    return None


def choice(request: PageRequest, name: str, choices: Sequence[C]) -> C | None:
    """Read a field of the query whose value is one of ``choices``, None otherwise."""
    value = request.query.get(name)
    return next((choice for choice in choices if choice == value), None)


def text(request: PageRequest, name: str, longest: int = 200) -> str:
    """Read a text of the query, trimmed."""
    value: str = request.query.get(name, "")
    return pasted.trim(value)[:longest]


def before(request: PageRequest) -> str:
    """Read the id of the last row of the previous page; "" if the query has none."""
    value = request.query.get("before", "")
    return value if is_id(value) else ""


def page_number(request: PageRequest) -> int:
    """Read the number of the page, the first if it is not a number."""
    value = request.query.get("page", "")
    number = int(value) if value.isascii() and value.isdecimal() and len(value) < 9 else 1  # noqa: PLR2004 - digits
    return max(1, min(number, _LAST_PAGE))
