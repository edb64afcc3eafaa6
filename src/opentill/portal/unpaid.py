"""Why a payment is not paid, and until when it can be paid."""

import re
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from opentill import checkouts
from opentill.checkouts import Session
from opentill.orders import HistoryRow, Order, PaymentAttempt, ShownStatus
from opentill.portal.labels import (
    DECLINE_ADVICE,
    DECLINE_NAME,
    DECLINE_REASON,
)
from opentill.web import declines
from opentill.web.translations import N_

# OPEN: nobody has tried to pay. RETRY: the last attempt has failed, and the customer may try again.
# WAITING: the bank has not confirmed the last attempt. The other kinds can no longer be paid.
Kind = Literal[
    "OPEN", "RETRY", "WAITING", "DECLINED", "CANCELED", "CANCELED_BY_CUSTOMER", "EXPIRED"
]
_TITLE: Final = {
    "RETRY": N_("The last attempt was declined"),
    "RETRY_FAILED": N_("The last attempt failed"),
    "DECLINED_FAILED": N_("The last attempt failed"),
    "WAITING": N_("Waiting for the bank"),
    "DECLINED": N_("The payment was declined"),
    "CANCELED": N_("Canceled"),
    "EXPIRED": N_("Expired without a payment"),
}
_UNTIL: Final = {
    "RETRY": N_("The customer can try again until {time}."),
    "WAITING": N_(
        "The customer tried to pay on {time}, and the bank has not confirmed it yet. Wait before "
        "you ask for another payment: this page shows when the bank has decided."
    ),
    "DECLINED": N_("The payment page closed on {time}. Nobody can pay it any more."),
    "CANCELED": N_("It was canceled on {time}. Nobody can pay it any more."),
    "CANCELED_BY_CUSTOMER": N_(
        "The customer canceled it on {time} and did not pay later. Nobody can pay it any more."
    ),
    "EXPIRED": N_("It expired on {time}. Nobody can pay it any more."),
}
# The cause of the end of a session on the merchant's pages; the actor's email and id follow it.
ENDED_BY_MERCHANT: Final = "expired by the merchant"
_MEMBER: Final = re.compile(rf"(?:{ENDED_BY_MERCHANT}|ended by \S+): (\S+) \(")
_ENDS: Final = frozenset({"expired", "refused", "voided"})


class Unpaid(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a payment that is not paid.

    ``at`` is its end, or the time until which it can be paid (Unix ms). ``tried_at`` is when the
    last attempt began or, if the customer canceled it, when they did. ``by`` is the email address
    of the member who canceled the payment. ``reported`` is the gateway's report of the last attempt
    if that failed; "" for none.
    """

    kind: Kind
    at: int
    tried_at: int | None = None
    by: str = ""
    reported: str | None = None

    @property
    def title(self) -> str:
        """The message id of its heading."""
        if self.kind == "CANCELED_BY_CUSTOMER":
            return DECLINE_NAME["canceled"]
        has_failed = self.reported is not None and not declines.is_decline(self.reported)
        return _TITLE.get(f"{self.kind}_FAILED" if has_failed else "", _TITLE[self.kind])

    @property
    def reason(self) -> str:
        """The message id of the reason for the last decline; "" for none."""
        return "" if self.reported is None else DECLINE_REASON[self._decline]

    @property
    def until(self) -> str:
        """The message id of the sentence that says when the payment ended or can be paid.

        The sentence has a place ``{time}``. "" if the payment is open.
        """
        return _UNTIL.get(self.kind, "")

    @property
    def until_at(self) -> int:
        """The time in the sentence ``until``."""
        is_about_attempt = self.kind in ("WAITING", "CANCELED_BY_CUSTOMER")
        return self.tried_at if is_about_attempt and self.tried_at is not None else self.at

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


def is_waiting(order: Order, last: PaymentAttempt | None) -> bool:
    """Return whether the bank has the last attempt of an unpaid order and has not decided."""
    if order.status == "CREATING":
        return True
    return order.status == "PENDING" and last is not None and last.status == "PENDING"


def shown_status(order: Order, last: PaymentAttempt | None) -> ShownStatus:
    """Return the status that pages show for an order with its last attempt, if that is known."""
    return "CREATING" if is_waiting(order, last) else order.shown_status


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
        kind=_kind(order, last, failed, end),
        at=session.expires_at if end is None else end.at,
        tried_at=None if last is None else _tried_at(last, history),
        by=member[1] if member else "",
        reported=None if failed is None else failed.reason,
    )


def _tried_at(last: PaymentAttempt, history: Sequence[HistoryRow]) -> int:
    if last.status not in declines.STATUSES or not declines.is_cancellation(last.reason):
        return last.created_at
    declined = [
        row.at for row in history if row.event == "declined" and row.cause.startswith(last.id)
    ]
    return declined[-1] if declined else last.updated_at


def _kind(
    order: Order,
    last: PaymentAttempt | None,
    failed: PaymentAttempt | None,
    end: HistoryRow | None,
) -> Kind:
    if is_waiting(order, last):
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
