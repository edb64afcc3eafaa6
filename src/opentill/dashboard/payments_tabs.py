"""The tabs of the list of payments: each is a part of the list, by the status that pages show."""

from collections.abc import Mapping
from typing import Final

import msgspec

from opentill.dashboard.labels import PAYMENT_TAB
from opentill.orders import SHOWN_STATUSES, ShownStatus
from opentill.portal.labels import SHOWN_STATUS


class Tab(msgspec.Struct, frozen=True):
    """A part of the list: all payments with one of its statuses; () for all payments."""

    name: str
    statuses: tuple[ShownStatus, ...] = ()

    @property
    def choices(self) -> tuple[ShownStatus, ...]:
        """The statuses by which the part can be filtered, () if it has only one.

        "Not paid yet" includes payments that wait for the bank (``chosen``).
        """
        statuses = self.statuses or SHOWN_STATUSES
        choices: tuple[ShownStatus, ...] = tuple(one for one in statuses if one != "CREATING")
        return choices if len(choices) > 1 else ()


# Each status is in one tab, so that the numbers of the tabs add up to the number of all payments.
TABS: Final = (
    Tab(""),
    Tab("succeeded", ("PAID",)),
    Tab("refunded", ("REFUNDED", "PARTIALLY_REFUNDED", "REFUND_PENDING", "REFUND_FAILED")),
    Tab("disputed", ("DISPUTED", "CHARGEBACK")),
    Tab("failed", ("FAILED",)),
    Tab("incomplete", ("PENDING", "ATTEMPT_FAILED", "CREATING")),
    Tab("closed", ("CLOSED",)),
    Tab("canceled", ("REVOKED",)),
)


def chosen(status: ShownStatus) -> tuple[ShownStatus, ...]:
    """Return the statuses that a choice of the filter selects.

    Whether the bank has an attempt is not a status of the order, except for the moment of the
    request to the gateway, so that both kinds of waiting payments are found by "Not paid yet".
    """
    return ("PENDING", "CREATING") if status in ("PENDING", "CREATING") else (status,)


def query_of(status: ShownStatus) -> dict[str, str]:
    """Return the query of the list of a status, or of the tab that has the status's name."""
    for tab in TABS:
        is_named_so = tab.name and PAYMENT_TAB[tab.name] == SHOWN_STATUS[status]
        if is_named_so and len(tab.statuses) > 1:
            return {"tab": tab.name}
    return {"status": status}


def count(counts: Mapping[ShownStatus, int] | None) -> list[tuple[Tab, int | None]]:
    """Return the tabs with the numbers of their payments, given those of each status.

    A number is None if there are no ``counts``.
    """
    if counts is None:
        return [(tab, None) for tab in TABS]
    return [(tab, sum(counts.get(one, 0) for one in tab.statuses or counts)) for tab in TABS]
