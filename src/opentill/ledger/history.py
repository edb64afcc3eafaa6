"""Reads a balance's past for people: its entries by pages, and what a range of time did to it."""

import operator
from typing import Final

from opentill.db.database import Db, Tx
from opentill.ledger import queries
from opentill.ledger.model import Entry, TypeSum
from opentill.ledger.postings import MERCHANT_ACCOUNTS, Cause, Type
from opentill.ledger.statement import Span, StatementError
from opentill.list_counts import ListKey, Paginator

MOST: Final = 20_000  # entries that are summed for a page: some 35 ms on busy processors


async def page(
    db: Db, merchant_id: str, kind: Type | None, number: int, size: int, within: tuple[int, int]
) -> tuple[list[Entry], int]:
    """Return a page (from 1) of a merchant's entries, newest first, and how many there are in all.

    ``kind`` is a type of entry, None for all; ``within`` inclusive Unix ms. It costs the same
    however many entries there are.
    """
    filters = {} if kind is None else {"type": kind}
    counts = ListKey(merchant_id, "entries", kind=kind)
    rows = Paginator(db, queries.LISTS, merchant_id, filters, counts)
    return await rows.page(number, size, within)


async def of_cause(tx: Tx, merchant_id: str, cause: Cause, cause_id: str) -> list[Entry]:
    """Return the entries that one cause, such as a payout, has made, oldest first."""
    return await queries.OF_CAUSE.all(
        tx, merchant_id=merchant_id, source_type=cause, source_id=cause_id
    )


async def sums_by_type(tx: Tx, span: Span, most: int = MOST) -> list[TypeSum] | None:
    """Return what each type moved in a range, None if it has more than ``most`` entries.

    Raises StatementError if the balance before and these sums are not the balance after.
    """
    if span.entries > most:
        return None
    first, last = span.numbers
    found = await queries.SUMS_BY_TYPE.all(
        tx,
        merchant_id=span.balance.merchant_id,
        currency=span.balance.currency,
        after=first,
        last=last,
    )
    moved = [sum(getattr(one, name) for one in found) for name in MERCHANT_ACCOUNTS]
    if tuple(map(operator.add, span.opening, moved)) != span.closing:
        msg = f"the sums of entries {first} to {last} are not what the balance moved by"
        raise StatementError(msg)
    return found
