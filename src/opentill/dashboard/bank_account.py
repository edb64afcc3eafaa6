"""The bank account for the merchant's payouts; only an owner can change it."""

from functools import partial
from typing import Final

from opentill.dashboard import payout_facts
from opentill.portal import bank_account
from opentill.portal.model import DASHBOARD_PATH, Page

_PATH: Final = f"{DASHBOARD_PATH}/payouts/account"
_PLACE: Final = bank_account.Place(
    "payouts.account", None, "on the page of the bank account", payout_facts.read_schedule
)
pages: Final = (
    Page("GET", _PATH, "payouts.read", partial(bank_account.show, place=_PLACE)),
    Page(
        "POST",
        _PATH,
        "payouts.account",
        partial(bank_account.save, place=_PLACE),
        fields=bank_account.FIELDS,
        check=partial(bank_account.check, place=_PLACE),
    ),
)
