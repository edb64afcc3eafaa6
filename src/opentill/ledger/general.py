"""The general ledger for accountants: what each account held at a time, and every entry as CSV.

An entry takes from one account what it gives to another. In the file it is two lines, a debit of
the account that it takes from and a credit of the account that it gives to, so that the lines of an
entry, of a merchant, of a day or of everything add up to zero in each currency.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from typing import Final

from opentill.core import money
from opentill.db.database import Db, Tx
from opentill.http import csvfile
from opentill.http.csvfile import format_cell, format_utc
from opentill.ledger import queries
from opentill.ledger.model import Balance, Entry, TrialBalance
from opentill.ledger.postings import ACCOUNTS, Account

_BATCH: Final = 500
_MERCHANTS: Final = 100
_FOREVER: Final = 2**62
COLUMNS: Final = (
    "time", "timeUtc", "merchantId", "currency", "number", "entryId", "account", "debit", "credit",
    "amount", "type", "sourceType", "sourceId", "description",
)  # fmt: skip


async def balances_at(
    tx: Tx, at: int | None = None, merchant_id: str | None = None
) -> AsyncIterator[Balance]:
    """Yield what each account of each merchant and currency held after a time (Unix ms, inclusive).

    None is now. ``tx`` should see the database of one moment. It reads every entry after that time,
    a hundred balances at a time.
    """
    after = ("", "")
    until = _FOREVER if at is None else at
    while True:
        batch = await queries.BALANCES_AT.all(
            tx, at=until, merchant_id=merchant_id, after=after[0], after_currency=after[1],
            limit=_MERCHANTS,
        )  # fmt: skip
        for one in batch:
            yield one
        if len(batch) < _MERCHANTS:
            return
        after = (batch[-1].merchant_id, batch[-1].currency)


async def trial_balance_at(tx: Tx, at: int, merchant_id: str | None = None) -> list[TrialBalance]:
    """Return what ``trial_balance`` does, as it was after a time (inclusive Unix ms)."""
    found: dict[str, list[int]] = {}
    numbers: dict[str, int] = {}
    async for one in balances_at(tx, at, merchant_id):
        if one.entries == 0:
            continue  # it had none yet
        sums = found.setdefault(one.currency, [0] * len(ACCOUNTS))
        for index, account in enumerate(ACCOUNTS):
            sums[index] += getattr(one, account)
        numbers[one.currency] = numbers.get(one.currency, 0) + 1
    return [
        TrialBalance(
            currency=currency,
            merchants=numbers[currency],
            **dict(zip(ACCOUNTS, sums, strict=True)),
        )
        for currency, sums in sorted(found.items())
    ]


def chunks(
    db: Db, start: int | None, end: int | None, merchant_id: str | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the general ledger as CSV: merchant by merchant, the oldest first, two lines an entry.

    Times are inclusive Unix ms, None an open side. In constant memory, and without a connection
    between batches.
    """
    until = _FOREVER if end is None else end
    return csvfile.encode_rows(COLUMNS, _lines(db, start or 0, until, merchant_id))


async def _lines(db: Db, start: int, end: int, merchant_id: str | None) -> AsyncIterator[list[str]]:
    after = ""
    while True:
        if merchant_id is not None:
            batch = [merchant_id]
        else:
            batch = await db.read(partial(_merchants_after, after=after))
        for one in batch:
            async for entry in _entries(db, one, start, end):
                yield _line(entry, entry.from_account, -entry.amount_minor)
                yield _line(entry, entry.to_account, entry.amount_minor)
        if merchant_id is not None or len(batch) < _MERCHANTS:
            return
        after = batch[-1]


async def _merchants_after(tx: Tx, after: str) -> list[str]:
    found = await queries.MERCHANTS_AFTER.all(tx, after=after, limit=_MERCHANTS)
    return [one.merchant_id for one in found]


async def _entries(db: Db, merchant_id: str, start: int, end: int) -> AsyncIterator[Entry]:
    at, last = start, ""
    while True:
        batch = await db.read(partial(
            queries.FOLLOWING.all, merchant_id=merchant_id, at=at, id=last, until=end, limit=_BATCH
        ))  # fmt: skip
        for entry in batch:
            yield entry
        if len(batch) < _BATCH:
            return
        at, last = batch[-1].created_at, batch[-1].id


def _line(entry: Entry, account: Account, minor: int) -> list[str]:
    shown = money.show(abs(minor), entry.currency)
    return [
        str(entry.created_at), format_utc(entry.created_at), entry.merchant_id, entry.currency,
        str(entry.number), entry.id, account, shown if minor < 0 else "",
        shown if minor > 0 else "", money.show(minor, entry.currency), entry.type,
        entry.source_type, format_cell(entry.source_id), format_cell(entry.description),
    ]  # fmt: skip
