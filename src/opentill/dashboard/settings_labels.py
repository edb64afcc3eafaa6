"""The names of the pages of the settings."""

from typing import Final

from opentill.web.translations import N_

SETTINGS_PARTS: Final = {
    "business": N_("Business"),
    "branding": N_("Branding"),
    "fees": N_("Fees and payouts"),
}
