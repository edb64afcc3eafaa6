"""Keys of list counts, and the division of a range of time into counted pieces."""

from typing import Final, Literal

import msgspec

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
FOREVER: Final = 2**62  # Unix ms; the end of a range that has no end
LATEST: Final = 253_402_300_799_999  # Unix ms; the API accepts no time after the year 9999

Granularity = Literal["day", "hour"]
# "shown" are the orders for which the status that pages show does not follow from the status alone.
ListName = Literal["orders", "entries", "shown"]


class ListKey(msgspec.Struct, frozen=True):
    """Identifies a merchant's list whose rows are counted.

    With ``part``, only the rows of one product count; with ``kind``, only those of one status.
    """

    merchant_id: str
    list: ListName
    part: str = ""
    kind: str | None = None

    @property
    def filters(self) -> int:
        """How many of ``part`` and ``kind`` are set."""
        return bool(self.part) + (self.kind is not None)


class PartCount(msgspec.Struct, frozen=True):
    """The number of rows of a kind in a part of a list."""

    part: str
    kind: str
    rows: int


class Busy(msgspec.Struct, frozen=True):
    """A merchant with changes that are not in the counts yet, and their number."""

    merchant_id: str
    changes: int


class Piece(msgspec.Struct, frozen=True):
    """Counts of one granularity, from ``since`` to ``before`` (excluded); Unix ms."""

    span: Granularity
    since: int
    before: int


class PageWindow(msgspec.Struct, frozen=True):
    """A range of time divided into whole hours, which have counts, and edges without counts.

    ``edges`` are inclusive at both ends; the hours are from ``since`` to ``before`` (excluded).
    """

    since: int
    before: int
    pieces: tuple[Piece, ...]
    edges: tuple[tuple[int, int], ...]


def page_window(start: int, end: int) -> PageWindow:
    """Divide the time from ``start`` to ``end`` (inclusive Unix ms, or FOREVER) into pieces."""
    since = -(-start // HOUR_MS) * HOUR_MS
    before = FOREVER if end >= FOREVER else (end + 1) // HOUR_MS * HOUR_MS
    if since >= before:
        return PageWindow(since, since, (), ((start, end),))
    edges: list[tuple[int, int]] = []
    if start < since:
        edges.append((start, since - 1))
    if before <= end < FOREVER:
        edges.append((before, end))
    first_day = -(-since // DAY_MS) * DAY_MS
    last_day = FOREVER if before == FOREVER else before // DAY_MS * DAY_MS
    if first_day >= last_day:
        return PageWindow(since, before, (Piece("hour", since, before),), tuple(edges))
    pieces = (
        Piece("hour", since, first_day),
        Piece("day", first_day, last_day),
        Piece("hour", last_day, before),
    )
    nonempty = tuple(piece for piece in pieces if piece.since < piece.before)
    return PageWindow(since, before, nonempty, tuple(edges))
