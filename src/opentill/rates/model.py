"""Exchange rates, and the derivation of cross rates from those of one base currency."""

from collections.abc import Iterator, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

import msgspec

DIGITS: Final = 12  # significant digits to which a calculated rate is rounded
MAX_DIGITS: Final = 18  # a rate that a person enters has at most this many digits
DAY_MS: Final = 86_400_000
_ROUNDED: Final = Context(prec=DIGITS, rounding=ROUND_HALF_UP)


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """From ``valid_from`` (Unix ms) on, one unit of ``base`` is worth ``rate`` of ``quote``."""

    base: str
    quote: str
    valid_from: int
    rate: Decimal


class ListedRate(Rate, frozen=True, kw_only=True):
    """A rate in a list. ``is_dropped``: a later day of an imported file has no rate of the pair."""

    is_typed: bool
    is_dropped: bool

    def counts(self, oldest: int) -> bool:
        """Whether sessions may use the rate; a file's rate must not be older than ``oldest``."""
        return self.is_typed or (self.valid_from >= oldest and not self.is_dropped)


class MissingRate(msgspec.Struct, frozen=True, kw_only=True):
    """A rate that products or merchants need and that is not stored.

    ``opening``: sessions need it, and it must be valid. Otherwise only refunds need it, which are
    shown in USD with a rate of any age.
    """

    base: str
    quote: str
    opening: bool


class Day(msgspec.Struct, frozen=True):
    """The rates of one day: what one unit of the base is worth in each currency."""

    valid_from: int
    rates: Mapping[str, Decimal]


class Sheet(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file of reference rates; days and the currencies of a day are unique."""

    base: str
    days: tuple[Day, ...]
    skipped: tuple[str, ...]  # codes that the file contains, but that are no currencies any more


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The result of importing a file."""

    days: int
    first: int  # from when the first day's rates are valid, Unix ms
    last: int  # from when the last day's rates are valid, Unix ms
    currencies: tuple[str, ...]
    rates: int
    skipped: tuple[str, ...]


def crosses(base: str, day: Day) -> Iterator[Rate]:
    """Yield the rates between all currencies of a day, in both directions, through the base.

    Rates from the base are those of the file; all others are rounded half up to 12 significant
    digits.
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
    """Return the earliest ``valid_from`` (Unix ms) that a file's rate may have; 0 days: any age."""
    return now - max_age_days * DAY_MS if max_age_days else 0


def oldest_valid_from_soon(now: int, max_age_days: int) -> int:
    """Return the ``oldest_valid_from`` in the near future, for warnings to operators.

    That is in two days, or after half of a shorter maximum age.
    """
    warned_ms = min(2 * DAY_MS, max_age_days * DAY_MS // 2)
    return oldest_valid_from(now + warned_ms, max_age_days)
