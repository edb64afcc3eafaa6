"""English sentences of the customer's pages."""

from typing import Final

SENTENCES: Final[dict[str, str]] = {
    # frame
    "summary": "Your order",
    "total": "Total",
    # open
    "open_title": "Pay {amount} to {merchant}",
    "email": "E-mail",
    "email_hint": "The receipt is made out to this address.",
    "email_hint_optional": "The receipt is made out to this address, if you give one.",
    "name": "Name",
    "optional": "(optional)",
    "method": "Payment method",
    "about_item": "About this item",
    "pay": "Pay {amount}",
    "bank_note": "You confirm the payment on your bank’s or wallet’s own secure page. "
    "Card numbers are never entered here.",
    "get_help": "Need help from {merchant}?",
    "help_page": "Help page",
    "terms": "Terms of {merchant}",
    "cancel": "Cancel and go back to {merchant}",
    "time_left": "You can pay for another {left}",
    "until": "until {time}",
    "no_methods": "No payment method is on offer for this currency at the moment. "
    "Please contact {merchant}.",
    # methods
    "CREDIT_CARD": "Card",
    "ALIPAY": "Alipay",
    "WECHAT_PAY": "WeChat Pay",
    "PAYNOW": "PayNow",
    "CRYPTO": "Cryptocurrency",
    "BANK_TRANSFER": "Bank transfer",
    # errors of the form
    "errors_title": "Please check your entries",
    "error_email": "Enter an e-mail address such as name@example.com",
    "error_name": "Enter a name of at most 200 characters, or leave it empty",
    "error_method": "Choose one of the payment methods",
    "error_form": "The payment could not be started. Please try once more.",
    "error_attempts": "This payment has been tried too often. Please start again at the shop.",
    # unfinished attempt
    "unfinished_title": "You have started a payment",
    "unfinished_text": "It is not finished yet. Go on with it, or start again below.",
    "unfinished_go": "Go on with the payment",
    "unfinished_check": "I have paid already",
    # to the bank
    "continue_title": "On to your bank",
    "continue_text": "You are being taken to {host} to confirm the payment of {amount}.",
    "continue_go": "Continue to {host}",
    "back_to_form": "Back to the payment form",
    "qr_title": "Scan to pay",
    "qr_text": "Open {method} on your phone and scan this code to pay {amount}.",
    "qr_alt": "QR code to be scanned with {method}",
    "qr_wait": "This page goes on by itself once you have paid.",
    "transfer_reference": "Payment reference",
    "transfer_title": "Make the transfer",
    "transfer_text": "Transfer {amount} with these details. The order is complete when "
    "the money has come in.",
    # waiting
    "waiting_title": "Waiting for the bank",
    "waiting_text": "The bank has not confirmed your payment of {amount} yet. "
    "This page checks by itself.",
    "waiting_leave": "You may leave this page. The payment goes on, and you will not be "
    "charged twice.",
    "check_now": "Check now",
    "hold": "Stay on this page",
    "pause": "Stop checking automatically",
    # paid
    "paid_title": "Payment received",
    "paid_text": "Thank you. {merchant} has been notified of your payment.",
    "paid_next": "You will be taken back to {merchant} in a few seconds.",
    "paid_go": "Back to {merchant}",
    "amount": "Amount",
    "order": "Order",
    "paid_at": "Paid",
    "paid_with": "Paid with",
    "receipt_for": "Receipt for",
    "refunded_amount": "Refunded",
    # other ends
    "refunded_title": "Payment given back",
    "refunded_text": "Your payment of {amount} has been given back. It can take some days "
    "until your bank shows it.",
    "expired_title": "This payment page has expired",
    "expired_text": "Nothing has been charged. To pay, start again at {merchant}.",
    "closed_title": "This payment is closed",
    "closed_text": "It can no longer be paid. To pay, start again at {merchant}.",
    "failed_title": "The payment was refused",
    "failed_text": "Nothing has been charged. This order cannot be paid any more. "
    "Please start again at {merchant}.",
    "revoked_title": "The payment was taken back",
    "revoked_text": "Nothing has been charged: the amount that was set aside is free again.",
    "return_go": "Back to {merchant}",
    # declined
    "declined_title": "The payment did not go through",
    "declined_again": "Nothing has been charged. You can try again below.",
    "declined": "Your bank declined the payment. Try another card or method, or ask your bank.",
    "insufficient_funds": "There is not enough money on the account or card.",
    "expired_card": "The card has expired.",
    "incorrect_cvc": "The security code of the card was wrong.",
    "processing_error": "The bank could not process the payment just now.",
    "authentication_failed": "The payment was not confirmed with the bank.",
    "canceled": "The payment was cancelled.",
    "invalid_card": "The card number was not accepted.",
    "limit_exceeded": "The payment is over the limit of the card or account.",
    "unavailable": "The bank could not be reached.",
    # the receipt
    "receipt_see": "See and keep the receipt",
    "receipt_title": "Receipt",
    "receipt_reference": "Reference",
    "receipt_item": "Item",
    "receipt_shop_time": "Paid, in the shop's time",
    "receipt_given_back": "Given back on {time}",
    "receipt_paid": "Paid",
    "receipt_kept": "Paid, less what was given back",
    "receipt_pdf": "Save as PDF",
    "receipt_print": "You can also print this page.",
    "receipt_no_pdf": "There is no PDF of this receipt, because this service has no font "
    "for its letters. Print this page instead, or save it as PDF in your browser.",
    "receipt_zone_other": "Show times in another zone",
    "receipt_zone": "Time zone",
    "receipt_zone_hint": "Such as Europe/Berlin, Asia/Shanghai or UTC.",
    "receipt_zone_error": "Enter a time zone such as Asia/Shanghai",
    "receipt_zone_do": "Show",
    # problems
    "missing_title": "We cannot find this page",
    "missing_text": "Please check that the address is complete, or go back to the shop "
    "you came from.",
    "refused_title": "This request cannot be processed",
    "refused_text": "Please open the payment page again and start from there.",
    "busy_title": "Too many requests",
    "busy_text": "Please wait a moment, then try again.",
    "unavailable_title": "We will be back in a moment",
    "unavailable_text": "The payment page cannot be shown just now. "
    "If you have just paid, your payment is safe. Please try again soon.",
    "submission_title": "This order was not accepted",
    "submission_text": "Nothing has been charged. Please go back to the shop and try again, "
    "or show it what is said here.",
    "submission_reason": "Reason",
    "submission_code": "Code",
    "again": "Try again",
}
