"""Texts of customers' pages by status, method, reason of a decline or kind of error."""

from typing import Final

from opentill.receipts import model
from opentill.web.translations import N_

DECLINE_REASON: Final = {
    "declined": N_(
        "Your bank declined the payment. Try another card or payment method, or contact your bank."
    ),
    "insufficient_funds": N_("Your card or account has insufficient funds."),
    "expired_card": N_("Your card has expired."),
    "incorrect_cvc": N_("Your card’s security code is incorrect."),
    "processing_error": N_("Your bank could not process the payment right now."),
    "authentication_failed": N_("The payment was not authenticated with your bank."),
    "canceled": N_("The payment was canceled."),
    "invalid_card": N_("Your card number is invalid."),
    "limit_exceeded": N_("The payment exceeds the limit of your card or account."),
    "unavailable": N_("Your bank could not be reached."),
}
LINK_TEXT: Final = {
    "INACTIVE": N_("You have not been charged. Please contact {merchant}."),
    "EXPIRED": N_("You have not been charged. Please ask {merchant} for a new link."),
    "HELD": N_(
        "Complete one of the payments that you started with this link, or wait half an hour until"
        " they expire. You have not been charged."
    ),
    "USED_UP": N_(
        "All payments for this link have been made or are in progress. If one of them is not "
        "completed, you can use the link again after half an hour at the latest."
    ),
}
LINK_TITLE: Final = {
    "INACTIVE": N_("This link is not available"),
    "EXPIRED": N_("This link has expired"),
    "HELD": N_("You have unfinished payments"),
    "USED_UP": N_("This link has already been used"),
}
PAYMENT_METHOD: Final = model.PAYMENT_METHOD
STATE_TEXT: Final = {
    "waiting": N_(
        "Your payment of {amount} has not been confirmed yet. This page updates automatically."
    ),
    "paid": N_("Thank you. {merchant} has been notified of your payment."),
    "refunded": N_(
        "Your payment of {amount} has been refunded. It may take a few days for the refund to "
        "appear in your account."
    ),
    "stopped": N_("You have not been charged. Please contact {merchant}, or try again later."),
    "expired": N_("You have not been charged. To pay, please start again at {merchant}."),
    "closed": N_(
        "This payment can no longer be completed. To pay, please start again at {merchant}."
    ),
    "failed": N_(
        "You have not been charged. This order can no longer be paid. Please start again at "
        "{merchant}."
    ),
    "revoked": N_("You have not been charged. The reserved amount has been released."),
}
STATE_TITLE: Final = {
    "waiting": N_("Payment processing"),
    "paid": N_("Payment received"),
    "refunded": N_("Payment refunded"),
    "stopped": N_("This shop cannot accept payments right now"),
    "expired": N_("This payment page has expired"),
    "closed": N_("This payment is closed"),
    "failed": N_("Payment declined"),
    "revoked": N_("Payment canceled"),
}
TROUBLE_TEXT: Final = {
    "missing": N_(
        "Check the address. If a shop sent you this link to pay, ask the shop for a new one."
    ),
    "refused": N_("Please open the payment page again and start over."),
    "busy": N_("Please wait a moment, then try again."),
    "unavailable": N_(
        "The payment page is not available right now. If you have just paid, your payment is "
        "safe. Please try again soon."
    ),
}
TROUBLE_TITLE: Final = {
    "missing": N_("We cannot find this page"),
    "refused": N_("This request cannot be processed"),
    "busy": N_("Too many requests"),
    "unavailable": N_("We will be right back"),
}
