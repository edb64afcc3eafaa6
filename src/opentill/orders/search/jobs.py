"""The worker's job for searches: writing the terms of orders into the index, in batches."""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import asyncpg

from opentill.db.database import Db, Tx
from opentill.db.query import columns
from opentill.orders.model import DAY_MS
from opentill.orders.search import customer_words, queries, terms
from opentill.orders.search.model import ChangedOrder, IndexRow

# A merchant's changed orders are indexed once there are this many. While there are fewer, reading
# them in each search costs less than indexing them.
MIN_CHANGES: Final = 200
MANY: Final = 1000  # a term's index rows in a place are counted once there are this many
_MERCHANTS: Final = 200  # one statement returns at most this many merchants
# If a batch adds only one row of a term, only one in this many batches checks whether the term now
# has MANY rows, because the check costs as much as adding the row. So a count begins up to some
# hundred rows late.
_ONE_OF: Final = 8
_turn: Final = itertools.count()
_Day: TypeAlias = tuple[str, str, int]  # a term, its place, and the start of a day (Unix ms)


async def index_orders(db: Db, at_least: int = MIN_CHANGES) -> int:
    """Index orders of merchants with ``at_least`` or more changes; return the number of orders."""
    indexed = 0
    last = ""
    while True:
        async with db.connection() as tx:
            waiting = await queries.WAITING.all(tx, after=last, limit=_MERCHANTS, most=at_least)
        for merchant in waiting:
            if merchant.changes >= at_least:
                indexed += await index_merchant(db, merchant.merchant_id)
        if len(waiting) < _MERCHANTS:
            return indexed
        last = waiting[-1].merchant_id


async def index_merchant(db: Db, merchant_id: str, batch: int = 1000, many: int = MANY) -> int:
    """Index a merchant's changed orders; return their number, 0 while another worker does it."""

    async def work(tx: Tx) -> int:
        await queries.ADD_HEAD.run(tx, merchant_id=merchant_id)
        if await queries.LOCK_HEAD.get(tx, merchant_id=merchant_id) is None:
            return 0
        return await _index(tx, merchant_id, batch, many)

    total = 0
    while True:
        indexed = await db.run(work)
        total += indexed
        if indexed < batch:
            return total


async def _index(tx: Tx, merchant_id: str, batch: int, many: int) -> int:
    """Index a batch of orders as they are now; the caller must have locked the merchant's head."""
    changed = await queries.TAKE.all(tx, merchant_id=merchant_id, limit=batch)
    await _add_words(tx, merchant_id, changed)
    new = [order for order in changed if order.is_new]
    existing = [order for order in changed if not order.is_new]
    counts: Counter[_Day] = Counter()
    if new and not await _add(tx, merchant_id, new, counts):
        existing = changed
    if existing:
        await _replace(tx, merchant_id, existing, counts)
    if counts:
        await queries.COUNT.run(
            tx,
            merchant_id=merchant_id,
            many=many,
            term=[term for term, _, _ in counts],
            place=[place for _, place, _ in counts],
            since=[since for _, _, since in counts],
            rows=list(counts.values()),
            looked_at=[rows > 1 or not next(_turn) % _ONE_OF for rows in counts.values()],
        )
    return len(changed)


async def _add_words(tx: Tx, merchant_id: str, orders: Sequence[ChangedOrder]) -> None:
    """Add the words of the orders' customers. Words are not removed: others may have them.

    Customers without an email address have no words, because words lead to email addresses.
    """
    customers = {
        (terms.term_of(order.customer_email), order.customer_name): order
        for order in orders
        if order.customer_email
    }
    rows = sorted(
        {
            (word, term, order.terms(order.customer_email, order.card_last4)[term])
            for (term, name), order in customers.items()
            for word in customer_words.words_of(order.customer_email, name)
        }
    )
    if rows:
        word, term, place = zip(*rows, strict=True)
        await queries.ADD_WORDS.run(tx, merchant_id=merchant_id, word=word, term=term, place=place)


async def index_again(db: Db, batch: int = 1000) -> int:
    """Mark a batch of orders for which the index lacks words and currencies; return their number.

    ``index_orders`` indexes them again. Few are marked at once, since searches read marked orders.
    """

    async def work(tx: Tx) -> int:
        return await queries.INDEX_AGAIN.get(tx, limit=batch) or 0

    return await db.run(work)


async def _add(
    tx: Tx, merchant_id: str, new: Sequence[ChangedOrder], counts: Counter[_Day]
) -> bool:
    """Add the index rows of new orders; return False if a row exists already.

    OpenTill itself never causes such a row.
    """
    rows = [
        (term, place, order.created_at, order.id)
        for order in new
        for term, place in order.terms(order.customer_email, order.card_last4).items()
    ]
    term, place, created_at, order_id = zip(*rows, strict=True)
    try:
        async with tx.transaction():
            await queries.ADD.run(
                tx,
                merchant_id=merchant_id,
                term=term,
                place=place,
                created_at=created_at,
                order_id=order_id,
            )
    except asyncpg.UniqueViolationError:
        return False
    days = [at - at % DAY_MS for at in created_at]
    counts.update(zip(term, place, days, strict=True))
    return True


async def _replace(
    tx: Tx, merchant_id: str, orders: Sequence[ChangedOrder], counts: Counter[_Day]
) -> None:
    """Replace the index rows of orders.

    This removes the rows with every email address and card that the order had since it was last
    indexed.
    """
    new: list[IndexRow] = []
    old: set[IndexRow] = set()
    for order in orders:
        current = _rows(order, order.customer_email, order.card_last4)
        new += current
        for email in order.were:
            for card in {None, order.card_last4}:
                for with_currency in (True, False):
                    rows = _rows(order, email, card, with_currency=with_currency)
                    old |= set(rows).difference(current)
    values: dict[str, Any] = columns(IndexRow, new)
    values |= {f"old_{name}": column for name, column in columns(IndexRow, old).items()}
    for change in await queries.REPLACE.all(tx, merchant_id=merchant_id, **values):
        counts[change.term, change.place, change.since] += change.rows


def _rows(
    order: ChangedOrder, email: str, card_last4: str | None, *, with_currency: bool = True
) -> list[IndexRow]:
    """Return the index rows of an order, for an email and a card."""
    order_terms = order.terms(email, card_last4, with_currency=with_currency)
    return [
        IndexRow(term, place, order.created_at, order.id) for term, place in order_terms.items()
    ]
