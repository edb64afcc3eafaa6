"""The tabs of the list of payments: each is a part of the list, by the status for people."""

from typing import Any, Final

import msgspec

from opentill import orders
from opentill.core.errors import Invalid
from opentill.dashboard.labels import PAYMENT_TAB
from opentill.orders import SHOWN_STATUSES, OrdersQuery, ShownStatus
from opentill.portal.labels import SHOWN_STATUS
from opentill.portal.request import PageRequest


class Tab(msgspec.Struct, frozen=True):
    """A part of the list: all payments with one of its statuses; () for all payments."""

    name: str
    statuses: tuple[ShownStatus, ...] = ()

    @property
    def choices(self) -> tuple[ShownStatus, ...]:
        """The statuses by which the part can be filtered, () if it has only one."""
        choices = self.statuses or SHOWN_STATUSES
        return choices if len(choices) > 1 else ()


# Each status is in one tab, so that the numbers of the tabs add up to the number of all payments.
TABS: Final = (
    Tab(""),
    Tab("succeeded", ("PAID",)),
    Tab("refunded", ("REFUNDED", "PARTIALLY_REFUNDED", "REFUND_PENDING", "REFUND_FAILED")),
    Tab("disputed", ("DISPUTED", "CHARGEBACK")),
    Tab("failed", ("FAILED", "ATTEMPT_FAILED")),
    Tab("incomplete", ("PENDING", "CREATING")),
    Tab("closed", ("CLOSED",)),
    Tab("canceled", ("REVOKED",)),
)


def query_of(status: ShownStatus) -> dict[str, str]:
    """Return the query of the list of a status, or of the tab that has the status's name."""
    for tab in TABS:
        is_named_so = tab.name and PAYMENT_TAB[tab.name] == SHOWN_STATUS[status]
        if is_named_so and len(tab.statuses) > 1:
            return {"tab": tab.name}
    return {"status": status}


async def count(
    request: PageRequest, filters: dict[str, Any], choice: orders.ListChoice
) -> list[tuple[Tab, int | None]]:
    """Return the tabs with the numbers of their payments that the filters select.

    A number is None if the filters select so many payments that they are not counted by status.
    ``filters`` are those of ``GET /v1/orders``.
    """
    query = msgspec.convert({**filters, "page": 1, "size": 1}, OrdersQuery)
    db, everything = request.app.replica.reading(), msgspec.structs.replace(choice, shown=())
    try:
        counts = await orders.count_shown(db, request.merchant_id, query, everything)
    except Invalid:  # by now more customers match the searched text than may
        counts = None
    if counts is None:
        return [(tab, None) for tab in TABS]
    return [(tab, sum(counts[one] for one in tab.statuses or counts)) for tab in TABS]
