"""Texts that the bank's pages choose by a value: statuses, kinds, fields in error."""

from typing import Final

from opentill.sandbox.language import N_

DECLINE_REASON: Final = {
    "card_declined": N_("The card was declined."),
    "insufficient_funds": N_("The card has insufficient funds."),
    "expired_card": N_("The card has expired."),
    "incorrect_cvc": N_("The card’s security code is incorrect."),
    "processing_error": N_("The card could not be processed."),
    "lost_card": N_("The card was reported lost and cannot be used."),
    "authentication_failed": N_("The 3-D Secure check was not passed."),
    "customer_declined": N_("The payment was declined on the phone."),
    "transfer_rejected": N_("The transfer was rejected."),
}
PAYMENT_METHOD: Final = {
    "CREDIT_CARD": N_("Card"),
    "ALIPAY": N_("Alipay"),
    "WECHAT_PAY": N_("WeChat Pay"),
    "PAYNOW": N_("PayNow"),
    "CRYPTO": N_("Cryptocurrency"),
    "BANK_TRANSFER": N_("Bank transfer"),
}
REFUND_STATUS: Final = {
    "pending": N_("pending"),
    "succeeded": N_("succeeded"),
    "failed": N_("failed"),
}
STATUS_TEXT: Final = {
    "succeeded": N_("Thank you. The shop is being notified."),
    "declined": N_("Nothing was charged. You can try again in the shop."),
    "refused": N_("Nothing was charged."),
    "voided": N_("The shop took this payment back. Nothing was charged."),
    "processing": N_(
        "The card’s bank has not responded so far. The shop will be notified as soon as it does."
    ),
}
STATUS_TITLE: Final = {
    "succeeded": N_("Payment approved"),
    "declined": N_("Payment declined"),
    "refused": N_("Payment refused"),
    "voided": N_("Payment cancelled"),
    "processing": N_("No response yet"),
}
