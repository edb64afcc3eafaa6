"""Names of roles and of movements of money, which mails and pages share."""

from collections.abc import Mapping
from typing import Final

from opentill.people import MerchantRole, StaffRole
from opentill.web.translations import N_, NC_

ROLE: Final[Mapping[MerchantRole, str]] = {
    "owner": N_("Owner"),
    "finance": N_("Finance"),
    "support": N_("Support"),
    "developer": N_("Developer"),
    "viewer": N_("Viewer"),
}
STAFF_ROLE: Final[Mapping[StaffRole, str]] = {
    "admin": N_("Administrator"),
    "finance": N_("Finance"),
    "support": N_("Support"),
    "auditor": N_("Auditor"),
}
# Kinds of requests that may need a second person, and of adjustments.
MOVEMENT_KIND: Final = {
    "payout-returned": N_("Payout marked as returned"),
    "confirm": N_("Confirmation of a payment"),
    "refund": N_("Refund"),
    "refund-recorded": N_("Refund made outside OpenTill"),
    "refund-failed": N_("Refund marked as failed"),
    "refund-reversed": N_("Refund marked as reversed"),
    "dispute-won": N_("Dispute marked as won"),
    "dispute-recovered": N_("Dispute marked as recovered"),
    "payout-failed": N_("Payout marked as failed"),
    "payout": N_("Payout"),
    "payout-run": N_("Payout run"),
    "freeze": N_("Hold"),
    "unfreeze": N_("Release"),
    "recharge": NC_("adjustment", "Credit"),
    "correct": N_("Correction"),
    "fee": N_("Fee"),
    "topup": N_("Top-up of the prepaid balance"),
    "prepay": N_("Transfer to the prepaid balance"),
    "unprepay": N_("Transfer from the prepaid balance"),
}
