"""Which rows are counted, and how a range of time is put together of counted pieces."""

from typing import Final, Literal

import msgspec

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
FOREVER: Final = 2**62  # after every time; whole hours below it are exact
LATEST: Final = 253_402_300_799_999  # the last time that a request can name: the year 9999

Span = Literal["day", "hour"]
ListName = Literal["orders", "entries"]


class ListKey(msgspec.Struct, frozen=True):
    """A list of a merchant: all of it, or of one ``part`` (a product) or ``kind`` (a status)."""

    merchant_id: str
    list: ListName
    part: str = ""
    kind: str | None = None

    @property
    def filters(self) -> int:
        """How many filters the key stands for."""
        return bool(self.part) + (self.kind is not None)


class PartCount(msgspec.Struct, frozen=True):
    """How many rows of a kind a part of a list has."""

    part: str
    kind: str
    rows: int


class Busy(msgspec.Struct, frozen=True):
    """A merchant whose lists changed, and how many changes are not in the counts yet."""

    merchant_id: str
    changes: int


class Piece(msgspec.Struct, frozen=True):
    """Counts of one span, from ``since`` until before ``before``; Unix ms."""

    span: Span
    since: int
    before: int


class PageWindow(msgspec.Struct, frozen=True):
    """A range of time: what of it is whole hours, and the edges that have to be counted.

    ``edges`` are inclusive on both sides; hours are from ``since`` until before ``before``.
    """

    since: int
    before: int
    pieces: tuple[Piece, ...]
    edges: tuple[tuple[int, int], ...]


def page_window(start: int, end: int) -> PageWindow:
    """Cut the time from ``start`` to ``end`` (inclusive Unix ms, or FOREVER) into pieces."""
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
    some = tuple(piece for piece in pieces if piece.since < piece.before)
    return PageWindow(since, before, some, tuple(edges))
