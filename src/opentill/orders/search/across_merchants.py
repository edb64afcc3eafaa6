"""Finding orders of all merchants, for staff (decision 0099).

A deployment has thousands of merchants and not millions, so each statement looks into an index once
for each merchant. Results are the newest matches; their total is not counted.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from opentill.core.amounts import read_amount
from opentill.db.database import Tx
from opentill.orders.model import Order
from opentill.orders.search import across_merchants_queries as queries
from opentill.orders.search import customer_words, lookups, terms
from opentill.orders.search.model import Condition, MerchantPlace, PendingOrder
from opentill.orders.search.service import (
    condition_of_amount,
    merchants_places_of,
    places_of_customers,
)
from opentill.orders.statuses import ShownStatus

_MOST_PENDING: Final = 1000  # orders outside the index that a search reads: some 20 milliseconds
_MOST_PLACES: Final = 2000  # terms and places that a search looks up
_CUSTOMERS_OF_MERCHANT: Final = 10  # customers with a word that are looked up at each merchant


class Matches(msgspec.Struct, frozen=True):
    """The newest orders that a text leads to.

    ``is_number``: the text is an id or a number of these orders. ``by_customer``: it is a part of
    their customers' names or addresses. ``is_complete``: False if other orders may match too.
    """

    orders: Sequence[Order]
    is_number: bool = False
    by_customer: bool = False
    is_complete: bool = True


async def list_newest(
    tx: Tx,
    size: int,
    *,
    status: ShownStatus | None,
    since: int,
    before: tuple[int, str],
) -> list[Order]:
    """Return the newest orders of all merchants from a time on, newest first.

    They were created before the time and id ``before``. ``status`` is the status that pages show,
    None for any.
    """
    values = {"since": since, "before_at": before[0], "before_id": before[1], "limit": size}
    if status is None:
        return await queries.NEWEST_OF_ALL.all(tx, **values)
    (statement,) = queries.NEWEST_OF_ALL_BY_SHOWN[(status,)]
    return await statement.all(tx, **values)


async def find_matches(tx: Tx, merchant_ids: Sequence[str], text: str, size: int) -> Matches:
    """Return the newest orders of some merchants that a text leads to, at most ``size``.

    The meanings of a text are tried in the order of a merchant's own search: an id or a number; a
    whole value; an amount; a customer.
    """
    refs = await lookups.look_up(tx, merchant_ids, text)
    if refs:
        found_orders = await queries.OF_REFS.all(
            tx,
            merchant_id=[ref.merchant_id for ref in refs],
            id=[ref.order_id for ref in refs],
            limit=size,
        )
        return Matches(found_orders, is_number=True, is_complete=len(refs) <= size)
    pending = await queries.PENDING_OF_ALL.all(
        tx, merchant_id=list(merchant_ids), limit=_MOST_PENDING
    )
    conditions = [Condition(terms.term_of(text))]
    if read_amount(text) and (amount := condition_of_amount(text)) is not None:
        conditions.append(amount)
    for condition in conditions:
        places = await merchants_places_of(tx, merchant_ids, condition)
        matching = [order for order in pending if condition.holds(order.id, order.terms)]
        if places or matching:
            return await _newest(tx, places, matching, pending, size)
    prefix = customer_words.prefix_of(text)
    if customer_words.is_too_short(prefix):
        return Matches(())
    places = await places_of_customers(tx, merchant_ids, prefix, _CUSTOMERS_OF_MERCHANT)
    matching = [order for order in pending if order.has_word(prefix)]
    matches = await _newest(tx, places, matching, pending, size)
    return msgspec.structs.replace(matches, by_customer=True)


async def _newest(
    tx: Tx,
    places: Sequence[MerchantPlace],
    matching: Sequence[PendingOrder],
    pending: Sequence[PendingOrder],
    size: int,
) -> Matches:
    """Return the newest orders of some places, and of the pending orders that match."""
    looked_up = places[:_MOST_PLACES]
    indexed = await queries.NEWEST_OF_PLACES.all(
        tx,
        merchant_id=[place.merchant_id for place in looked_up],
        term=[place.term for place in looked_up],
        place=[place.place for place in looked_up],
        limit=size,
    )
    matching_orders = await queries.OF_REFS.all(
        tx,
        merchant_id=[order.merchant_id for order in matching],
        id=[order.id for order in matching],
        limit=size,
    )
    by_id = {order.id: order for order in (*indexed, *matching_orders)}
    newest = sorted(by_id.values(), key=lambda order: (order.created_at, order.id), reverse=True)
    is_complete = (
        len(newest) < size
        and len(places) <= _MOST_PLACES
        and len(pending) < _MOST_PENDING
        and not _has_more_customers(places)
    )
    return Matches(newest[:size], is_complete=is_complete)


def _has_more_customers(places: Sequence[MerchantPlace]) -> bool:
    """Whether a merchant may have more customers than were looked up."""
    counts: dict[str, int] = {}
    for place in places:
        counts[place.merchant_id] = counts.get(place.merchant_id, 0) + 1
    return any(count >= _CUSTOMERS_OF_MERCHANT for count in counts.values())
