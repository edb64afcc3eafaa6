"""Entries of a balance for people: pages, and sums by type over a range of time."""

import operator
from collections.abc import Sequence
from typing import Final

from opentill.db.database import Db, Tx
from opentill.ledger import money_queries, queries
from opentill.ledger.model import Entry, RowCounts, TypeSum
from opentill.ledger.postings import MERCHANT_ACCOUNTS, TRANSFERS, TYPES, Cause, Type
from opentill.ledger.statement import EntryRange, StatementError
from opentill.list_counts import (
    EVER,
    ListKey,
    Paginator,
    Range,
    count_kinds,
    count_kinds_within,
)

# A page sums at most this many entries, which takes about 35 ms on busy processors.
MAX_SUMMED: Final = 20_000


async def list_entries(
    db: Db, merchant_id: str, kind: Type | None, number: int, size: int, within: tuple[int, int]
) -> tuple[list[Entry], int]:
    """Return a page (from 1) of a merchant's entries, newest first, and their total number.

    ``kind`` is a type of entry, None for all; ``within`` is inclusive Unix ms. The cost does not
    depend on the number of entries.
    """
    filters = {} if kind is None else {"type": kind}
    counts = ListKey(merchant_id, "entries", kind=kind)
    rows = Paginator(db, queries.LISTS, merchant_id, filters, counts)
    return await rows.page(number, size, within)


class _Rows(Paginator[Entry]):
    """Entries without the fees of payments, whose number the counts by type determine."""

    def __init__(self, db: Db, merchant_id: str, *, with_transfers: bool) -> None:
        statements = queries.ROW_LISTS if with_transfers else money_queries.MONEY_LISTS
        super().__init__(db, statements, merchant_id, {}, ListKey(merchant_id, "entries"))
        self._merchant_id = merchant_id
        self._with_transfers = with_transfers

    async def total(self, tx: Tx, within: Range = EVER) -> int:
        """Return the number of rows in a range of time, exact if ``tx`` is a snapshot."""
        return self.total_of(await count_rows(tx, self._merchant_id, within))

    def total_of(self, counts: RowCounts) -> int:
        """Return the number of rows among the numbers of a range of time."""
        return counts.rows if self._with_transfers else counts.money_rows


async def count_rows(tx: Tx, merchant_id: str, within: Range = EVER) -> RowCounts:
    """Return the numbers of entries and of rows in a range of time, exact if ``tx`` is a snapshot.

    A payment and its fee are one row.
    """

    async def read_edge(since: int, until: int) -> dict[str, int]:
        rows = await queries.COUNTS_BY_TYPE.all(
            tx, merchant_id=merchant_id, since=since, until=until
        )
        return {row.kind: row.rows for row in rows}

    kinds = await count_kinds_within(tx, ListKey(merchant_id, "entries"), within, read_edge)
    since, until = within
    other_fees = await queries.OTHER_FEES.get(tx, merchant_id=merchant_id, since=since, until=until)
    entries = kinds.total()
    rows = entries - kinds["FEE"] + (other_fees or 0)
    transfers = sum(kinds[name] for name in TRANSFERS)
    types: tuple[Type, ...] = tuple(name for name in TYPES if kinds[name])
    return RowCounts(entries, rows, rows - transfers, entries - transfers, types)


async def list_rows(
    db: Db,
    merchant_id: str,
    number: int,
    size: int,
    within: tuple[int, int],
    *,
    with_transfers: bool = True,
) -> tuple[list[Entry], RowCounts]:
    """Return a page (from 1) of entries without the fees of payments, and the exact numbers.

    The entries are the newest first; ``within`` is inclusive Unix ms. ``with_transfers``: also
    those that only move money between the merchant's accounts.
    """
    rows = _Rows(db, merchant_id, with_transfers=with_transfers)

    async def read(tx: Tx) -> tuple[list[Entry], RowCounts]:
        counts = await count_rows(tx, merchant_id, within)
        return await rows.read(tx, number, size, within, rows.total_of(counts)), counts

    return await db.read_snapshot(read)


async def list_fees(tx: Tx, merchant_id: str, order_ids: Sequence[str]) -> list[Entry]:
    """Return the fee entries of a merchant's payments; ``order_ids`` are the payments' ids."""
    return await queries.FEES_OF_ORDERS.all(tx, merchant_id=merchant_id, ids=list(order_ids))


async def list_types(tx: Tx, merchant_id: str) -> tuple[Type, ...]:
    """Return the types of a merchant's entries, in the order of ``TYPES``."""
    counts = await count_kinds(tx, merchant_id, "entries")
    kinds = {one.kind for one in counts if one.rows}
    return tuple(kind for kind in TYPES if kind in kinds)


async def list_entries_of(tx: Tx, merchant_id: str, cause: Cause, cause_id: str) -> list[Entry]:
    """Return the entries of a cause, such as a payout, oldest first."""
    return await queries.OF_CAUSE.all(
        tx, merchant_id=merchant_id, source_type=cause, source_id=cause_id
    )


async def sums_by_type(
    tx: Tx, entry_range: EntryRange, most: int = MAX_SUMMED
) -> list[TypeSum] | None:
    """Return the sums of a range by type; None if it has more than ``most`` entries.

    Raises StatementError unless the opening balance and these sums make the closing balance.
    """
    if entry_range.entries > most:
        return None
    first, last = entry_range.numbers
    sums = await queries.SUMS_BY_TYPE.all(
        tx,
        merchant_id=entry_range.balance.merchant_id,
        currency=entry_range.balance.currency,
        after=first,
        last=last,
    )
    moved = [sum(getattr(one, name) for one in sums) for name in MERCHANT_ACCOUNTS]
    if tuple(map(operator.add, entry_range.opening, moved)) != entry_range.closing:
        msg = f"the sums of entries {first} to {last} are not what the balance moved by"
        raise StatementError(msg)
    return sums
