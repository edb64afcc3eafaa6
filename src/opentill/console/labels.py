"""Texts that pages choose by a value: statuses, kinds, fields in error; and shared error texts."""

from typing import Final

from opentill.mail import labels
from opentill.portal.labels import DISPUTE_STATE
from opentill.web.translations import N_, NC_

GIVE_A_REASON: Final = N_("Say why, in a few words.")
GIVE_A_REASON_255: Final = N_("Say why, in 1 to 255 characters")
MOVEMENT_KIND: Final = labels.MOVEMENT_KIND
ABOUT_DIFFERENCE: Final = {
    "missing_in_ledger": N_("The report has an entry that is not in the books."),
    "missing_in_report": N_(
        "The books have an entry that the report lacks. A later report that contains "
        "it resolves this automatically."
    ),
    "double_in_report": N_("The report has the same entry more than once."),
    "different": N_("Amount, currency or status differ."),
}
ABOUT_DISPUTE_DECISION: Final = {
    "dispute-won": N_(
        "The bank decided for the merchant. The money held for the dispute becomes available."
    ),
    "dispute-lost": N_(
        "The bank decided for the customer: a chargeback. The reserve of this payment covers it "
        "first."
    ),
    "dispute-recovered": N_(
        "The bank returned the money. The dispute fee is not returned, and reserve that covered "
        "the loss is held again."
    ),
}
ABOUT_PAYMENT_ACTION: Final = {
    "confirm": N_(
        "For money that arrived without a gateway’s word, such as a "
        "bank transfer. It cannot be undone, only refunded."
    ),
    "revoke": N_("It cannot be paid any more. No money moves."),
    "refund-done": N_(
        "When you know that the customer has the money, and the gateway does not report it."
    ),
    "refund-failed": N_(
        "When you know that the money was not sent. It returns to the "
        "merchant’s balance, and the merchant reads the reason."
    ),
    "refund-reversed": N_(
        "When you know that the money of the refund came back. It "
        "returns to the merchant’s balance, and the payment can be "
        "refunded again."
    ),
    "refund-handled": N_(
        "When the customer got the money in another way, or does not want it. No money moves. A "
        "later refund of the same amount does this automatically."
    ),
    "given-back": N_(
        "When a gateway refuses for good to give a second payment "
        "back, or does not say what became of it, and you know that "
        "the customer has the money, by a transfer for example. "
        "Nothing moves in the books, which never had it."
    ),
    "dispute-open": N_(
        "When the customer takes the payment back through the bank, "
        "and the gateway does not report it. The money of a payment "
        "that has settled is held until the dispute is decided."
    ),
    "notify": N_(
        "The shop is notified again that this payment was paid, at "
        "once and with all attempts. No money moves."
    ),
}
ABOUT_REPORT: Final = {
    "refund_cases": N_(
        "A reversed refund did not reach the customer; its money is back on the merchant’s "
        "balance. A refund that does not fit its order has left the gateway, but not the "
        "merchant’s balance: correct the balance, unless it will soon fit."
    ),
    "unmatched": N_(
        "If the dispute is already decided, its money is missing from the books: correct the "
        "merchant’s balance first, then dismiss the report. It comes back if the gateway reports "
        "something new."
    ),
}
ABOUT_STAFF_ROLE: Final = {
    "admin": N_("Full access, including people and terms."),
    "finance": N_("Payouts, balances, exchange rates and approvals."),
    "support": N_("Can view the merchants’ pages, refund payments and decide disputes."),
    "auditor": N_("Can view everything."),
}
ACCOUNT: Final = {
    "pending": N_("Pending"),
    "available": N_("Available"),
    "frozen": N_("On hold"),
    "reserve": N_("In reserve"),
    "prepaid": N_("Prepaid"),
}
ADJUSTMENT_ERROR: Final = {
    "kind": N_("Choose what is to be done"),
    "amount": N_("Enter an amount above 0, such as 25.00 or 1,200.50"),
    "balance": N_("The balance does not allow this amount: see what it has now"),
    "closed": N_(
        "This merchant is closed and gets no new money: a credit may be at most what it owes"
    ),
    "account": N_("Choose available money: only a correction may be of pending money"),
    "order": N_(
        "Enter the ID of an order of this merchant for a correction, and none for anything else"
    ),
    "reference": N_(
        "Enter up to 64 printable characters that no other adjustment of this merchant has"
    ),
    "reason": N_("Say why, in up to 500 printable characters"),
}
ADJUSTMENT_KIND: Final = {
    "freeze": N_("Hold available money"),
    "unfreeze": N_("Release money that staff hold"),
    "recharge": N_("Credit money that the merchant sent to your bank"),
    "correct": N_("Correct the balance"),
    "fee": N_("Charge a fee"),
    "topup": N_("Top up the prepaid balance with money that the merchant sent to your bank"),
    "prepay": N_("Move available money to the prepaid balance"),
    "unprepay": N_("Move prepaid money back to the available balance"),
}
ADJUSTMENT_RESULT: Final = {
    "DONE": N_("{kind} of {amount}: done."),
    "WAITING": N_("{kind} of {amount}: waits for a second person. Nothing has moved yet."),
    "REJECTED": N_("{kind} of {amount}: rejected. Nothing was moved."),
}
ADJUSTMENT_STATUS: Final = {
    "DONE": N_("Done"),
    "WAITING": N_("Waiting for approval"),
    "REJECTED": N_("Rejected"),
}
ADJUSTMENT_SUBMIT: Final = {
    "do": N_("Adjust the balance now"),
    "wait": N_("Request approval"),
}
AGREEMENT_STATUS: Final = {
    "NONE": N_("No version is accepted."),
    "ACCEPTED": N_("The current version is accepted."),
    "OUTDATED": N_("An earlier version is accepted, the current one is not."),
}
# The sections of the requests that wait for a second person.
WAITING_FOR: Final = {
    "for-me": N_("Waiting for your approval"),
    "for-others": N_("Waiting for a colleague"),
}
APPROVAL_RESULT: Final = {
    "approved": N_("Approved."),
    "rejected": N_("Rejected. Nothing was moved."),
}
AUDIT_FINDING: Final = {
    "altered": N_("Entry {number} was changed:"),
    "removed": N_("Entry {number} was removed:"),
    "inserted": N_("Entry {number} was inserted:"),
}
DIFFERENCE: Final = {
    "missing_in_ledger": N_("Missing in the books"),
    "missing_in_report": N_("Missing in the report"),
    "double_in_report": N_("Twice in the report"),
    "different": N_("Books and report differ"),
}
DIFFERENCE_ERROR: Final = {
    "reason": GIVE_A_REASON,
    "adjust": N_("Choose one adjustment, or leave amount and order empty. Nothing was moved."),
    "amount": N_("Enter an amount that this merchant’s balance allows, such as 25.00."),
    "correction": N_(
        "The merchant’s available balance does not allow this correction. Nothing was moved."
    ),
    "merchant": N_("Enter the ID of the merchant whose balance is adjusted."),
    "order": N_("Enter the order that the correction is about; other adjustments have none."),
    "account": N_("This adjustment must be positive."),
    "difference": N_("Somebody else has resolved this difference already. Nothing was moved."),
}
DISPUTE_RESPONSE_TEXT: Final = {
    "ACCEPTED": N_("Accepted: the customer keeps the money"),
    "CONTESTED": N_("Contested"),
}
DISPUTE_DECISION: Final = {
    "dispute-won": N_("Mark as won"),
    "dispute-lost": N_("Mark as lost"),
    "dispute-recovered": N_("Record recovered money"),
}
DISPUTE_RESULT: Final = {
    "deadline": N_("The deadline is set."),
    "note": N_("The note is added."),
    "forwarded": N_("The response is marked as forwarded to the bank."),
    "dispute-won": N_("Dispute marked as won. {merchant} keeps {amount}."),
    "dispute-lost": N_("Dispute marked as lost. {amount} was taken from {merchant}."),
    "dispute-recovered": N_(
        "Recovered money recorded. {amount} is back on the balance of {merchant}."
    ),
}
DISPUTE_CHOICE: Final = {
    "OPEN": N_("All open"),
    "SOON": N_("Open, due within three days"),
    **DISPUTE_STATE,
}
MERCHANT_EVENT: Final = {
    "created": NC_("event", "Created"),
    "applied": NC_("event", "Applied"),
    "approved": N_("Approved"),
    "declined": N_("Declined"),
    "suspended": NC_("event", "Suspended"),
    "resumed": N_("Resumed"),
    "closed": NC_("event", "Closed"),
    "capability_on": NC_("event", "Switched on"),
    "capability_off": NC_("event", "Switched off"),
    "noted": N_("Note"),
}
MERCHANT_STATUS: Final = {
    "APPLIED": NC_("merchant status", "Applied"),
    "ACTIVE": NC_("merchant status", "Active"),
    "SUSPENDED": N_("Suspended"),
    "CLOSED": N_("Closed"),
}
OPEN_ITEM: Final = {
    "pending": N_("Pending balance:"),
    "available": N_("Available balance:"),
    "frozen": N_("On hold:"),
    "reserve": N_("In reserve:"),
    "prepaid": N_("Prepaid balance:"),
    "payments": N_("Payments under way:"),
    "refunds": N_("Refunds under way:"),
    "disputes": N_("Open disputes:"),
    "payouts": N_("Payouts that the bank has not confirmed:"),
    "approvals": N_("Payouts and adjustments that wait for a second person:"),
}
PAYMENT_ACTION: Final = {
    "confirm": N_("Mark as paid"),
    "revoke": N_("Cancel payment"),
    "refund-done": N_("End a refund as done"),
    "refund-failed": N_("End a refund as failed"),
    "refund-reversed": N_("Reverse a refund"),
    "refund-handled": N_("Mark as handled"),
    "given-back": N_("Mark the second payment as refunded"),
    "dispute-open": N_("Open a dispute"),
    "notify": N_("Send the Epay notification again"),
}
# Actions after which the money or the payment is lost for the merchant: their buttons are red.
HARMFUL_PAYMENT_ACTIONS: Final = frozenset({"revoke", "refund-failed", "dispute-open"})
PAYMENT_ACTION_RESULT: Final = {
    "confirm": N_("The payment is marked as paid."),
    "revoke": N_("The payment is canceled."),
    "refund-done": N_("The refund has ended as done."),
    "refund-failed": N_("The refund has ended as failed."),
    "refund-reversed": N_("The refund is reversed."),
    "refund-handled": N_("The failed refund is marked as handled."),
    "given-back": N_("That the second payment went back is recorded."),
    "dispute-open": N_("The dispute is open."),
    "notify": N_("The notification is sent again now."),
    "refund": N_("The refund is on its way. Its end is shown in the timeline."),
    "note": N_("The note is added. It stands in the timeline."),
}
PEOPLE_RESULT: Final = {
    "reset_requested": N_("The reset is requested. Another administrator must confirm it."),
    "reset_confirmed": N_("The reset is confirmed. The person gets a mail and can stop it."),
    "reset_confirmed_without_mail": N_(
        "The reset is confirmed. There is no mail server: inform the person, who can stop it."
    ),
    "reset_stopped": N_("The reset is stopped. The second factors stay valid."),
    "withdrawn": N_("The invitation is withdrawn. Its link no longer works."),
    "role": N_("The role is changed."),
    "removed": N_("The person is removed from the staff and has no more access."),
    "logins": N_("The person is logged out everywhere."),
}
PROVIDER_REPORT: Final = {
    "REVERSED": N_("Reversed"),
    "UNMATCHED": N_("Made at the gateway, not applied to the order"),
    "OPENED": NC_("unmatched dispute", "Opened"),
    "WON": N_("Won"),
    "LOST": N_("Lost"),
    "RECOVERED": N_("Recovered"),
}
QUEUE: Final = {
    "webhooks": N_("Webhook deliveries"),
    "mail": N_("Emails"),
    "payment_checks": N_("Payment status checks"),
    "refunds": N_("Refunds to send"),
    "settlements": N_("Settlements"),
    "reserve_releases": N_("Reserve releases"),
    "session_expiries": N_("Expiring checkout sessions"),
    "epay_notifications": N_("Epay notifications"),
    "search": N_("Search index"),
    "figures": N_("Figures and charts"),
}
RATE_STATE: Final = {
    "counts": NC_("exchange rate", "Used"),
    "too_old": N_("Too old"),
    "dropped": N_("No longer in the file"),
}
TRIAL_ACCOUNT: Final = {
    "pending": N_("Pending"),
    "available": N_("Available"),
    "frozen": N_("On hold"),
    "reserve": N_("In reserve"),
    "prepaid": N_("Prepaid"),
    "gateway": N_("Gateway clearing"),
    "bank": N_("Bank clearing"),
    "platform": N_("Fee revenue"),
}
ABOUT_TRIAL_ACCOUNT: Final = {
    "pending": N_("Owed to merchants for payments that are not settled yet."),
    "available": N_("Owed to merchants, and ready to be paid out."),
    "frozen": N_("Owed to merchants, and held for refunds and disputes in progress."),
    "reserve": N_("Owed to merchants, and kept back as their rolling reserve."),
    "prepaid": N_(
        "Owed to merchants, who have prepaid the fees of payments to their own accounts. A debit "
        "is what late payments overdrew."
    ),
    "gateway": N_(
        "Payments that gateways have taken, less refunds and lost disputes. A debit is what "
        "gateways have collected."
    ),
    "bank": N_(
        "Payouts to merchants, less credits to their balances. A credit is what has left the "
        "operator’s bank account."
    ),
    "platform": N_("Fees that merchants have paid, less corrections of their balances."),
}
# The topics of mails to staff. Those to customers, members and persons are in MAIL_TOPIC.
STAFF_MAIL_TOPIC: Final = {
    "account_change_staff": N_("Account of a person changed"),
    "factors_waiting": N_("Reset of second factors requested"),
    "application": N_("Application received"),
    "books_violated": N_("Ledger check failed"),
    "account_paused": N_("Gateway account paused"),
    "gateway_away": N_("Gateway unavailable"),
    "approval_waiting": N_("Approval needed"),
    "dispute_deadline_staff": N_("Dispute near its deadline"),
    "dispute_response": N_("Response to a dispute"),
    "test": N_("Test email"),
}
