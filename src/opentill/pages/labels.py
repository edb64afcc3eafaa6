"""Texts of customers' pages by status, method, reason of a decline or kind of error."""

from typing import Final

from opentill.receipts import model
from opentill.web.translations import N_

DECLINE_REASON: Final = {
    "declined": N_("Your bank declined the payment. Try another card or method, or ask your bank."),
    "insufficient_funds": N_("There is not enough money on the account or card."),
    "expired_card": N_("The card has expired."),
    "incorrect_cvc": N_("The security code of the card was wrong."),
    "processing_error": N_("The bank could not process the payment just now."),
    "authentication_failed": N_("The payment was not confirmed with the bank."),
    "canceled": N_("The payment was cancelled."),
    "invalid_card": N_("The card number was not accepted."),
    "limit_exceeded": N_("The payment is over the limit of the card or account."),
    "unavailable": N_("The bank could not be reached."),
}
LINK_TEXT: Final = {
    "INACTIVE": N_("Nothing has been charged. Please ask {merchant}."),
    "EXPIRED": N_("Nothing has been charged. Please ask {merchant} for a new one."),
    "HELD": N_(
        "Pay one of those that you have started with this link, or "
        "wait half an hour until they end. Nothing has been charged."
    ),
    "USED_UP": N_(
        "Its payments are made or under way. If one of them is not "
        "finished, it can be used again within half an hour."
    ),
}
LINK_TITLE: Final = {
    "INACTIVE": N_("This link cannot be used"),
    "EXPIRED": N_("This link has expired"),
    "HELD": N_("You have payments open already"),
    "USED_UP": N_("This link has been used"),
}
PAYMENT_METHOD: Final = model.PAYMENT_METHOD
STATE_TEXT: Final = {
    "waiting": N_(
        "The bank has not confirmed your payment of {amount} yet. This page checks by itself."
    ),
    "paid": N_("Thank you. {merchant} has been notified of your payment."),
    "refunded": N_(
        "Your payment of {amount} has been refunded. It can take "
        "some days until your bank shows it."
    ),
    "stopped": N_("Nothing has been charged. Please ask {merchant}, or try again later."),
    "expired": N_("Nothing has been charged. To pay, start again at {merchant}."),
    "closed": N_("It can no longer be paid. To pay, start again at {merchant}."),
    "failed": N_(
        "Nothing has been charged. This order cannot be paid any more. "
        "Please start again at {merchant}."
    ),
    "revoked": N_("Nothing has been charged: the amount that was set aside is free again."),
}
STATE_TITLE: Final = {
    "waiting": N_("Waiting for the bank"),
    "paid": N_("Payment received"),
    "refunded": N_("Payment refunded"),
    "stopped": N_("This shop cannot take payments right now"),
    "expired": N_("This payment page has expired"),
    "closed": N_("This payment is closed"),
    "failed": N_("The payment was refused"),
    "revoked": N_("The payment was taken back"),
}
TROUBLE_TEXT: Final = {
    "missing": N_(
        "Please check that the address is complete, or go back to the shop you came from."
    ),
    "refused": N_("Please open the payment page again and start from there."),
    "busy": N_("Please wait a moment, then try again."),
    "unavailable": N_(
        "The payment page cannot be shown just now. If you have just "
        "paid, your payment is safe. Please try again soon."
    ),
}
TROUBLE_TITLE: Final = {
    "missing": N_("We cannot find this page"),
    "refused": N_("This request cannot be processed"),
    "busy": N_("Too many requests"),
    "unavailable": N_("We will be back in a moment"),
}
