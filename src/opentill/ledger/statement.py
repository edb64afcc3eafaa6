"""Statements: opening balances, every movement and closing balances of each account.

``lines`` recomputes every balance and compares it with the ledger. It raises if they differ, so
that a statement that does not add up is never complete.
"""

import operator
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import tzinfo
from functools import partial
from itertools import repeat
from typing import Any, Final, Literal, Self

import msgspec

from opentill.core import money
from opentill.db.database import Db, Tx
from opentill.http import csvfile
from opentill.http.csvfile import format_cell, format_utc
from opentill.ledger import queries
from opentill.ledger.model import Balance, Entry
from opentill.ledger.postings import MERCHANT_ACCOUNTS, Type

Amounts = tuple[int, ...]  # minor units, one for each of MERCHANT_ACCOUNTS
NOTHING: Final[Amounts] = (0,) * len(MERCHANT_ACCOUNTS)
_BATCH: Final = 500


class StatementError(Exception):
    """The entries do not add up: the ledger is damaged. The message names the place."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a statement: ``moved`` is the change of each account, ``after`` the new balances.

    OPENING has no movement; TOTAL is the sum of one type and has no balances; CLOSING has the sum
    of all movements. The fields of an entry are empty in the other lines.
    """

    row: Literal["OPENING", "MOVEMENT", "TOTAL", "CLOSING"]
    currency: str
    at: int | None = None
    number: int | None = None
    id: str = ""
    type: str = ""
    moved: Amounts | None = None
    source_type: str = ""
    source_id: str = ""
    description: str = ""
    after: Amounts | None = None


class LineOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A line as a row of the CSV or an object of the JSON. Amounts have two decimals."""

    row: str
    currency: str
    time: int | None
    time_utc: str
    number: int | None
    id: str
    type: str
    pending: str
    available: str
    frozen: str
    reserve: str
    source_type: str
    source_id: str
    description: str
    pending_after: str
    available_after: str
    frozen_after: str
    reserve_after: str
    prepaid: str
    prepaid_after: str

    @classmethod
    def from_line(cls, line: Line) -> Self:
        """Convert a line."""
        return cls(
            row=line.row,
            currency=line.currency,
            time=line.at,
            time_utc=format_utc(line.at),
            number=line.number,
            id=line.id,
            type=line.type,
            **_format_amounts("{0}", line.moved, line.currency),
            source_type=line.source_type,
            source_id=line.source_id,
            description=line.description,
            **_format_amounts("{0}_after", line.after, line.currency),
        )


# Column → its content, for readers of the contract and of the API reference. New columns are added
# at the end.
COLUMNS: Final = {
    "row": "what the line is: `OPENING`, `MOVEMENT`, `TOTAL` (sum of a type) or `CLOSING`",
    "currency": "ISO 4217 code of the line's amounts",
    "time": "when the movement happened, Unix ms; in `OPENING` and `CLOSING` the beginning and the "
    "end of the range, empty if the range has none",
    "timeUtc": "the same time as readable text in UTC",
    "number": "the movement's number among all movements of the currency, from 1",
    "id": "the id of the balance transaction",
    "type": "the type of the movement, or of the movements in `TOTAL`",
    "pending": "how much the pending balance changed; in `TOTAL` and `CLOSING` by all movements",
    "available": "how much the available balance changed",
    "frozen": "how much the frozen balance changed",
    "reserve": "how much the reserve changed",
    "sourceType": "what caused the movement: `order`, `refund`, `dispute`, `payout` or `operator`",
    "sourceId": "the id of what caused the movement",
    "description": "what happened, in words",
    "pendingAfter": "the pending balance after the line; empty in `TOTAL`",
    "availableAfter": "the available balance after the line",
    "frozenAfter": "the frozen balance after the line",
    "reserveAfter": "the reserve after the line",
    "prepaid": "how much the prepaid balance changed",
    "prepaidAfter": "the prepaid balance after the line",
}
# Fields with text from outside, which may be a formula to a spreadsheet. All other texts are our
# own; among them are negative amounts, which must remain numbers.
_FREE: Final = frozenset({"source_id", "description"})


def _format_amounts(field: str, amounts: Amounts | None, currency: str) -> dict[str, str]:
    """Return the fields of ``LineOut`` for amounts; ``{0}`` in ``field`` stands for the account."""
    texts = repeat("") if amounts is None else (money.show(amount, currency) for amount in amounts)
    return {field.format(name): text for name, text in zip(MERCHANT_ACCOUNTS, texts)}  # noqa: B905 - repeat has no end


def moved(entry: Entry) -> Amounts:
    """Return the change of each of the merchant's accounts by an entry."""
    return tuple(
        entry.amount_minor * ((entry.to_account == account) - (entry.from_account == account))
        for account in MERCHANT_ACCOUNTS
    )


def _after(entry: Entry | None) -> Amounts:
    if entry is None:
        return NOTHING
    return tuple(getattr(entry, f"{account}_after") for account in MERCHANT_ACCOUNTS)


def _add(left: Amounts, right: Amounts) -> Amounts:
    return tuple(map(operator.add, left, right))


def _movement(entry: Entry) -> Line:
    return Line(
        row="MOVEMENT",
        currency=entry.currency,
        at=entry.created_at,
        number=entry.number,
        id=entry.id,
        type=entry.type,
        moved=moved(entry),
        source_type=entry.source_type,
        source_id=entry.source_id,
        description=entry.description,
        after=_after(entry),
    )


class _Book:
    """The running sums of one currency; ``take`` raises if an entry contradicts the one before."""

    def __init__(self, opening: Entry | None) -> None:
        self.opening = _after(opening)
        self.number = 0 if opening is None else opening.number
        self.at = 0 if opening is None else opening.created_at
        self.balance = self.opening
        self.total = NOTHING
        self.by_type: dict[str, Amounts] = {}

    def take(self, entry: Entry) -> Line:
        change = moved(entry)
        self.balance = _add(self.balance, change)
        self.number += 1
        follows = entry.number == self.number and entry.created_at >= self.at
        if not follows or self.balance != _after(entry):
            msg = f"entry {entry.number} ({entry.id}) does not follow from the one before it"
            raise StatementError(msg)
        self.at = entry.created_at
        self.total = _add(self.total, change)
        self.by_type[entry.type] = _add(self.by_type.get(entry.type, NOTHING), change)
        return _movement(entry)

    def close(self, last: Entry | None, current: Balance | None) -> None:
        """Check the sums against ``last``, the last entry, and ``current``, the present balance."""
        sums = NOTHING
        for amounts in self.by_type.values():
            sums = _add(sums, amounts)
        expected = [_after(last), _add(self.opening, self.total), _add(self.opening, sums)]
        if current is not None:
            expected.append(tuple(getattr(current, account) for account in MERCHANT_ACCOUNTS))
        short = current is not None and self.number != current.entries
        if short or any(balance != self.balance for balance in expected):
            msg = "the closing balance is not the opening balance and its movements"
            raise StatementError(msg)


class EntryRange(msgspec.Struct, frozen=True):
    """The entries of a balance after ``first``, up to and including ``last``."""

    balance: Balance
    first: Entry | None  # None if no entry precedes the range
    last: Entry | None  # equals ``first`` if the range has no entries
    is_whole: bool  # whether the balance has no entries after the range

    @property
    def numbers(self) -> tuple[int, int]:
        """The numbers of the last entry before the range and the last one in it; 0 for none."""
        first = self.first.number if self.first else 0
        return first, self.last.number if self.last else 0

    @property
    def entries(self) -> int:
        """The number of entries in the range."""
        first, last = self.numbers
        return last - first

    @property
    def opening(self) -> Amounts:
        """The balances before the range."""
        return _after(self.first)

    @property
    def closing(self) -> Amounts:
        """The balances after the range."""
        return _after(self.last)


async def find_ranges(
    tx: Tx, merchant_id: str, start: int | None, end: int | None
) -> list[EntryRange]:
    """Return the range of entries in a time (inclusive Unix ms) for each balance of a merchant.

    None is an open end. The cost is one index lookup per end, because entries contain the balances.
    """
    balances = await queries.BALANCES.all(tx, merchant_id=merchant_id)
    return [await _find_range(tx, balance, start, end) for balance in balances]


async def _find_range(tx: Tx, balance: Balance, start: int | None, end: int | None) -> EntryRange:
    key = {"merchant_id": balance.merchant_id, "currency": balance.currency}
    first = None if start is None else await queries.LAST_BEFORE.first(tx, **key, before=start)
    until = 2**62 if end is None else end + 1
    last = await queries.LAST_BEFORE.first(tx, **key, before=until)
    return EntryRange(balance, first, last, until > balance.last_at)


async def _batch(tx: Tx, key: tuple[str, str], after: int, last: int) -> list[Entry]:
    merchant_id, currency = key
    return await queries.BETWEEN.all(
        tx, merchant_id=merchant_id, currency=currency, after=after, last=last, limit=_BATCH
    )


async def _section(
    db: Db, entry_range: EntryRange, start: int | None, end: int | None
) -> AsyncIterator[Line]:
    key, currency = (
        (entry_range.balance.merchant_id, entry_range.balance.currency),
        entry_range.balance.currency,
    )
    book = _Book(entry_range.first)
    yield Line(row="OPENING", currency=currency, at=start, after=book.opening)
    last = entry_range.numbers[1]
    while book.number < last:
        batch = await db.read(partial(_batch, key=key, after=book.number, last=last))
        for entry in batch:
            yield book.take(entry)
        if not batch:
            break
    book.close(entry_range.last, entry_range.balance if entry_range.is_whole else None)
    for kind, total in sorted(book.by_type.items()):
        yield Line(row="TOTAL", currency=currency, type=kind, moved=total)
    yield Line(row="CLOSING", currency=currency, at=end, moved=book.total, after=book.balance)


async def lines(
    db: Db, merchant_id: str, start: int | None, end: int | None
) -> AsyncIterator[Line]:
    """Yield a merchant's statement, by currency. Times are inclusive Unix ms, None an open end.

    The last entry is determined first; since entries never change, they are then read in batches,
    between which no connection is held. Raises StatementError.
    """
    for entry_range in await db.read_snapshot(lambda tx: find_ranges(tx, merchant_id, start, end)):
        async for line in _section(db, entry_range, start, end):
            yield line


async def shown(
    db: Db, merchant_id: str, start: int | None, end: int | None
) -> AsyncIterator[LineOut]:
    """Yield the lines of a statement, like ``lines``, as ``LineOut``."""
    async for line in lines(db, merchant_id, start, end):
        yield LineOut.from_line(line)


def cells(line: LineOut) -> list[str]:
    """Return the cells of a line."""
    return [
        format_cell(value) if name in _FREE or not isinstance(value, str) else value
        for name, value in msgspec.structs.asdict(line).items()
    ]


async def _rows(lines_: AsyncIterator[Line], zone: tzinfo | None) -> AsyncIterator[list[str]]:
    async for line in lines_:
        row = cells(LineOut.from_line(line))
        yield row if zone is None else [csvfile.format_local(line.at, zone), *row]


def _file(lines_: AsyncIterator[Line], zone: tzinfo | None) -> AsyncGenerator[bytes, None]:
    local = () if zone is None else (f"time {zone}",)
    return csvfile.encode_rows((*local, *COLUMNS), _rows(lines_, zone))


def chunks(
    db: Db, merchant_id: str, start: int | None, end: int | None, zone: tzinfo | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the statement as CSV, in constant memory. Times are inclusive Unix ms.

    With ``zone``, the first column is the local time, with the zone's name in the header. Raises
    StatementError if the entries do not add up, so that no wrong file is complete.
    """
    return _file(lines(db, merchant_id, start, end), zone)


def movements_file(
    db: Db,
    merchant_id: str,
    kind: Type | None,
    within: tuple[int, int],
    zone: tzinfo,
    without: Sequence[Type] = (),
) -> AsyncGenerator[bytes, None]:
    """Yield a merchant's entries of one type, or of all but some, as CSV, oldest first.

    ``within`` is inclusive Unix ms. The columns are those of ``chunks`` with a zone, and every row
    is a MOVEMENT. Memory use is constant, and no connection is held between batches.
    """
    return _file(_movements(db, merchant_id, kind, within, without), zone)


async def _movements(
    db: Db, merchant_id: str, kind: Type | None, within: tuple[int, int], without: Sequence[Type]
) -> AsyncIterator[Line]:
    at, last = within[0], ""
    while True:
        values = {"merchant_id": merchant_id, "at": at, "id": last, "until": within[1]}
        batch = await db.read(partial(_following, values=values, kind=kind, without=without))
        for entry in batch:
            yield _movement(entry)
        if len(batch) < _BATCH:
            return
        at, last = batch[-1].created_at, batch[-1].id


async def _following(
    tx: Tx, values: dict[str, Any], kind: Type | None, without: Sequence[Type]
) -> list[Entry]:
    if kind is None:
        return await queries.FOLLOWING.all(tx, **values, without=list(without), limit=_BATCH)
    return await queries.FOLLOWING_OF_TYPE.all(tx, **values, type=kind, limit=_BATCH)
