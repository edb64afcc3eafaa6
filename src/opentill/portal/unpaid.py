"""Why a payment is not paid, and until when it can be paid."""

import re
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from opentill import checkouts
from opentill.checkouts import Session
from opentill.orders import HistoryRow, Order, PaymentAttempt
from opentill.portal.labels import (
    DECLINE_ADVICE,
    DECLINE_NAME,
    DECLINE_REASON,
    UNPAID,
    UNPAID_TITLE,
)
from opentill.web import declines

# OPEN: nobody has tried to pay. RETRY: the last attempt has failed, and the customer may try again.
# WAITING: the bank has not responded. The other kinds can no longer be paid.
Kind = Literal[
    "OPEN", "RETRY", "WAITING", "DECLINED", "CANCELED", "CANCELED_BY_CUSTOMER", "EXPIRED"
]
# The cause of the end of a session on the merchant's pages; the actor's email and id follow it.
ENDED_BY_MERCHANT: Final = "expired by the merchant"
_MEMBER: Final = re.compile(rf"(?:{ENDED_BY_MERCHANT}|ended by \S+): (\S+) \(")
_ENDS: Final = frozenset({"expired", "refused", "voided"})


class Unpaid(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a payment that is not paid.

    ``at`` is its end, or the time until which it can be paid (Unix ms). ``by`` is the email address
    of the member who canceled it. ``reported`` is the gateway's report of the last attempt if that
    failed; "" for none.
    """

    kind: Kind
    at: int
    by: str = ""
    reported: str | None = None

    @property
    def title(self) -> str:
        """The message id of its heading."""
        if self.kind == "CANCELED_BY_CUSTOMER":
            return DECLINE_NAME["canceled"]
        has_failed = self.reported is not None and not declines.is_decline(self.reported)
        return UNPAID_TITLE.get(
            f"{self.kind}_FAILED" if has_failed else "", UNPAID_TITLE[self.kind]
        )

    @property
    def reason(self) -> str:
        """The message id of the reason for the last decline; "" for none."""
        return "" if self.reported is None else DECLINE_REASON[self._decline]

    @property
    def until(self) -> str:
        """The message id of the sentence that says when the payment ended or can be paid.

        The sentence has a place ``{time}``. "" if the payment is open.
        """
        return UNPAID.get("EXPIRED" if self.kind == "CANCELED_BY_CUSTOMER" else self.kind, "")

    @property
    def advice(self) -> str:
        """The message id of what to do about the last decline; "" for nothing."""
        return "" if self.reported is None else DECLINE_ADVICE[self._decline]

    @property
    def _decline(self) -> str:
        return declines.merchant_reason_of(self.reported or "")

    @property
    def is_open(self) -> bool:
        """Whether the customer can pay now."""
        return self.kind in ("OPEN", "RETRY")


def read(
    order: Order,
    session: Session,
    history: Sequence[HistoryRow],
    attempts: Sequence[PaymentAttempt],
) -> Unpaid | None:
    """Return the state of an order with its history and attempts; None if it was paid."""
    if order.paid_at is not None:
        return None
    end = next((row for row in reversed(history) if row.event in _ENDS), None)
    last = attempts[-1] if attempts else None
    failed = last if last is not None and last.status in declines.STATUSES else None
    member = _MEMBER.match(end.cause) if end is not None else None
    return Unpaid(
        kind=_kind(order, failed, end),
        at=session.expires_at if end is None else end.at,
        by=member[1] if member else "",
        reported=None if failed is None else failed.reason,
    )


def _kind(order: Order, failed: PaymentAttempt | None, end: HistoryRow | None) -> Kind:
    if order.status == "CREATING":
        return "WAITING"
    if order.status == "PENDING":
        return "RETRY" if failed is not None else "OPEN"
    if order.shown_status == "FAILED":
        return "DECLINED"
    if order.shown_status != "REVOKED":
        return "EXPIRED"
    is_over = end is not None and end.event == "expired" and end.cause in checkouts.TIME_IS_OVER
    is_left = failed is not None and declines.is_cancellation(failed.reason)
    return "CANCELED_BY_CUSTOMER" if is_over and is_left else "CANCELED"
