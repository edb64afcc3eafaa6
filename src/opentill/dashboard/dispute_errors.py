"""Errors of the forms of a dispute."""

from typing import Final

from opentill.web.translations import N_

EVIDENCE_ERROR: Final = {
    "missing": N_("Choose a file that is not empty"),
    "kind": N_("Choose a PDF, PNG or JPEG file: this one has other content, or is not whole"),
    "size": N_("Choose a file of at most 5 MB"),
    "many": N_("A dispute has at most 10 files"),
    "accepted": N_("The dispute is accepted: no more files are taken"),
    "closed": N_("The dispute is decided: no more files are taken"),
    "responded": N_("The file was not removed: the dispute has been responded to or decided"),
}
EXPLANATION_ERROR: Final = {
    "missing": N_("Explain why the customer owes the money, add a file or fill in a field"),
    "text": N_("Enter plain text of 1 to 5,000 characters"),
    "many": N_("There can be at most 100 notes: leave the explanation empty"),
}
RESPONSE_ERROR: Final = {
    "response": N_("Choose whether to accept or to contest the dispute"),
    "late": N_(
        "The dispute has changed since you opened this page: somebody has responded, or the bank "
        "has decided. Nothing was changed"
    ),
}
