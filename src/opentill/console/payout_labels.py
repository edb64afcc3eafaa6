"""Texts that pages of payouts choose by a value: statuses, kinds, fields in error."""

from typing import Final

from opentill.web.translations import N_, NC_

ABOUT_PAYOUT_ACTION: Final = {
    "paid": N_("The bank has sent it. No balance changes."),
    "failed": N_("The bank cannot send it. {amount} returns to the merchant’s available balance."),
    "returned": N_(
        "The money is on your bank account again. {amount} returns to "
        "the merchant’s available balance, and the merchant gets an "
        "event and a mail."
    ),
}
ABOUT_RUN_STATUS: Final = {
    "OPEN": N_("Not all payouts are made yet."),
    "READY": N_("All payouts are made. Nobody has taken the file yet."),
    "SENT": N_("Somebody has taken the file for the bank; what is in it does not change any more."),
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
    "payout": N_("Nothing was done: this payout has another status meanwhile."),
}
REPORT_RESULT: Final = {
    "new": N_("Read: {sent} sent, {returned} came back, {found} in the inbox."),
    "before": N_("This file was read before. Nothing was changed."),
}
RUN_ERROR: Final = {
    "currency": N_("Choose a currency that you have an account in."),
    "reference": N_("Enter a reference of 1 to 64 characters that no other run has."),
    "on": N_("Choose a day from today on."),
    "reason": N_("Say why, in a few words."),
}
RUN_FILE: Final = {
    "xml": N_("Take as XML (pain.001)"),
    "csv": N_("Take as CSV"),
}
RUN_FILE_ERROR: Final = {
    "invited": N_(
        "Whoever began the run has invited this person or given them a "
        "new password within the last 72 hours. Somebody else must "
        "take the file."
    ),
    "browser": N_(
        "Whoever began the run has logged in in this browser. Take the "
        "file in a browser of your own."
    ),
    "by": N_(
        "Somebody else must take this file than who began the run: a payout is above the limit."
    ),
    "run": N_("There is nothing in this run that can be sent."),
    "format": N_("The file was taken in another form already."),
}
RUN_PAYMENT_ERROR: Final = {
    "reference": N_("Enter the bank’s reference, at most 140 characters."),
    "reason": N_("Say why, in a few words."),
    "run": N_("Nothing was done: nobody has taken the file of this run yet."),
}
RUN_PAYOUT_STATUS: Final = {
    "PENDING": N_("On its way"),
    "PAID": NC_("payout run", "Paid"),
    "FAILED": N_("Came back"),
}
RUN_STATUS: Final = {
    "OPEN": N_("Being made"),
    "READY": N_("Ready"),
    "SENT": NC_("payout run", "Sent"),
}
WITHHELD_REASON: Final = {
    "no_account": N_("No bank account"),
    "account_changed": N_("Account changed, waits until"),
    "payout_returned": N_("Bank returned a payout: needs another or a confirmed account"),
    "below_minimum": N_("Less than the minimum"),
}
