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
    "authentication_failed": N_("3-D Secure authentication failed."),
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
    "declined": N_("You have not been charged. You can try again in the shop."),
    "refused": N_("You have not been charged."),
    "voided": N_("The shop canceled this payment. You have not been charged."),
    "processing": N_("Your bank has not responded yet. The shop will be notified when it does."),
}
STATUS_TITLE: Final = {
    "succeeded": N_("Payment approved"),
    "declined": N_("Payment declined"),
    "refused": N_("Payment declined"),
    "voided": N_("Payment canceled"),
    "processing": N_("Payment processing"),
}
