"""What an exchange rate is, and how the rates between all currencies follow from one base's."""

from collections.abc import Iterator, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

import msgspec

DIGITS: Final = 12  # significant digits of a rate that is worked out from others
MAX_DIGITS: Final = 18  # of one that is given
DAY_MS: Final = 86_400_000
_ROUNDED: Final = Context(prec=DIGITS, rounding=ROUND_HALF_UP)


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """From ``valid_from`` (Unix ms) on, one unit of ``base`` is worth ``rate`` of ``quote``."""

    base: str
    quote: str
    valid_from: int
    rate: Decimal


class ListedRate(Rate, frozen=True, kw_only=True):
    """A rate as lists show it; ``is_dropped``: a later day of a file lacks its currencies."""

    is_typed: bool
    is_dropped: bool

    def counts(self, oldest: int) -> bool:
        """Whether sessions are opened at it; ``oldest`` is the earliest valid_from of a file."""
        return self.is_typed or (self.valid_from >= oldest and not self.is_dropped)


class Lacking(msgspec.Struct, frozen=True, kw_only=True):
    """A missing rate: without it no session opens (``opening``), or no refund is accepted."""

    base: str
    quote: str
    opening: bool


class Day(msgspec.Struct, frozen=True):
    """The rates of one day: what one unit of the base is worth in each currency."""

    valid_from: int
    rates: Mapping[str, Decimal]


class Sheet(msgspec.Struct, frozen=True, kw_only=True):
    """What a file of reference rates holds; no day and no currency of a day twice."""

    base: str
    days: tuple[Day, ...]
    skipped: tuple[str, ...]  # codes in the file that are no active currency any more


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What importing a file stored."""

    days: int
    first: int  # valid_from of the first day and the last, Unix ms
    last: int
    currencies: tuple[str, ...]
    rates: int
    skipped: tuple[str, ...]


def crosses(base: str, day: Day) -> Iterator[Rate]:
    """Yield the rates between all currencies of a day, both ways, through the base.

    Those of the base itself are as given; all others are rounded half up to 12 significant digits.
    """
    worth = {base: Decimal(1), **day.rates}
    for source in sorted(worth):
        for target in sorted(worth):
            if source != target:
                rate = worth[target]
                if source != base:
                    rate = _ROUNDED.divide(rate, worth[source])
                yield Rate(base=source, quote=target, valid_from=day.valid_from, rate=rate)


def oldest_valid_from(now: int, max_age_days: int) -> int:
    """Return the earliest ``valid_from`` (Unix ms) of a file that counts; 0 days: any does."""
    return now - max_age_days * DAY_MS if max_age_days else 0


def soon_oldest_valid_from(now: int, max_age_days: int) -> int:
    """Return the ``oldest_valid_from`` of the time for which operators are warned beforehand.

    That is in two days, or after half of a shorter age.
    """
    warned_ms = min(2 * DAY_MS, max_age_days * DAY_MS // 2)
    return oldest_valid_from(now + warned_ms, max_age_days)
