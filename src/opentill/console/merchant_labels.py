"""Texts that pages of a merchant choose by a value: terms, status, capabilities."""

from typing import Final

from opentill.web.translations import N_, NC_

ABOUT_CAPABILITY: Final = {
    "charge": N_("Customers can pay, and new sessions can be created."),
    "refund": N_("The merchant can refund payments."),
    "payout": N_("Available money can be paid out."),
}
ABOUT_CAPABILITY_OFF: Final = {
    "charge": N_("Customers cannot pay any more, and no new sessions can be created."),
    "refund": N_("The merchant cannot refund payments any more. Staff still can."),
    "payout": N_("Available money is not paid out any more."),
}
ABOUT_STANDING_ACTION: Final = {
    "approved": N_(
        "The merchant can take payments at once. The applicant gets a link by email that makes "
        "them its owner. Without a mail server the link is shown to you: send it to them."
    ),
    "declined": N_("The merchant is closed. Nobody is notified: let the applicant know."),
    "suspended": N_(
        "No sessions, payments or payouts can be started any more. Those under way are completed, "
        "and customers still get refunds."
    ),
    "resumed": N_("What was switched off separately stays off."),
    "closed": N_(
        "API keys, members, endpoints and Epay stop working. Staff can still view its books."
    ),
}
ACCOUNT_STATE: Final = {
    "none": N_("No bank account yet: nothing can be paid out."),
    "held": N_("Payouts wait, because the bank sent one back."),
    "waits": N_("Payouts wait, because the account was changed."),
    "usable": N_("Payouts go to this account."),
}
CAPABILITY: Final = {
    "charge": N_("Payments"),
    "refund": N_("Refunds"),
    "payout": N_("Payouts"),
}
CAPABILITY_RESULT: Final = {
    "charge-on": N_("Payments are switched on."),
    "charge-off": N_("Payments are switched off."),
    "refund-on": N_("Refunds are switched on."),
    "refund-off": N_("Refunds are switched off."),
    "payout-on": N_("Payouts are switched on."),
    "payout-off": N_("Payouts are switched off."),
}
CAPABILITY_SWITCH: Final = {
    "on": N_("Switch on"),
    "off": N_("Switch off"),
    "keep_off": N_("Keep off after the suspension"),
    "on_later": N_("Switch on after the suspension"),
}
FEE_ROW: Final = {
    "method": N_("Payment method"),
    "currency": N_("Currency"),
    "rate": N_("Rate (%)"),
    "fixed": N_("Plus, per payment"),
}
STANDING_ACTION: Final = {
    "approved": NC_("merchant status", "Approve"),
    "declined": N_("Decline"),
    "suspended": N_("Suspend"),
    "resumed": NC_("merchant status", "Resume"),
    "closed": N_("Close for good"),
}
STANDING_BUTTON: Final = {
    "approved": "button",
    "declined": "button plain bad",
    "suspended": "button plain bad",
    "resumed": "button",
    "closed": "button plain bad",
}
STANDING_RESULT: Final = {
    "suspended": N_("The merchant is suspended."),
    "resumed": N_("The merchant is active again."),
    "declined": N_("The application is declined."),
    "closed": N_("The merchant is closed."),
    "noted": N_("The note is added."),
}
TERM: Final = {
    "platform_fee_rate": NC_("terms", "Fee"),
    "fees": N_("Fee schedule"),
    "refund_fee_policy": N_("Fee on refunds"),
    "overdraft_minor": N_("Overdraft limit"),
    "settlement_delay_days": N_("Settlement delay (days)"),
    "settlement_calendar": N_("Days counted"),
    "reserve_rate": N_("Rolling reserve"),
    "reserve_days": N_("Reserve held (days)"),
    "dispute_fee_minor": N_("Fee for a lost dispute"),
    "payout_minimum_minor": N_("Minimum payout"),
    "ip_allowlist": N_("Allowed API addresses"),
}
TERM_ERROR: Final = {
    "percent": N_("Enter a number from 0 to below 100 with at most four decimals, such as 2.9"),
    "amount": N_("Enter an amount such as 15.00 or 1,200.50"),
    "days": N_("Enter a whole number of days: at most 365 until settlement, 3650 for the reserve"),
    "choice": N_("Choose one of the values"),
    "rows": N_("This schedule has too many rows, or a row that is not accepted"),
    "addresses": N_("Enter addresses or networks such as 192.0.2.0/24"),
}
TERM_HINT: Final = {
    "rows": N_(
        "Fees that differ from the fee of all payments, by payment method. A row with a currency "
        "counts before one for all currencies."
    ),
    "addresses": N_(
        "One address or network per row, such as 192.0.2.0/24. Leave it empty to allow all."
    ),
}
TERM_VALUE: Final = {
    "KEPT": N_("Not returned"),
    "RETURNED": N_("Returned in proportion"),
    "EVERY_DAY": N_("Every day"),
    "WEEKDAYS": N_("Weekdays"),
}
