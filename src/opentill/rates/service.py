"""Setting, importing and reading exchange rates. An order keeps the rates it was opened with."""

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from opentill.core import money
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.rates import queries
from opentill.rates.model import (
    DAY_MS,
    MAX_DIGITS,
    Imported,
    ListedRate,
    MissingRate,
    Rate,
    Sheet,
    crosses,
    oldest_valid_from,
    oldest_valid_from_soon,
)

_BATCH: Final = 20_000  # one statement writes at most this many rates
_MIN_RATE: Final = Decimal(1).scaleb(-MAX_DIGITS)


def _nothing(_days: int) -> None:
    """Report no progress."""


async def put(tx: Tx, base: str, quote: str, rate: Decimal, valid_from: int) -> Rate:
    """Set the value of one ``base`` in ``quote`` from a time (Unix ms) on. Raises Invalid.

    Replaces a rate of the same pair and time.
    """
    for field, code in (("base", base), ("quote", quote)):
        _check_currency(field, code)
    if base == quote:
        raise Invalid("quote", "quote must be another currency than base")
    fits = rate.is_finite() and _MIN_RATE <= rate < 10**9
    if not fits or len(rate.as_tuple().digits) > MAX_DIGITS:
        reason = f"rate must be a positive decimal number of at most {MAX_DIGITS} digits"
        raise Invalid("rate", reason)
    await queries.PUT.run(tx, base=base, quote=quote, valid_from=valid_from, rate=rate)
    return Rate(base=base, quote=quote, valid_from=valid_from, rate=rate)


def _check_currency(field: str, code: str) -> None:
    if code not in money.EXPONENTS:
        raise Invalid(field, f"{field} must be an active ISO 4217 code such as USD")


async def find(tx: Tx, base: str, quote: str, at: int, oldest: int = 0) -> Decimal | None:
    """Return the value of one ``base`` in ``quote`` at a time; None if no rate is valid.

    ``oldest`` is the earliest ``valid_from`` (Unix ms) that a file's rate may have.
    """
    return await queries.FIND.get(tx, base=base, quote=quote, at=at, oldest=oldest)


async def find_newest(tx: Tx, base: str, quote: str, at: int) -> Rate | None:
    """Return the newest rate of a pair, valid or not."""
    return await queries.NEWEST_RATE.first(tx, base=base, quote=quote, at=at)


async def list_missing(tx: Tx, at: int, oldest: int = 0) -> list[MissingRate]:
    """Return the rates that the existing merchants and products need and lack.

    ``oldest`` is the earliest ``valid_from`` of a file's rate that opens a session.
    """
    return await queries.MISSING.all(tx, at=at, oldest=oldest)


async def list_expiring(tx: Tx, at: int, max_age_days: int) -> list[MissingRate]:
    """Return the rates that sessions may use now but that ``oldest_valid_from_soon`` excludes."""
    if not max_age_days:
        return []
    lacking_now = await list_missing(tx, at, oldest_valid_from(at, max_age_days))
    lacking_soon = await list_missing(tx, at, oldest_valid_from_soon(at, max_age_days))
    pairs = {(missing.base, missing.quote) for missing in lacking_now if missing.opening}
    return [
        missing
        for missing in lacking_soon
        if missing.opening and (missing.base, missing.quote) not in pairs
    ]


async def list_current(
    tx: Tx, at: int, base: str | None = None, quote: str | None = None
) -> list[ListedRate]:
    """Return the rate of each pair at a time, optionally of one base or quote only.

    Raises Invalid for an unknown currency.
    """
    for field, code in (("base", base), ("quote", quote)):
        if code is not None:
            _check_currency(field, code)
    return await queries.CURRENT.all(tx, at=at, base=base, quote=quote)


async def import_sheet(
    tx: Tx,
    sheet: Sheet,
    now: int,
    since: int = 0,
    advance: Callable[[int], None] = _nothing,
) -> Imported:
    """Store a file's rates between all its currencies, from the day ``since`` on. Idempotent.

    Currencies that the newest day lacks are no longer converted; entered rates of the same pair and
    time are replaced. ``advance`` is called with the number of days of each batch. Raises Invalid
    for a day in the future, or if no day is left.
    """
    days = [day for day in sheet.days if day.valid_from >= since]
    if not days:
        raise Invalid("from", "from must not be after the last day of the file")
    if max(day.valid_from for day in days) > now + DAY_MS:
        raise Invalid("file", "file must hold no rates of days that are yet to come")
    batch: list[Rate] = []
    days_written = rates_written = 0
    for number, day in enumerate(days, 1):
        batch += crosses(sheet.base, day)
        if len(batch) >= _BATCH or number == len(days):
            await _put_many(tx, batch)
            advance(number - days_written)
            days_written, rates_written = number, rates_written + len(batch)
            batch = []
    await queries.PUT_DAYS.run(tx, valid_from=[day.valid_from for day in days])
    return Imported(
        days=len(days),
        first=min(day.valid_from for day in days),
        last=max(day.valid_from for day in days),
        currencies=tuple(sorted({code for day in days for code in day.rates} | {sheet.base})),
        rates=rates_written,
        skipped=sheet.skipped,
    )


async def _put_many(tx: Tx, rates: list[Rate]) -> None:
    await queries.PUT_MANY.run(
        tx,
        base=[rate.base for rate in rates],
        quote=[rate.quote for rate in rates],
        valid_from=[rate.valid_from for rate in rates],
        rate=[rate.rate for rate in rates],
    )
