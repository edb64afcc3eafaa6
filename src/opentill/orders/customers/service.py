"""Customers as a view of orders by email address, found by the index of terms (decision 0060).

As in the filter of orders, addresses that differ only in capitals (A to Z) are the same customer.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from opentill.db.database import Db, Tx
from opentill.list_counts import FOREVER
from opentill.orders.customers import queries
from opentill.orders.customers.model import (
    CustomerMethod,
    CustomerOrder,
    CustomerSums,
    CustomerTotal,
    OrderCustomer,
    RecentCustomers,
    RecentOrders,
)
from opentill.orders.model import Order
from opentill.orders.search import service as search
from opentill.orders.search import terms
from opentill.orders.search.model import Candidate, Condition
from opentill.orders.search.pending import PendingOrders

# A customer's sums cover at most this many orders; adding these up takes tens of milliseconds.
MAX_SUMMED: Final = 10_000
# The totals of a list of customers cover at most this many orders of each customer.
_MOST_TOTALLED: Final = 1_000
_MOST_METHODS: Final = 10
_BATCH: Final = 500  # customers whose totals a statement reads


async def recent_customers(tx: Tx, merchant_id: str, orders: int) -> RecentCustomers:
    """Return the customers of a merchant's last ``orders`` orders, sorted by their last payment.

    Each has their newest order, and the last payment among these orders.
    """
    rows = await queries.RECENT.all(tx, merchant_id=merchant_id, limit=orders)
    totals: dict[str, list[CustomerTotal]] = {}
    numbers = Counter[str]()
    for row in rows:
        term = terms.term_of(row.email)
        numbers[term] += row.orders
        if total := _total_of(term, row):
            totals[term] = _add_totals(totals.get(term, []), [total])
    oldest: tuple[int, str] | None = None
    if rows and rows[0].has_more and rows[0].oldest_at is not None:
        oldest = rows[0].oldest_at, rows[0].oldest_id or ""
    customers = sort_customers(_newest_of_each(map(_order_of_recent, rows)))
    return RecentCustomers(customers, totals, numbers, oldest)


def _total_of(term: str, row: RecentOrders) -> CustomerTotal | None:
    if row.first_paid_at is None or row.last_paid_at is None:
        return None
    return CustomerTotal(
        term,
        row.currency,
        row.payments,
        row.paid_minor,
        row.refunded_minor,
        row.settled_minor,
        row.first_paid_at,
        row.last_paid_at,
    )


def _order_of_recent(row: RecentOrders) -> CustomerOrder:
    return CustomerOrder(
        row.email,
        row.name,
        row.order_id,
        row.created_at,
        row.status,
        row.amount_minor,
        row.currency,
        row.last_paid_at,
    )


def _add_totals(
    totals: Sequence[CustomerTotal], others: Sequence[CustomerTotal]
) -> list[CustomerTotal]:
    """Add up the totals of the same customer from different orders, by currency."""
    sums = {total.currency: total for total in totals}
    for other in others:
        total = sums.get(other.currency)
        sums[other.currency] = (
            other
            if total is None
            else CustomerTotal(
                total.term,
                total.currency,
                total.payments + other.payments,
                total.paid_minor + other.paid_minor,
                total.refunded_minor + other.refunded_minor,
                total.settled_minor + other.settled_minor,
                min(total.first_paid_at, other.first_paid_at),
                max(total.last_paid_at, other.last_paid_at),
            )
        )
    return [sums[currency] for currency in sorted(sums)]


async def find_customers(db: Db, merchant_id: str, text: str) -> list[CustomerOrder]:
    """Return the customers with a part of their name or email that begins with a text.

    Each has their newest order. They are sorted by their last payment. Raises Invalid if too many
    match.
    """

    async def read(tx: Tx) -> list[CustomerOrder]:
        pending = PendingOrders(tx, merchant_id)
        condition = await search.condition_of_customers(tx, merchant_id, text, pending)
        outdated_ids, matches = await _not_indexed(pending, condition)
        places = await search.places_of(tx, merchant_id, condition)
        rows = await queries.NEWEST_OF.all(
            tx,
            merchant_id=merchant_id,
            apart=outdated_ids,
            term=[place.term for place in places],
            place=[place.place for place in places],
        )
        return [*rows, *(_order_of(candidate) for candidate in matches)]

    customers = _newest_of_each(await db.read_snapshot(read))
    return sort_customers(await add_last_payments(db, merchant_id, customers))


async def add_last_payments(
    db: Db, merchant_id: str, customers: Sequence[CustomerOrder]
) -> list[CustomerOrder]:
    """Set ``last_paid_at`` of customers to that of all their orders, as on their own page."""
    last_paid_at: dict[str, int] = {}
    for start in range(0, len(customers), _BATCH):
        emails = [customer.email for customer in customers[start : start + _BATCH]]
        totals = await totals_of_customers(db, merchant_id, emails)
        for email, rows in totals.items():
            last_paid_at[email] = max(row.last_paid_at for row in rows)
    return [
        msgspec.structs.replace(customer, last_paid_at=last_paid_at.get(customer.email))
        for customer in customers
    ]


def sort_customers(customers: Iterable[CustomerOrder]) -> list[CustomerOrder]:
    """Return customers with the last payment first, then those without one by newest order."""
    return sorted(
        customers,
        key=lambda row: (row.last_paid_at or 0, row.created_at, row.order_id),
        reverse=True,
    )


async def find_customers_of_orders(
    tx: Tx, places: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], OrderCustomer]:
    """Return the customers of orders by the ids of merchant and order, which ``places`` has.

    Orders without a name and an email address are left out.
    """
    pairs = sorted(set(places))
    if not pairs:
        return {}
    customers = await queries.OF_ORDERS.all(
        tx,
        merchant_id=[merchant_id for merchant_id, _ in pairs],
        order_id=[order_id for _, order_id in pairs],
    )
    return {(row.merchant_id, row.order_id): row for row in customers if row.name or row.email}


async def sums_of_customer(
    db: Db, merchant_id: str, email: str, most: int = MAX_SUMMED
) -> tuple[list[CustomerSums], list[CustomerMethod]]:
    """Return sums over the newest ``most`` orders of an email address, by currency.

    And the methods with which these were paid, at most ten, the last used one first.
    """

    async def read(tx: Tx) -> tuple[list[CustomerSums], list[CustomerMethod]]:
        places = await _places_of_customer(tx, merchant_id, email)
        sums = await queries.SUMS.all(tx, **places, limit=most)
        if not any(row.payments for row in sums):
            return sums, []
        methods = await queries.METHODS.all(tx, **places, limit=most, methods=_MOST_METHODS)
        return sums, methods

    return await db.read_snapshot(read)


async def newest_of_customer(db: Db, merchant_id: str, email: str, most: int) -> list[Order]:
    """Return the newest ``most`` orders of an email address, newest first."""

    async def read(tx: Tx) -> list[Order]:
        places = await _places_of_customer(tx, merchant_id, email)
        return await queries.NEWEST_ORDERS.all(tx, **places, limit=most)

    return await db.read_snapshot(read)


async def _places_of_customer(tx: Tx, merchant_id: str, email: str) -> dict[str, Any]:
    """Return where the orders of an email address are found, for the queries."""
    condition = Condition(terms.term_of(email), terms.EMAIL)
    pending = PendingOrders(tx, merchant_id)
    outdated_ids, matches = await _not_indexed(pending, condition)
    places = await search.places_of(tx, merchant_id, condition)
    return {
        "merchant_id": merchant_id,
        "apart": outdated_ids,
        "id": [candidate.id for candidate in matches],
        "created_at": [candidate.created_at for candidate in matches],
        "term": [place.term for place in places],
        "place": [place.place for place in places],
    }


async def totals_of_customers(
    db: Db, merchant_id: str, emails: Sequence[str]
) -> Mapping[str, list[CustomerTotal]]:
    """Return what customers have paid, by email address and then by currency.

    Customers who have paid nothing are left out.
    """
    addresses = {terms.term_of(email): email for email in emails}
    totals = await _read_totals(db, merchant_id, dict.fromkeys(addresses, _MOST_TOTALLED))
    return {addresses[term]: rows for term, rows in totals.items()}


async def totals_of_recent(
    db: Db, merchant_id: str, recent: RecentCustomers, emails: Sequence[str]
) -> Mapping[str, list[CustomerTotal]]:
    """Return what some of the recent customers have paid, as ``totals_of_customers`` does.

    Only orders that are older than all orders of ``recent`` are read.
    """
    addresses = {terms.term_of(email): email for email in emails}
    totals = {term: recent.totals[term] for term in addresses if term in recent.totals}
    if recent.oldest is not None:
        most = {term: _MOST_TOTALLED - recent.orders.get(term, 0) for term in addresses}
        unread = {term: number for term, number in most.items() if number > 0}
        for term, rows in (await _read_totals(db, merchant_id, unread, recent.oldest)).items():
            totals[term] = _add_totals(totals.get(term, []), rows)
    return {addresses[term]: rows for term, rows in totals.items()}


async def _read_totals(
    db: Db, merchant_id: str, most: Mapping[str, int], before: tuple[int, str] = (FOREVER, "")
) -> dict[str, list[CustomerTotal]]:
    """Return the totals of customers by their term, over at most ``most`` orders of each.

    ``before``: only orders that are older than the one with this time and id.
    """
    if not most:
        return {}
    nobody = Condition("", terms.EMAIL)
    others = tuple(Condition(term, terms.EMAIL) for term in most)
    condition = msgspec.structs.replace(nobody, others=others)

    async def read(tx: Tx) -> list[CustomerTotal]:
        pending = PendingOrders(tx, merchant_id)
        outdated_ids, matches = await _not_indexed(pending, condition)
        older = [each for each in matches if (each.created_at, each.id) < before]
        places = await search.places_of(tx, merchant_id, condition)
        return await queries.TOTALS.all(
            tx,
            merchant_id=merchant_id,
            apart=outdated_ids,
            email=[terms.term_of(candidate.customer_email) for candidate in older],
            id=[candidate.id for candidate in older],
            term=[place.term for place in places],
            place=[place.place for place in places],
            most=[most[place.term] for place in places],
            before_at=before[0],
            before_id=before[1],
        )

    totals: dict[str, list[CustomerTotal]] = {}
    for row in await db.read_snapshot(read):
        totals.setdefault(row.term, []).append(row)
    return totals


async def _not_indexed(
    pending: PendingOrders, condition: Condition
) -> tuple[list[str], list[Candidate]]:
    """Return ids of the pending orders with outdated index rows, and the pending orders that match.

    Orders match if they have an email address and fulfill the condition as they are now.
    """
    outdated_ids: list[str] = []
    matches: list[Candidate] = []
    async for candidate in pending.each():
        if not candidate.is_new:
            outdated_ids.append(candidate.id)
        if candidate.customer_email and condition.holds(candidate.id, candidate.terms):
            matches.append(candidate)
    return outdated_ids, matches


def _order_of(order: Candidate) -> CustomerOrder:
    return CustomerOrder(
        order.customer_email,
        order.customer_name,
        order.id,
        order.created_at,
        order.status,
        order.amount_minor,
        order.currency,
    )


def _newest_of_each(rows: Iterable[CustomerOrder]) -> list[CustomerOrder]:
    """Return the newest order of each email address, with the last payment of all its orders."""
    ordered = sorted(rows, key=lambda row: (row.created_at, row.order_id), reverse=True)
    newest: dict[str, CustomerOrder] = {}
    last_paid_at: dict[str, int] = {}
    for row in ordered:
        term = terms.term_of(row.email)
        newest.setdefault(term, row)
        if row.last_paid_at is not None:
            last_paid_at[term] = max(row.last_paid_at, last_paid_at.get(term, 0))
    return [
        msgspec.structs.replace(row, last_paid_at=last_paid_at.get(term))
        for term, row in newest.items()
    ]
