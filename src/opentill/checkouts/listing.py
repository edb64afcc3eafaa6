"""Lists of sessions, read through the indexes and counts of their orders (decision 0061)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentill import orders
from opentill.checkouts import queries
from opentill.checkouts.model import Sales, Session
from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.list_counts import FOREVER, Paginator
from opentill.orders.model import PAYABLE, SessionStatus
from opentill.orders.statuses import PAID_STATUSES

# The statuses that a session's order may have, by the session's status. One exception: if an order
# was paid late, its session remains EXPIRED although the order has a status of COMPLETE.
ORDER_STATUSES: Final[Mapping[SessionStatus, tuple[orders.Status, ...]]] = {
    "OPEN": PAYABLE,
    "COMPLETE": (*PAID_STATUSES, "REFUNDED", "DISPUTED", "CHARGEBACK"),
    "EXPIRED": ("CLOSED", "FAILED", "REVOKED"),
}
# The number of sessions with a status is the number of orders with its ORDER_STATUSES, plus this
# factor times the number of orders that were paid late.
_LATE_FACTORS: Final[Mapping[SessionStatus, int]] = {
    "OPEN": 0,
    "COMPLETE": -1,
    "EXPIRED": 1,
}
Range = tuple[int, int]  # the first and the last time, both inclusive, Unix ms


class _Sessions(Paginator[Session]):
    """The sessions of a merchant, optionally of one status and one product."""

    def __init__(
        self, db: Db, merchant_id: str, status: SessionStatus | None, product_id: str | None
    ) -> None:
        filters: dict[str, Any] = {}
        if status is not None:
            filters |= {"status": list(ORDER_STATUSES[status]), "late": status == "EXPIRED"}
        if product_id is not None:
            filters["product_id"] = product_id
        super().__init__(db, queries.PAGES, merchant_id, filters)
        self._merchant_id = merchant_id
        self._status: SessionStatus | None = status
        self._product_id = product_id

    async def total(self, tx: Tx, within: Range = (0, FOREVER)) -> int:
        """Return the number of sessions in a range of time, from the counts of their orders."""
        merchant_id, product_id = self._merchant_id, self._product_id
        if self._status is None:
            return await orders.count(tx, merchant_id, None, product_id, within)
        total = 0
        for status in ORDER_STATUSES[self._status]:
            total += await orders.count(tx, merchant_id, status, product_id, within)
        late_factor = _LATE_FACTORS[self._status]
        if late_factor:
            total += late_factor * await orders.count_late_payments(
                tx, merchant_id, product_id, within
            )
        return total


async def find_sales(tx: Tx, merchant_id: str, product_ids: Sequence[str]) -> dict[str, Sales]:
    """Return the exact sales of products, from the counts of their orders."""
    counts = await orders.count_of_products(tx, merchant_id, product_ids)
    return {
        product_id: Sales(
            paid_orders=sum(by_status[status] for status in ORDER_STATUSES["COMPLETE"]),
            open_sessions=sum(by_status[status] for status in ORDER_STATUSES["OPEN"]),
        )
        for product_id, by_status in counts.items()
    }


async def find_many(db: Db, merchant_id: str, ids: Sequence[str]) -> list[Session]:
    """Return sessions in the order of their ids, each of which must exist."""
    sessions = await db.read(
        lambda tx: queries.OF_IDS.all(tx, merchant_id=merchant_id, ids=list(ids))
    )
    by_id = {session.id: session for session in sessions}
    return [by_id[session_id] for session_id in ids]


async def page(db: Db, merchant_id: str, query: queries.ListQuery) -> tuple[list[Session], int]:
    """Return a page of sessions, newest first, and their total number. Raises Invalid."""
    start = 0 if query.start_date is None else query.start_date
    end = FOREVER if query.end_date is None else query.end_date
    if start > end:
        raise Invalid("endDate", "endDate must not be before startDate")
    product_id = query.product_id
    if product_id is not None and not await orders.has_product(db, merchant_id, product_id):
        return [], 0
    if query.customer_email is None:
        rows = _Sessions(db, merchant_id, query.status, product_id)
        return await rows.page(query.page, query.size, (start, end))
    page_orders, total = await orders.list_customer_page(
        db,
        merchant_id,
        query.customer_email,
        query.page,
        query.size,
        since=start,
        until=end,
        product_id=product_id,
        session_status=query.status,
    )
    ids = [order.checkout_id for order in page_orders]
    sessions = await db.read(lambda tx: queries.OF_IDS.all(tx, merchant_id=merchant_id, ids=ids))
    by_id = {session.id: session for session in sessions}
    return [by_id[session_id] for session_id in ids if session_id in by_id], total
