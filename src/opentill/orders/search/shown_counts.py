"""Exact numbers of orders by the status that pages show, without reading all orders.

They are the counts by status, corrected by those of the orders for which the status that pages show
does not follow from their status alone; both are list counts (decision 0028).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, cast

from opentill import list_counts
from opentill.db.database import Tx
from opentill.gateways.model import Method
from opentill.orders.model import STATUSES
from opentill.orders.search import shown_queries as queries
from opentill.orders.search.model import ShownCount
from opentill.orders.statuses import ShownStatus, Status, shown_status


async def count(
    tx: Tx, merchant_id: str, product_id: str | None, within: tuple[int, int]
) -> Counter[ShownStatus]:
    """Return the numbers in a range of time, whose ends are inclusive Unix ms.

    They are exact if ``tx`` is a snapshot.
    """
    values = {"merchant_id": merchant_id, "product_id": product_id}

    async def read_statuses(since: int, until: int) -> dict[str, int]:
        rows = await queries.STATUSES.all(tx, **values, since=since, until=until)
        return {row.status: row.rows for row in rows}

    async def read_exceptions(since: int, until: int) -> dict[str, int]:
        rows = await queries.EXCEPTIONS.all(tx, **values, since=since, until=until)
        return {f"{row.status} {row.shown}": row.rows for row in rows}

    orders = list_counts.ListKey(merchant_id, "orders", product_id or "")
    exceptions = list_counts.ListKey(merchant_id, "shown", product_id or "")
    by_status = await list_counts.count_kinds_within(tx, orders, within, read_statuses)
    by_kind = await list_counts.count_kinds_within(tx, exceptions, within, read_exceptions)
    rows = [
        ShownCount(cast("Status", status), cast("ShownStatus", shown), number)
        for kind, number in by_kind.items()
        for status, shown in [kind.split(" ")]
    ]
    return _combine(by_status, rows)


async def count_of_method(
    tx: Tx, merchant_id: str, product_id: str | None, method: Method, within: tuple[int, int]
) -> Counter[ShownStatus]:
    """Return the numbers of orders that were paid by a method, by reading indexes."""
    since, until = within
    values: dict[str, Any] = {
        "merchant_id": merchant_id, "method": method, "since": since, "until": until,
    }  # fmt: skip
    if product_id is None:
        rows = await queries.STATUSES_OF_METHOD.all(tx, **values, status=list(STATUSES))
    else:
        rows = await queries.STATUSES_OF_METHOD_AND_PRODUCT.all(tx, **values, product_id=product_id)
    exceptions = await queries.EXCEPTIONS_OF_METHOD.all(tx, **values, product_id=product_id)
    return _combine({row.status: row.rows for row in rows}, exceptions)


def _combine(
    by_status: Mapping[str, int], exceptions: Iterable[ShownCount]
) -> Counter[ShownStatus]:
    counts = Counter[ShownStatus]()
    for status, rows in by_status.items():
        counts[_shown_of(cast("Status", status))] += rows
    for row in exceptions:
        counts[_shown_of(row.status)] -= row.rows
        counts[row.shown] += row.rows
    return counts


def add_up(rows: Iterable[ShownCount]) -> Counter[ShownStatus]:
    """Return the sums by the status that pages show."""
    counts = Counter[ShownStatus]()
    for row in rows:
        counts[row.shown] += row.rows
    return counts


def _shown_of(status: Status) -> ShownStatus:
    return shown_status(status, None, None, attempt_failed=False)
