"""Reasons for declined payments that pages have texts for, by providers' decline codes."""

from collections.abc import Mapping
from typing import Final

# Decline code of a provider → the reason that pages show. Other codes are shown as "declined".
DECLINES: Final[Mapping[str, str]] = {
    "insufficient_funds": "insufficient_funds",
    "expired_card": "expired_card",
    "card_expired": "expired_card",
    "incorrect_cvc": "incorrect_cvc",
    "invalid_cvc": "incorrect_cvc",
    "processing_error": "processing_error",
    "authentication_failed": "authentication_failed",
    "authentication_required": "authentication_failed",
    "three_d_secure_failed": "authentication_failed",
    "canceled": "canceled",
    "cancelled": "canceled",
    "incorrect_number": "invalid_card",
    "invalid_number": "invalid_card",
    "invalid_card": "invalid_card",
    "card_velocity_exceeded": "limit_exceeded",
    "limit_exceeded": "limit_exceeded",
    "customer_declined": "canceled",
    "transfer_rejected": "canceled",
    "unreachable": "unavailable",
    "not_sent": "unavailable",
}


def reason_of(reported: str) -> str:
    """Return the reason for a decline, which selects a text of the page.

    ``reported`` is the gateway's report: a code, or ``code: text``.
    """
    return DECLINES.get(reported.partition(":")[0], "declined")
