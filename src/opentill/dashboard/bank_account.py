"""The bank account for the merchant's payouts; only an owner can change it."""

from functools import partial
from typing import Final

from opentill.portal import bank_account
from opentill.portal.model import DASHBOARD_PATH, Page

_PLACE: Final = f"{DASHBOARD_PATH}/payouts/account"
_HERE: Final = bank_account.Place("payouts.account", None, "on the page of the bank account")
pages: Final = (
    Page("GET", _PLACE, "payouts.read", partial(bank_account.show, place=_HERE)),
    Page("POST", _PLACE, "payouts.account", partial(bank_account.save, place=_HERE)),
)
