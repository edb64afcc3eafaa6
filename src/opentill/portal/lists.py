"""What all lists share: range of days, choices and page, all in the address.

A list is a GET form (``templates/lists.html``) whose fields are the query of its own address, so
that a link to it shows the same rows. What is not understood is said at its field, and the list
shows what it shows without it.
"""

from collections.abc import Sequence
from datetime import date
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from opentill.core.ids import is_id
from opentill.figures.model import FIRST_DAY, day_bounds
from opentill.list_counts import FOREVER
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

SIZE: Final = 50  # rows of a page
_MOST_PAGES: Final = 10_000_000
C = TypeVar("C", bound=str)


class Days(msgspec.Struct, frozen=True):
    """The days that a list shows, in the merchant's zone.

    ``since`` and ``until`` are inclusive Unix ms, as lists take them; ``first`` and ``last`` what
    the fields ``from`` and ``to`` hold, ``YYYY-MM-DD`` or empty for an open side; ``errors`` the
    a text by field.
    """

    since: int
    until: int
    first: str
    last: str
    errors: dict[str, str]

    @property
    def range(self) -> tuple[int, int]:
        """The range as lists take it."""
        return self.since, self.until

    def filename(self, what: str) -> str:
        """Name a file of what these days list: ``orders_2025-01-01_all.csv``, without errors."""
        return f"{what}_{self.first or 'all'}_{self.last or 'all'}.csv"


class Pager(msgspec.Struct, frozen=True):
    """Which page of how many rows is shown; ``number`` counts from 1."""

    number: int
    total: int
    size: int = SIZE

    @property
    def pages(self) -> int:
        """How many pages there are, at least one."""
        return max(1, -(-self.total // self.size))

    @property
    def first(self) -> int:
        """The number of the first row of the page, from 1."""
        return min((self.number - 1) * self.size + 1, self.total)

    @property
    def last(self) -> int:
        """The number of its last row."""
        return min(self.number * self.size, self.total)


def days(request: PageRequest, zone: ZoneInfo, default: tuple[date, date] | None = None) -> Days:
    """Return the days that the query's ``from`` and ``to`` ask for, both inclusive.

    ``default``: the first and last day where the query has neither field, not even empty.
    """
    first, last = (request.query.get(name, "").strip() for name in ("from", "to"))
    if default is not None and not {"from", "to"} & request.query.keys():
        first, last = (day.isoformat() for day in default)
    errors: dict[str, str] = {}
    since, until = 0, FOREVER
    if (start := _day(first, "from", errors)) is not None:
        since = day_bounds(start, zone).since
    if (end := _day(last, "to", errors)) is not None:
        until = day_bounds(end, zone).until - 1
    if since > until:
        errors["to"] = N_("The last day must not be before the first one")
        since, until = 0, FOREVER
    return Days(since, until, first, last, errors)


def _day(text: str, field: str, errors: dict[str, str]) -> date | None:
    """Read a day, None for an empty field; what is none gets an error at its field, and None."""
    if not text:
        return None
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = date.max
    if len(text) != len("2026-01-31") or found.year == date.max.year:  # whose last day has no end
        errors[field] = N_("Enter a day as 2026-01-31")
    elif found < FIRST_DAY:
        errors[field] = N_("Enter a day from 1980 on")
    else:
        return found
    return None


def choice(request: PageRequest, name: str, choices: Sequence[C]) -> C | None:
    """Return which one of some values a field of the query has, None for any other and none."""
    given = request.query.get(name)
    return next((one for one in choices if one == given), None)


def text(request: PageRequest, name: str, longest: int = 200) -> str:
    """Return a text of the query as typed, without spaces around it."""
    given: str = request.query.get(name, "")
    return given.strip()[:longest]


def before(request: PageRequest) -> str:
    """Return the id before which a list goes on, of one that goes back from the newest."""
    given = request.query.get("before", "")
    return given if is_id(given) else ""


def page_number(request: PageRequest) -> int:
    """Return which page is asked for; what is no number is the first one."""
    given = request.query.get("page", "")
    number = int(given) if given.isascii() and given.isdecimal() and len(given) < 9 else 1  # noqa: PLR2004 - digits
    return max(1, min(number, _MOST_PAGES))
