"""Customers as a view of orders by e-mail: found by the index of terms, as orders are (0060).

Two e-mails that differ in the capitals of A to Z are one customer's, as they are for the filter.
"""

from collections.abc import Iterable
from typing import Final

from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.orders.customers import queries
from opentill.orders.customers.model import CustomerOrder, CustomerSums
from opentill.orders.search import service as search
from opentill.orders.search import terms
from opentill.orders.search.model import Candidate, Condition
from opentill.orders.search.queries import PENDING

MAX_SUMMED: Final = 10_000  # orders of one customer: some tens of milliseconds


async def recent_customers(tx: Tx, merchant_id: str, orders: int) -> list[CustomerOrder]:
    """Return the customers of a merchant's newest ``orders``, each with the newest of them."""
    rows = await queries.RECENT.all(tx, merchant_id=merchant_id, limit=orders)
    return _newest_first(row for row in rows if row.email)


async def find_customers(db: Db, merchant_id: str, beginning: str) -> list[CustomerOrder]:
    """Return the customers whose e-mail begins so, the latest to order first, each with that order.

    Raises Invalid where too many texts begin so.
    """
    condition = _condition(beginning)

    async def read(tx: Tx) -> list[CustomerOrder]:
        apart, beside = await _not_indexed(tx, merchant_id, condition)
        places = await search.places_of(tx, merchant_id, condition)
        rows = await queries.NEWEST_OF.all(
            tx,
            merchant_id=merchant_id,
            apart=apart,
            term=[one.term for one in places],
            place=[one.place for one in places],
        )
        return [*rows, *(_order_of(one) for one in beside)]

    found = _newest_first(await db.read_snapshot(read))
    if len(found) > search.MOST_ADDRESSES:
        raise Invalid("email", f"more than {search.MOST_ADDRESSES} addresses begin so")
    return found


async def sums_of_customer(
    db: Db, merchant_id: str, email: str, most: int = MAX_SUMMED
) -> list[CustomerSums]:
    """Return sums over the newest ``most`` orders under an e-mail, by currency."""
    condition = Condition(terms.term_of(email), terms.EMAIL)

    async def read(tx: Tx) -> list[CustomerSums]:
        apart, beside = await _not_indexed(tx, merchant_id, condition)
        places = await search.places_of(tx, merchant_id, condition)
        return await queries.SUMS.all(
            tx,
            merchant_id=merchant_id,
            apart=apart,
            id=[one.id for one in beside],
            created_at=[one.created_at for one in beside],
            term=[one.term for one in places],
            place=[one.place for one in places],
            limit=most,
        )

    return await db.read_snapshot(read)


def _condition(beginning: str) -> Condition:
    """Return the condition that an e-mail begins so; of one too long for a term, that it is so."""
    begins = terms.lower(beginning)
    if len(begins) > terms.LONGEST:
        return Condition(terms.term_of(beginning), terms.EMAIL)
    return Condition(begins, terms.EMAIL, begins=True)


async def _not_indexed(
    tx: Tx, merchant_id: str, condition: Condition
) -> tuple[list[str], list[Candidate]]:
    """Return the ids of orders that the index has under another e-mail, perhaps, than theirs.

    And the orders that fulfil the condition while the index does not have them, or not as they are.
    """
    apart: list[str] = []
    beside: list[Candidate] = []
    async for candidate in PENDING.each(tx, merchant_id=merchant_id):
        if not candidate.is_new:
            apart.append(candidate.id)
        if candidate.customer_email and condition.holds(candidate.id, candidate.terms):
            beside.append(candidate)
    return apart, beside


def _order_of(one: Candidate) -> CustomerOrder:
    return CustomerOrder(
        one.customer_email, one.id, one.created_at, one.status, one.amount_minor, one.currency
    )


def _newest_first(rows: Iterable[CustomerOrder]) -> list[CustomerOrder]:
    """Return the newest order of each e-mail, the newest first."""
    ordered = sorted(rows, key=lambda row: (row.created_at, row.order_id), reverse=True)
    found: dict[str, CustomerOrder] = {}
    for row in ordered:
        found.setdefault(terms.term_of(row.email), row)
    return list(found.values())
