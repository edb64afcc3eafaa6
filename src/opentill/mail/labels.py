"""Texts that mails choose by a value: statuses, kinds, fields in error."""

from typing import Final

from opentill.web.translations import N_

ACCOUNT_CHANGE: Final = {
    "authenticator_on": N_("An authenticator was set up"),
    "authenticator_off": N_("The authenticator was removed"),
    "codes": N_("Recovery codes were renewed"),
    "passkey_on": N_("A passkey was added"),
    "passkey_off": N_("A passkey was removed"),
    "password": N_("The password was changed"),
    "set_anew": N_("The account was set up anew"),
    "joined": N_("An invitation was accepted"),
    "role": N_("The role was changed"),
    "removed": N_("A role was removed"),
    "codes_wrong": N_("Wrong codes were entered with the right password"),
    "factors_asked": N_("A reset of the second factors was asked for"),
    "factors_begun": N_("A reset of the second factors has begun"),
    "factors_stopped": N_("The reset of the second factors was stopped"),
    "factors_ended": N_("The second factors were reset"),
}
MOVEMENT_KIND: Final = {
    "payout-returned": N_("Payout marked as returned"),
    "confirm": N_("Confirmation of a payment"),
    "refund": N_("Refund"),
    "refund-recorded": N_("Refund made elsewhere, to be recorded"),
    "refund-failed": N_("Refund marked as failed"),
    "refund-reversed": N_("Refund marked as reversed"),
    "dispute-won": N_("Dispute marked as won"),
    "dispute-recovered": N_("Dispute marked as recovered"),
    "payout-failed": N_("Payout marked as failed"),
    "payout": N_("Payout"),
    "freeze": N_("Freeze"),
    "unfreeze": N_("Unfreeze"),
    "recharge": N_("Recharge"),
    "correct": N_("Correction"),
    "fee": N_("Fee"),
}
