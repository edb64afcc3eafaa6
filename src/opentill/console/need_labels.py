"""Texts of what needs attention, on the console's home page and on pages of their own."""

from typing import Final

from opentill.web.translations import N_, NC_

NEED: Final = {
    "books": N_("Findings in the books: {number}"),
    "broken_accounts": N_("Gateway accounts that paused themselves: {number}"),
    "differences": N_("Differences between reports and books: {number}"),
    "responses": N_("Dispute responses to forward: {number}"),
    "disputes": N_("Disputes near their deadline: {number}"),
    "open_disputes": N_("Open disputes: {number}"),
    "unmatched": N_("Disputes without an order: {number}"),
    "refund_cases": N_("Refunds that need attention: {number}"),
    "deposits": N_("Token transfers that need attention: {number}"),
    "duplicates": N_("Second payments not refunded: {number}"),
    "paid_twice": N_("Epay numbers that were paid twice: {number}"),
    "failed_refunds": N_("Failed refunds: {number}"),
    "refunds": N_("Refunds that no gateway reports: {number}"),
    "stuck": N_("Payments of which no gateway knows the end: {number}"),
    "endpoints": N_("Webhook endpoints that are disabled: {number}"),
    "notices": N_("Epay shops without their notification: {number}"),
    "approvals": N_("Approvals to give: {number}"),
    "resets": N_("Resets of second factors to confirm: {number}"),
    "applications": N_("Applications to decide: {number}"),
    "returned": N_("Payouts that banks returned: {number}"),
}
# Headings of the columns of lists; ``NEED_TIME`` has those of the times.
NEED_COLUMN: Final = {
    "customer": N_("Customer"),
    "merchant": N_("Merchant"),
    "number": N_("Epay number"),
    "payout": N_("Payout"),
    "endpoint": N_("Endpoint"),
    "reason": N_("Reason"),
    "response": N_("Response"),
    "amount": N_("Amount"),
}
NEED_TEXT: Final = {
    "responses": N_(
        "Merchants contested or accepted these disputes. Submit the evidence to the payment "
        "provider, or accept the dispute there, and mark the response as forwarded when you have."
    ),
    "disputes": N_(
        "Respond to these disputes at the gateway. Their deadline is within three days, or over."
    ),
    "unmatched": N_(
        "Disputes that a gateway reported and that do not fit their payment. OpenTill retries "
        "them automatically."
    ),
    "refund_cases": N_(
        "Refunds that a gateway reversed, and refunds that were made "
        "at a gateway but do not fit their order. The latter are "
        "retried automatically."
    ),
    "deposits": N_(
        "Customers sent more tokens than were due or tokens that the account does not take, or a "
        "confirmed transfer disappeared from its chain. Send tokens back from your wallet, then "
        "record here what you did."
    ),
    "duplicates": N_(
        "Customers paid the same order twice, and the second payment was not refunded: the gateway "
        "refused to, or has not reported it within an hour."
    ),
    "paid_twice": N_(
        "Two orders with the same out_trade_no are paid, because the payment of an older one "
        "arrived late. Refund one of them."
    ),
    "failed_refunds": N_(
        "These customers did not get their money, which is back on the merchants’ balances. "
        "Refund the payment again, or mark the refund as handled."
    ),
    "refunds": N_(
        "Refunds that were requested more than a day ago and whose result the gateway has not "
        "reported. The merchants’ money is held."
    ),
    "stuck": N_(
        "Payments that were submitted more than 15 minutes ago and have no result yet. OpenTill "
        "keeps asking the gateway. If the gateway reported another amount, decide on the "
        "payment’s page."
    ),
    "endpoints": N_(
        "Endpoints that were disabled because they kept failing. Their shops get no events until "
        "somebody enables them."
    ),
    "notices": N_("Paid orders of the last two weeks whose shop did not accept the notification."),
    "returned": N_(
        "The bank returned these payouts, and the money is available again. Ask the merchant for "
        "the right bank account, or confirm the account on the merchant’s page of the bank account."
    ),
}
NEED_TIME: Final = {
    "unmatched": N_("Reported"),
    "refund_cases": N_("Reported"),
    "responses": NC_("dispute", "Responded"),
    "disputes": N_("Respond by"),
    "deposits": NC_("payment", "Received"),
    "duplicates": NC_("payment", "Received"),
    "paid_twice": N_("Paid twice since"),
    "failed_refunds": NC_("refund", "Failed"),
    "refunds": NC_("refund", "Requested"),
    "stuck": NC_("needs attention", "Since"),
    "endpoints": N_("Last changed"),
    "notices": N_("Last tried"),
    "returned": NC_("needs attention", "Came back"),
}
NEED_TITLE: Final = {
    "responses": N_("Dispute responses to forward"),
    "disputes": N_("Disputes near their deadline"),
    "unmatched": N_("Disputes without an order"),
    "refund_cases": N_("Refunds that need attention"),
    "deposits": N_("Token transfers that need attention"),
    "duplicates": N_("Second payments not refunded"),
    "paid_twice": N_("Epay numbers that were paid twice"),
    "failed_refunds": N_("Failed refunds"),
    "refunds": N_("Refunds that no gateway reports"),
    "stuck": N_("Payments without an end"),
    "endpoints": N_("Disabled webhook endpoints"),
    "notices": N_("Epay shops without their notification"),
    "returned": N_("Payouts that banks returned"),
}
# What kind of case a token transfer is.
DEPOSIT_CASE: Final = {
    "EXCESS": N_("More arrived than was due"),
    "UNKNOWN_TOKEN": N_("A token that the account does not take"),
    "REORGANIZED": N_("A confirmed transfer disappeared from its chain"),
}
