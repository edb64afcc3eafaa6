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
# Statuses of attempts that ended without a payment.
STATUSES: Final = frozenset({"DECLINED", "REFUSED", "VOIDED"})
# Decline code → the reason that merchants see, where customers see another one. Customers do not
# see that a card is lost or stolen, or that the bank suspects fraud.
_FOR_MERCHANTS: Final[Mapping[str, str]] = {
    "lost_card": "lost_card",
    "stolen_card": "stolen_card",
    "pickup_card": "restricted_card",
    "pick_up_card": "restricted_card",
    "restricted_card": "restricted_card",
    "fraudulent": "suspected_fraud",
    "suspected_fraud": "suspected_fraud",
    "card_not_supported": "not_supported",
    "currency_not_supported": "not_supported",
    "transaction_not_allowed": "not_supported",
    "service_not_allowed": "not_supported",
    "duplicate_transaction": "duplicate",
    "invalid_account": "invalid_card",
    "incorrect_expiry": "incorrect_expiry",
    "invalid_expiry_month": "incorrect_expiry",
    "invalid_expiry_year": "incorrect_expiry",
    "issuer_not_available": "unavailable",
    "try_again_later": "processing_error",
    "reenter_transaction": "processing_error",
    "approve_with_id": "processing_error",
    "withdrawal_count_limit_exceeded": "limit_exceeded",
}
MERCHANT_REASONS: Final = frozenset({"declined", *DECLINES.values(), *_FOR_MERCHANTS.values()})
# Reasons for which no bank has declined the payment.
_NOT_DECLINED: Final = frozenset(
    {"processing_error", "unavailable", "canceled", "authentication_failed"}
)


def reason_of(reported: str) -> str:
    """Return the reason for a decline, which selects a text of the page.

    ``reported`` is the gateway's report: a code, or ``code: text``.
    """
    return DECLINES.get(reported.partition(":")[0], "declined")


def merchant_reason_of(reported: str) -> str:
    """Return the reason for a decline, which selects texts of the merchant's pages."""
    code = reported.partition(":")[0]
    return _FOR_MERCHANTS.get(code) or reason_of(reported)


def is_decline(reported: str) -> bool:
    """Whether a bank declined the payment, and it did not merely fail."""
    return merchant_reason_of(reported) not in _NOT_DECLINED


def is_cancellation(reported: str) -> bool:
    """Whether the customer canceled it; ``is_customer_cancellation`` is the same in SQL."""
    return merchant_reason_of(reported) == "canceled"
