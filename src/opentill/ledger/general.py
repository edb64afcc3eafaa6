"""The general ledger for accountants: balances of accounts at a time, and all entries as CSV.

In the file an entry is two lines, a debit of its source account and a credit of its target account,
so that the lines of an entry, of a merchant, of a day or of everything add up to zero in each
currency.
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
    """Yield the balances of each merchant and currency after a time (Unix ms, inclusive).

    The time None means now. ``tx`` should be a snapshot. Reads all entries after that time, for a
    hundred balances at once.
    """
    after = ("", "")
    until = _FOREVER if at is None else at
    while True:
        batch = await queries.BALANCES_AT.all(
            tx, at=until, merchant_id=merchant_id, after=after[0], after_currency=after[1],
            limit=_MERCHANTS,
        )  # fmt: skip
        for balance in batch:
            yield balance
        if len(batch) < _MERCHANTS:
            return
        after = (batch[-1].merchant_id, batch[-1].currency)


async def trial_balance_at(tx: Tx, at: int, merchant_id: str | None = None) -> list[TrialBalance]:
    """Return the trial balance after a time (Unix ms, inclusive)."""
    sums_by_currency: dict[str, list[int]] = {}
    counts: dict[str, int] = {}
    async for balance in balances_at(tx, at, merchant_id):
        if balance.entries == 0:
            continue  # the balance has no entry before that time
        sums = sums_by_currency.setdefault(balance.currency, [0] * len(ACCOUNTS))
        for index, account in enumerate(ACCOUNTS):
            sums[index] += getattr(balance, account)
        counts[balance.currency] = counts.get(balance.currency, 0) + 1
    return [
        TrialBalance(
            currency=currency,
            merchants=counts[currency],
            **dict(zip(ACCOUNTS, sums, strict=True)),
        )
        for currency, sums in sorted(sums_by_currency.items())
    ]


def chunks(
    db: Db, start: int | None, end: int | None, merchant_id: str | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the general ledger as CSV: by merchant, oldest first, two lines per entry.

    Times are inclusive Unix ms; None is an open end. Memory use is constant, and no connection is
    held between batches.
    """
    until = _FOREVER if end is None else end
    return csvfile.encode_rows(COLUMNS, _lines(db, start or 0, until, merchant_id))


async def _lines(db: Db, start: int, end: int, merchant_id: str | None) -> AsyncIterator[list[str]]:
    after = ""
    while True:
        if merchant_id is not None:
            merchants = [merchant_id]
        else:
            merchants = await db.read(partial(_merchants_after, after=after))
        for merchant in merchants:
            async for entry in _entries(db, merchant, start, end):
                yield _line(entry, entry.from_account, -entry.amount_minor)
                yield _line(entry, entry.to_account, entry.amount_minor)
        if merchant_id is not None or len(merchants) < _MERCHANTS:
            return
        after = merchants[-1]


async def _merchants_after(tx: Tx, after: str) -> list[str]:
    rows = await queries.MERCHANTS_AFTER.all(tx, after=after, limit=_MERCHANTS)
    return [one.merchant_id for one in rows]


async def _entries(db: Db, merchant_id: str, start: int, end: int) -> AsyncIterator[Entry]:
    at, last = start, ""
    while True:
        batch = await db.read(partial(
            queries.FOLLOWING.all, merchant_id=merchant_id, at=at, id=last, until=end,
            without=[], limit=_BATCH
        ))  # fmt: skip
        for entry in batch:
            yield entry
        if len(batch) < _BATCH:
            return
        at, last = batch[-1].created_at, batch[-1].id


def _line(entry: Entry, account: Account, minor: int) -> list[str]:
    amount_text = money.show(abs(minor), entry.currency)
    return [
        str(entry.created_at), format_utc(entry.created_at), entry.merchant_id, entry.currency,
        str(entry.number), entry.id, account, amount_text if minor < 0 else "",
        amount_text if minor > 0 else "", money.show(minor, entry.currency), entry.type,
        entry.source_type, format_cell(entry.source_id), format_cell(entry.description),
    ]  # fmt: skip
