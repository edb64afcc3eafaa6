"""The bank account that a merchant's payouts go to, as staff see and change it."""

from functools import partial
from typing import Final

from opentill.backoffice import bank_account
from opentill.backoffice.model import Page
from opentill.console.merchants import PLACE
from opentill.console.zone import ZONE

_PLACE: Final = f"{PLACE}/{{merchant:id}}/bank-account"
_HERE: Final = bank_account.Place("payouts.manage", ZONE)
pages: Final = (
    Page("GET", _PLACE, "payouts.read", partial(bank_account.show, place=_HERE)),
    Page("POST", _PLACE, "payouts.manage", partial(bank_account.save, place=_HERE)),
)
