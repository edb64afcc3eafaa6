"""Texts of pages by value: statuses, kinds, fields with an error."""

from collections.abc import Mapping
from itertools import chain
from typing import Final

from opentill.mail import labels
from opentill.orders import SHOWN_STATUSES, RefundProgress, ShownStatus, Status
from opentill.people import MerchantRole, StaffRole
from opentill.portal.model import Allowed
from opentill.web.translations import N_, NC_

ATTEMPT_STATUS: Final = {
    "ACTION_REQUIRED": N_("The customer has to act on the bank’s page"),
    "PENDING": N_("The bank has not confirmed yet"),
    "DECLINED": N_("The attempt was declined"),
    "REFUSED": N_("The attempt was refused for good"),
    "VOIDED": N_("The authorization was voided"),
    "DUPLICATE": N_("A second payment arrived and will be refunded"),
    "GIVEN_BACK": N_("The second payment was refunded"),
}
BANK_ACCOUNT_ERROR: Final = {
    "street": N_("Enter at most 70 characters."),
    "building": N_("Enter at most 16 characters."),
    "postcode": N_("Enter at most 16 characters."),
    "town": N_("Enter the city, at most 35 characters: an address needs city and country."),
    "addresscountry": N_("Choose the country: an address needs city and country."),
    "reason": N_("Say why, in a few words."),
    "holder": N_("Enter the account holder’s name, at most 70 characters."),
    "country": N_("Choose the bank’s country."),
    "bic": N_("Enter the BIC: 8 or 11 letters and digits, such as COBADEFFXXX."),
    "stale": N_(
        "Somebody else has changed the account since you opened this "
        "page. Nothing was saved; above is the account now."
    ),
}
CUSTOMER_MAIL: Final = {
    "receipt": N_("Receipt sent to {who}"),
    "refund": N_("Refund confirmation sent to {who}"),
    "refund_failed": N_("Email about the failed refund sent to {who}"),
}
CUSTOMER_MAIL_FAILED: Final = {
    "receipt": N_("The receipt could not be sent to {who}"),
    "refund": N_("The refund confirmation could not be sent to {who}"),
    "refund_failed": N_("The email about the failed refund could not be sent to {who}"),
}
DECLINE_REASON: Final = {
    "declined": N_("The customer’s bank declined it."),
    "insufficient_funds": N_("There was not enough money on the account or card."),
    "expired_card": N_("The card has expired."),
    "incorrect_cvc": N_("The security code of the card is incorrect."),
    "processing_error": N_("The bank could not process it at that moment."),
    "authentication_failed": N_("The customer did not confirm it with the bank."),
    "canceled": N_("The customer canceled it."),
    "invalid_card": N_("The card number was not accepted."),
    "limit_exceeded": N_("It was over the limit of the card or account."),
    "unavailable": N_("The bank could not be reached."),
    "lost_card": N_("The card was reported lost."),
    "stolen_card": N_("The card was reported stolen."),
    "restricted_card": N_("The card cannot be used; it may have been reported lost or stolen."),
    "suspected_fraud": N_("The customer’s bank suspects fraud."),
    "not_supported": N_("The card does not support this kind of payment, or its currency."),
    "duplicate": N_("The same amount was paid with this card a moment before."),
    "incorrect_expiry": N_("The expiry date of the card is incorrect."),
}
_OTHER_CARD: Final = N_("Ask the customer for another card or payment method.")
_CHECK_DETAILS: Final = N_("Ask the customer to check the details of the card.")
_ASK_THE_BANK: Final = N_(
    "Ask the customer to contact the bank, or to use another card or payment method."
)
_KEEP_SECRET: Final = N_(
    "Ask the customer for another card or payment method. Do not say why: the bank informs "
    "the card’s owner."
)
_TRY_AGAIN: Final = N_("Trying again in a few minutes usually helps.")
DECLINE_ADVICE: Final = {
    "declined": _ASK_THE_BANK,
    "insufficient_funds": _OTHER_CARD,
    "expired_card": _OTHER_CARD,
    "incorrect_cvc": _CHECK_DETAILS,
    "processing_error": _TRY_AGAIN,
    "authentication_failed": N_(
        "Ask the customer to confirm the payment in the bank’s app or with its code."
    ),
    "canceled": N_("Ask the customer whether something was unclear."),
    "invalid_card": _CHECK_DETAILS,
    "limit_exceeded": _ASK_THE_BANK,
    "unavailable": _TRY_AGAIN,
    "lost_card": _KEEP_SECRET,
    "stolen_card": _KEEP_SECRET,
    "restricted_card": _KEEP_SECRET,
    "suspected_fraud": _KEEP_SECRET,
    "not_supported": _OTHER_CARD,
    "duplicate": N_("Check whether the customer has paid already."),
    "incorrect_expiry": _CHECK_DETAILS,
}
DECLINE_NAME: Final = {
    "declined": N_("Declined by the bank"),
    "insufficient_funds": N_("Insufficient funds"),
    "expired_card": N_("Expired card"),
    "incorrect_cvc": N_("Incorrect security code"),
    "processing_error": N_("Processing error"),
    "authentication_failed": N_("Not confirmed with the bank"),
    "canceled": N_("Canceled by the customer"),
    "invalid_card": N_("Incorrect card number"),
    "limit_exceeded": N_("Limit exceeded"),
    "unavailable": N_("Bank unavailable"),
    "lost_card": N_("Lost card"),
    "stolen_card": N_("Stolen card"),
    "restricted_card": N_("Restricted card"),
    "suspected_fraud": N_("Suspected fraud"),
    "not_supported": N_("Card not supported"),
    "duplicate": N_("Duplicate payment"),
    "incorrect_expiry": N_("Incorrect expiry date"),
}
DELIVERY_OUTCOME: Final = {
    "delivered": N_("delivered"),
    "refused": N_("refused"),
    "no_answer": N_("no response"),
    "unreachable": N_("unreachable"),
    "forbidden": N_("address not allowed"),
}
DELIVERY_STATUS: Final = {
    "PENDING": N_("Waiting"),
    "SUCCEEDED": N_("Delivered"),
    "FAILED": N_("Not delivered"),
}
DISPUTE_ENDED: Final = {
    "WON": N_("Dispute won: {amount}"),
    "LOST": N_("Dispute lost: {amount}"),
    "RECOVERED": N_("Recovered after the loss: {amount}"),
}
DISPUTE_STATE: Final = {
    "TO_RESPOND": N_("Needs response"),
    "UNDER_REVIEW": N_("Contested"),
    "ACCEPTED": N_("Accepted"),
    "WON": N_("Won"),
    "LOST": N_("Lost"),
    "RECOVERED": N_("Recovered"),
}
DISPUTED_PAYMENT: Final = {  # the state of a dispute as that of the payment
    "TO_RESPOND": N_("Dispute needs response"),
    "UNDER_REVIEW": N_("Dispute contested"),
    "ACCEPTED": N_("Dispute accepted"),
    "WON": N_("Dispute won"),
    "LOST": N_("Dispute lost"),
    "RECOVERED": N_("Recovered"),
}
DISPUTE_CLASS: Final = {
    "TO_RESPOND": "status-disputed",
    "UNDER_REVIEW": "status-open",
    "ACCEPTED": "",
    "WON": "status-paid",
    "LOST": "status-chargeback",
    "RECOVERED": "status-paid",
}
ENTRY_TYPE: Final = {
    "PAYMENT": N_("Payment"),
    "SETTLEMENT": N_("Settlement"),
    "PAYOUT": N_("Payout"),
    "FREEZE": N_("Held for refund or dispute"),
    "UNFREEZE": N_("Released"),
    "CHARGEBACK": N_("Chargeback"),
    "CHARGEBACK_FEE": N_("Dispute fee"),
    "CHARGEBACK_RECOVERY": N_("Chargeback recovered"),
    "ROLLING_RESERVE_RECOVERY": N_("Reserve restored"),
    "ROLLING_RESERVE": N_("Reserve held"),
    "ROLLING_RESERVE_RELEASE": N_("Reserve released"),
    "ROLLING_RESERVE_OFFSET": N_("Reserve used for a loss"),
    "ADMIN_RECHARGE": N_("Credit by the operator"),
    "REFUND": N_("Refund"),
    "FEE": N_("Fee"),
    "BALANCE_CORRECTION": N_("Correction"),
}
HELD_FOR: Final = {
    "refund": N_("Held for refund"),
    "dispute": N_("Held for dispute"),
    "operator": N_("Held by the operator"),
}
HISTORY_EVENT: Final = {
    "expired": N_("Expired: it can no longer be paid"),
    "refused": N_("Declined: it can no longer be paid"),
    "voided": N_("Canceled: it can no longer be paid"),
    "carried_over": N_("Nothing of it is left in the pending balance"),
    "reserve_released": N_("The reserve was released"),
    "amount_differs": N_("The bank reports another amount than the one due"),
    "payment_not_given_back": N_(
        "The second payment could not be refunded; the operator takes care of it"
    ),
    "dispute_amount_differs": N_("The bank reports another amount for the dispute"),
    "dispute_forwarded": N_("The merchant’s response was sent to the bank"),
    "refund_handled": N_("A failed refund was marked as handled"),
    "refund_at_gateway_unmatched": N_(
        "A refund at the payment provider does not fit this payment; the operator takes care of it"
    ),
}
AMOUNT_ERROR: Final = {
    "currency": N_("This sign or code is of another currency: enter the amount without it"),
    "separator": N_(
        "The separator may stand for thousands or for decimals: enter an amount such as 1200 or "
        "1.20"
    ),
    "decimals": N_("This currency has no decimals: enter an amount such as 1200"),
}
# Last segment of the path of a list → the title of the error page for an object that it lacks.
MISSING_OBJECT: Final = {
    "payments": N_("Payment not found"),
    "disputes": N_("Dispute not found"),
    "sessions": N_("Checkout session not found"),
    "products": N_("Product not found"),
    "links": N_("Payment link not found"),
    "payouts": N_("Payout not found"),
    "keys": N_("API key not found"),
    "webhooks": N_("Webhook endpoint not found"),
    "events": N_("Event not found"),
    "requests": N_("Request not found"),
    "merchants": N_("Merchant not found"),
    "people": N_("Person not found"),
    "reconciliation": N_("Difference not found"),
}
ORDER_SOURCE: Final = {
    "API": N_("Checkout session"),
    "EPAY": N_("The Epay API"),
}
ORDER_STATUS: Final[Mapping[Status, str]] = {
    "CREATING": N_("Waiting for the bank"),
    "PENDING": N_("Not paid yet"),
    "PAID": NC_("order status", "Paid"),
    "SETTLED": NC_("order status", "Settled"),
    "REFUNDED": N_("Refunded"),
    "DISPUTED": N_("Disputed"),
    "CHARGEBACK": N_("Dispute lost"),
    "FAILED": NC_("order status", "Declined"),
    "CLOSED": N_("Expired"),
    "REVOKED": N_("Canceled"),
}
RATE_COLUMN: Final = {
    "payments": N_("Payments"),
    "opened": N_("Disputes"),
    "won": N_("Won"),
    "lost": N_("Lost"),
    "rate": N_("Dispute rate"),
    "volume": N_("Rate by volume"),
    "limit": N_("Card scheme limit"),
}
REFUND_PROGRESS: Final[Mapping[RefundProgress, str]] = {
    "PARTIALLY_REFUNDED": N_("Partially refunded"),
    "REFUND_PENDING": N_("Refund pending"),
    "REFUND_FAILED": N_("Refund failed"),
}
# The statuses of payments that people see, in badges and in the filters of lists.
_STATUS_TEXTS: Final[dict[str, str]] = dict(
    chain(
        ORDER_STATUS.items(),
        REFUND_PROGRESS.items(),
        [("ATTEMPT_FAILED", N_("Attempt failed"))],
    )
)
SHOWN_STATUS: Final[Mapping[ShownStatus, str]] = {
    status: _STATUS_TEXTS[status] for status in SHOWN_STATUSES
}
# The class of a badge by status; the class of any other status is its name.
STATUS_CLASS: Final[Mapping[ShownStatus, str]] = {
    "PARTIALLY_REFUNDED": "status-refunded",
    "REFUND_PENDING": "status-creating",
    "REFUND_FAILED": "status-failed",
    "ATTEMPT_FAILED": "status-failed",
}
PAYMENT_METHOD: Final = {
    "CREDIT_CARD": N_("Card"),
    "ALIPAY": N_("Alipay"),
    "WECHAT_PAY": N_("WeChat Pay"),
    "PAYNOW": N_("PayNow"),
    "CRYPTO": N_("Cryptocurrency"),
    "BANK_TRANSFER": N_("Bank transfer"),
}
# When the money of a refund reaches the customer, by payment method.
REFUND_ARRIVAL: Final = {
    "CREDIT_CARD": N_("Usually in 5 to 10 business days, on the card’s statement"),
    "ALIPAY": N_("Usually within 3 business days, in the wallet"),
    "WECHAT_PAY": N_("Usually within 3 business days, in the wallet"),
    "PAYNOW": N_("Usually within 3 business days, in the bank account"),
    "CRYPTO": N_("Usually within a day, in the wallet"),
    "BANK_TRANSFER": N_("Usually within 3 business days, in the bank account"),
}
PERIOD_PRESET: Final = {
    "today": N_("Today"),
    "week": N_("Last 7 days"),
    "30 days": N_("Last 30 days"),
    "month": N_("This month"),
    "before": N_("Last month"),
}
PERIOD_END: Final = {
    "from": NC_("period", "From"),
    "to": NC_("period", "To"),
}
REFUND_ACCOUNT: Final = {
    "pending": N_("Pending balance"),
    "available": N_("Available balance"),
}
REFUND_FEE_POLICY: Final = {
    "KEPT": N_("The platform fee is not refunded."),
    "RETURNED": N_("The platform fee is refunded in proportion."),
}
# The choices of a refund's reason. The text in English is stored, for events and records.
REFUND_REASON: Final = {
    "requested": N_("Requested by customer"),
    "duplicate": N_("Duplicate"),
    "fraudulent": N_("Fraudulent"),
}
REFUND_NOTE: Final = {
    "PROCESSING": N_(
        "The refund of {amount} is on its way. The bank has not "
        "confirmed it yet; this page shows when it has."
    ),
    "SUCCEEDED": N_("The refund of {amount} is done."),
    "FAILED": N_("The refund of {amount} failed. Its money is yours again."),
}
RESEND_RESULT: Final = {
    "1": N_("The event is sent again now. Reload the page to see what comes of it."),
    "0": N_("It was sent in the meantime; nothing was sent twice. The outcome is below."),
}
RESERVE_STATUS: Final = {
    "NONE": N_("nothing held"),
    "HELD": N_("held"),
    "OFFSET": N_("used for a chargeback"),
    "RELEASED": N_("released"),
}
ABOUT_ROLE: Final[Mapping[MerchantRole, str]] = {
    "owner": N_("Can do everything, including team, bank account and agreement."),
    "finance": N_("Can see balance and payouts, refund payments and export data."),
    "support": N_("Can see payments and customers, refund payments and respond to disputes."),
    "developer": N_("Can manage API keys, webhooks, Epay and products, and see payments."),
    "viewer": N_("Can see everything except secrets, and change nothing."),
}
# What a form does for which a person must prove their identity, by the permission of its page.
PROVED_ACTION: Final[Mapping[Allowed, str]] = {
    "a person": N_("Change your security settings"),
    "payments.refund": N_("Refund a payment"),
    "payouts.account": N_("Change the bank account for payouts"),
    "balance.prepay": N_("Move money to the prepaid balance"),
    "gateways.manage": N_("Change a gateway account"),
    "keys.manage": N_("Create, change or delete an API key"),
    "endpoints.manage": N_("Add, change or delete a webhook endpoint"),
    "endpoints.secrets": N_("Show or replace the secret of a webhook endpoint"),
    "epay.manage": N_("Change the Epay credentials"),
    "team.manage": N_("Change the team"),
    "agreement.accept": N_("Accept the merchant services agreement"),
    "merchants.manage": N_("Create a merchant or change its status"),
    "terms.manage": N_("Change the terms of a merchant"),
    "payouts.manage": N_("Make or record payouts"),
    "balance.adjust": N_("Adjust the balance of a merchant"),
    "orders.decide": N_("Decide how a payment ended"),
    "orders.refund": N_("Refund a payment of a merchant"),
    "disputes.decide": N_("Decide a dispute"),
    "approvals.decide": N_("Approve or reject a request"),
    "people.manage": N_("Invite people or change their roles"),
    "deployment.manage": N_("Change the accounts at gateways"),
    "rates.manage": N_("Set exchange rates"),
}
ROLE: Final = labels.ROLE
SESSION_STATUS: Final = {
    "OPEN": NC_("checkout session", "Open"),
    "COMPLETE": N_("Complete"),
    "EXPIRED": N_("Expired"),
}
SHOP_NOTICE: Final = {
    "WAITING": N_("The shop’s Epay notification is being sent"),
    "DELIVERED": N_("The shop has the Epay notification"),
    "FAILED": N_("The shop did not take the Epay notification"),
}
STAFF_ROLE: Final = labels.STAFF_ROLE
QUALIFIED_STAFF_ROLE: Final[Mapping[StaffRole, str]] = {
    "admin": N_("Staff: administrator"),
    "finance": N_("Staff: finance"),
    "support": N_("Staff: support"),
    "auditor": N_("Staff: auditor"),
}
ERROR_TEXT: Final = {
    "forbidden": N_(
        "Your role at this merchant does not include it. An owner can change your role."
    ),
    "missing": N_("There is no page at this address, or what it showed no longer exists."),
    "missing_link": N_(
        "It was used already, is older than 24 hours, or was copied in part. Ask for a new link, "
        "or log in if you have an account."
    ),
    "refused": N_("Nothing was changed. Please open the page again and start from there."),
    "busy": N_("Please wait a moment, then try again."),
    "unavailable": N_("The page cannot be shown just now. Please try again soon."),
}
MAIL_STATUS: Final = {
    "WAITING": NC_("mail", "Waiting"),
    "SENDING": NC_("mail", "On its way"),
    "SENT": N_("Sent"),
    "FAILED": NC_("mail", "Not sent"),
    "UNKNOWN": N_("Unknown"),
}
MAIL_TOPIC: Final = {
    "receipt": N_("Receipt"),
    "refund": N_("Refund"),
    "refund_failed": N_("Refund failed"),
    "refund_refused": N_("Refund failed"),
    "refund_reversed": N_("Refund reversed"),
    "refund_at_gateway": N_("Refund made at the provider"),
    "dispute_opened": N_("Dispute opened"),
    "dispute_closed": N_("Dispute closed"),
    "standing_changed": N_("Account status changed"),
    "dispute_deadline": N_("Dispute near its deadline"),
    "payout_paid": N_("Payout paid"),
    "payout_failed": N_("Payout returned"),
    "endpoint_disabled": N_("Webhook endpoint disabled"),
    "key_changed": N_("API key changed"),
    "gateway_changed": N_("Gateway account changed"),
    "endpoint_changed": N_("Webhook URL changed"),
    "account_changed": N_("Bank account changed"),
    "prepaid_low": N_("Prepaid balance low"),
    "prepaid_empty": N_("Prepaid balance used up"),
    "digest": N_("Daily digest"),
    "invitation": N_("Invitation"),
    "reset": N_("Password reset"),
    "new_login": N_("New login"),
    "account_change": N_("Account changed"),
}
ERROR_TITLE: Final = {
    "forbidden": N_("You do not have access"),
    "missing": N_("We cannot find this page"),
    "missing_link": N_("This link has expired"),
    "refused": N_("This request cannot be processed"),
    "busy": N_("Too many requests"),
    "unavailable": N_("We will be back in a moment"),
}


def entry_name(type_: str, source: str) -> str:
    """Return the name of a ledger entry of this type and source, to be translated."""
    return HELD_FOR.get(source, ENTRY_TYPE[type_]) if type_ == "FREEZE" else ENTRY_TYPE[type_]
