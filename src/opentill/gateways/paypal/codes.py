"""The issues with which PayPal refuses requests, by their consequence.

Source: PayPal's OpenAPI documents (github.com/paypal/paypal-rest-api-specifications:
``checkout_orders_v2``, ``payments_payment_v2``), responses 422.
"""

from typing import Final

# The issues after which nothing was captured and the customer may pay in another way.
CAPTURE_REFUSALS: Final = frozenset(
    {
        "INSTRUMENT_DECLINED",
        "TRANSACTION_REFUSED",
        "TRANSACTION_BLOCKED_BY_PAYEE",
        "TRANSACTION_LIMIT_EXCEEDED",
        "TRANSACTION_RECEIVING_LIMIT_EXCEEDED",
        "MAX_NUMBER_OF_PAYMENT_ATTEMPTS_EXCEEDED",
        "PAYER_CANNOT_PAY",
        "PAYER_ACCOUNT_LOCKED_OR_CLOSED",
        "PAYER_ACCOUNT_RESTRICTED",
        "PAYEE_BLOCKED_TRANSACTION",
        "PAYEE_ACCOUNT_RESTRICTED",
        "REDIRECT_PAYER_FOR_ALTERNATE_FUNDING",
        "COMPLIANCE_VIOLATION",
        "DOMESTIC_TRANSACTION_REQUIRED",
        "DUPLICATE_INVOICE_ID",
        "DECLINED_DUE_TO_RELATED_TXN",
        "CARD_BRAND_NOT_SUPPORTED",
        "CURRENCY_NOT_SUPPORTED_FOR_BANK",
        "AGREEMENT_ALREADY_CANCELLED",
        "BILLING_AGREEMENT_NOT_FOUND",
    }
)
# The customer has not approved the order, or must approve it again.
NOT_APPROVED: Final = frozenset({"ORDER_NOT_APPROVED", "PAYER_ACTION_REQUIRED"})
# The order's state decides.
CAPTURED_BEFORE: Final = frozenset({"ORDER_ALREADY_CAPTURED", "ORDER_COMPLETION_IN_PROGRESS"})
REFUND_REFUSALS: Final = frozenset(
    {
        "CAPTURE_FULLY_REFUNDED",
        "CANNOT_BE_ZERO_OR_NEGATIVE",
        "CANNOT_BE_NEGATIVE",
        "CURRENCY_MISMATCH",
        "DECIMAL_PRECISION",
        "DECIMALS_NOT_SUPPORTED",
        "INVALID_CURRENCY_CODE",
        "MAX_NUMBER_OF_REFUNDS_EXCEEDED",
        "PARTIAL_REFUND_NOT_ALLOWED",
        "PAYEE_ACCOUNT_LOCKED_OR_CLOSED",
        "PAYEE_ACCOUNT_RESTRICTED",
        "PAYER_ACCOUNT_LOCKED_OR_CLOSED",
        "PENDING_CAPTURE",
        "REFUND_AMOUNT_EXCEEDED",
        "REFUND_AMOUNT_TOO_LOW",
        "REFUND_CAPTURE_CURRENCY_MISMATCH",
        "REFUND_FAILED_INSUFFICIENT_FUNDS",
        "REFUND_IS_RESTRICTED",
        "REFUND_NOT_ALLOWED",
        "REFUND_NOT_PERMITTED_DUE_TO_CHARGEBACK",
        "REFUND_TIME_LIMIT_EXCEEDED",
        "TRANSACTION_DISPUTED",
    }
)
