"""Texts that pages of payouts choose by a value: statuses, kinds, fields in error."""

from typing import Final

from opentill.web.translations import N_, NC_

ABOUT_PAYOUT_ACTION: Final = {
    "paid": N_("The bank has sent it. No balance changes."),
    "failed": N_("The bank cannot send it. {amount} returns to the merchant’s available balance."),
    "returned": N_(
        "The money is on your bank account again. {amount} returns to the merchant’s "
        "available balance, and the merchant gets an event and a mail."
    ),
}
ABOUT_RUN_STATUS: Final = {
    "OPEN": N_("Not all payouts are created yet."),
    "READY": N_("All payouts are created. Download the bank file next."),
    "SENT": N_("The bank file has been downloaded. Its content does not change any more."),
    "PAID": N_("The bank has booked the file. No payout of the run is on its way any more."),
    "FAILED": N_("All payouts of the run failed or came back."),
    "EMPTY": N_("No payout was due when this run was started. There is nothing to send."),
}
PAYOUT_ACTION: Final = {
    "paid": N_("Mark as paid"),
    "failed": N_("Mark as failed"),
    "returned": N_("Mark as returned"),
}
PAYOUT_ACTION_RESULT: Final = {
    "paid": N_("The payout is paid."),
    "failed": N_("The payout has failed, and its money is available again."),
    "returned": N_("The payout was returned, and its money is available again."),
}
PAYOUT_ERROR: Final = {
    "reference": N_("Enter the bank’s reference, at most 140 characters."),
    "reason": N_("Say why, in a few words."),
    "payout": N_("Nothing was done: the status of this payout has changed meanwhile."),
}
PAYOUT_FILTER_ERROR: Final = {"amount": N_("Enter an amount such as 24.90 or $24.90")}
PAYOUT_STATUS: Final = {
    "PENDING": NC_("payout", "Pending"),
    "PAID": NC_("payout run", "Paid"),
    "FAILED": N_("Failed"),
}
RETURNED_PAYOUT: Final = NC_("payout", "Returned")
REPORT_RESULT: Final = {
    "new": N_("Read: {sent} paid, {returned} came back, {found} to resolve."),
    "before": N_("This file was read before. Nothing was changed."),
}
RUN_ERROR: Final = {
    "currency": N_("Choose a currency that you have an account in."),
    "due": N_("No payout is due in this currency, so there is no run to start."),
    "reference": N_("Enter a reference of 1 to 64 characters that no other run has."),
    "on": N_("Choose a day from today on."),
    "reason": N_("Say why, in a few words."),
}
RUN_FILE: Final = {"xml": N_("XML (pain.001)"), "csv": N_("CSV")}
ABOUT_RUN_FILE: Final = {
    "xml": N_("Most banks take it."),
    "csv": N_("For banks that take no XML, and for your own programs."),
}
RUN_FILE_ERROR: Final = {
    "invited": N_(
        "Whoever started the run has invited this person or given them a new password "
        "within the last 72 hours. Somebody else must download the file."
    ),
    "browser": N_(
        "Whoever started the run has logged in in this browser. Download the file in a "
        "browser of your own."
    ),
    "by": N_(
        "A payout is above the limit. Somebody else must download this file, "
        "not whoever started the run."
    ),
    "run": N_("There is nothing in this run that can be sent."),
    "format": N_("The file was already downloaded in another format."),
}
RUN_PAYMENT_ERROR: Final = {
    "reference": N_("Enter the bank’s reference, at most 140 characters."),
    "reason": N_("Say why, in a few words."),
    "run": N_("Nothing was done: the bank file of this run has not been downloaded yet."),
}
RUN_PAYOUT_STATUS: Final = {
    "PENDING": NC_("payout", "Pending"),
    "PAID": NC_("payout run", "Paid"),
    "FAILED": N_("Came back"),
}
RUN_STATUS: Final = {
    "OPEN": N_("In progress"),
    "READY": N_("Ready"),
    "SENT": NC_("payout run", "Sent"),
    "PAID": NC_("payout run", "Paid"),
    "FAILED": N_("Came back"),
    "EMPTY": NC_("payout run", "Empty"),
}
WITHHELD_REASON: Final = {
    "payouts_off": N_("Payouts are off"),
    "other_currency": N_("Not the merchant’s settlement currency"),
    "no_account": N_("No bank account"),
    "account_changed": N_("Account changed, waits until"),
    "payout_returned": N_("Returned by the bank: confirm or replace the account"),
    "below_minimum": N_("Less than the minimum"),
}
