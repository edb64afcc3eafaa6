"""The status of an order in the API, and the status of a payment that pages show."""

from collections.abc import Mapping
from typing import Final, Literal, get_args

Status = Literal[
    "CREATING",
    "PENDING",
    "PAID",
    "SETTLED",
    "REFUNDED",
    "DISPUTED",
    "CHARGEBACK",
    "FAILED",
    "CLOSED",
    "REVOKED",
]
# Orders by what their refunds did; pages show this instead of PAID and SETTLED.
RefundProgress = Literal["PARTIALLY_REFUNDED", "REFUND_PENDING", "REFUND_FAILED"]
# Why a CLOSED order was not paid: its session or, by the customer, its last payment attempt was
# canceled, or its last payment attempt was declined.
ClosedAs = Literal["CANCELED", "DECLINED"]
# The status that pages show. Each order has exactly one (``shown_status``).
ShownStatus = Literal[
    "PAID",
    "PARTIALLY_REFUNDED",
    "REFUNDED",
    "REFUND_PENDING",
    "REFUND_FAILED",
    "DISPUTED",
    "CHARGEBACK",
    "FAILED",
    "ATTEMPT_FAILED",
    "CREATING",
    "PENDING",
    "REVOKED",
    "CLOSED",
]
# Paid, and neither refunded in full nor disputed: such orders can be delivered and refunded.
PAID_STATUSES: Final[tuple[Status, ...]] = ("PAID", "SETTLED")
SHOWN_STATUSES: Final[tuple[ShownStatus, ...]] = get_args(ShownStatus)
# The status that pages show, as CSV files name it.
EXPORTED_STATUS: Final[Mapping[ShownStatus, str]] = {
    "PAID": "PAID",
    "PARTIALLY_REFUNDED": "PARTIALLY_REFUNDED",
    "REFUNDED": "REFUNDED",
    "REFUND_PENDING": "REFUND_PENDING",
    "REFUND_FAILED": "REFUND_FAILED",
    "DISPUTED": "DISPUTED",
    "CHARGEBACK": "CHARGED_BACK",
    "FAILED": "DECLINED",
    "ATTEMPT_FAILED": "ATTEMPT_FAILED",
    "CREATING": "WAITING_FOR_BANK",
    "PENDING": "NOT_PAID_YET",
    "REVOKED": "CANCELED",
    "CLOSED": "EXPIRED",
}


def refund_progress(
    amount_minor: int, refunded_minor: int, held_minor: int, *, has_failed: bool
) -> RefundProgress | None:
    """Return what matters most about an order's refunds; None: it has none, or all are complete."""
    if has_failed:
        return "REFUND_FAILED"
    if held_minor > refunded_minor:
        return "REFUND_PENDING"
    return "PARTIALLY_REFUNDED" if 0 < refunded_minor < amount_minor else None


_SHOWN_INSTEAD: Final[dict[ClosedAs, ShownStatus]] = {"CANCELED": "REVOKED", "DECLINED": "FAILED"}


def shown_status(
    status: Status,
    progress: RefundProgress | None,
    closed_as: ClosedAs | None,
    *,
    attempt_failed: bool,
) -> ShownStatus:
    """Return the status that pages show; ``search/shown_queries.py`` has the same rule in SQL.

    Whether the money is available (SETTLED) is not shown. A failed refund needs attention whatever
    the status is; other progress of refunds is shown instead of PAID. If the last attempt failed,
    ATTEMPT_FAILED is shown instead of PENDING.
    """
    if progress == "REFUND_FAILED" or (progress is not None and status in PAID_STATUSES):
        return progress
    if status == "SETTLED":
        return "PAID"
    if status == "PENDING" and attempt_failed:
        return "ATTEMPT_FAILED"
    return _SHOWN_INSTEAD[closed_as] if closed_as is not None else status
