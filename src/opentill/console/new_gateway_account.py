"""Adding a gateway account in the console, and replacing its credentials."""

from collections.abc import Sequence
from typing import Final

from opentill import merchants
from opentill.console.gateway_account import REASON, find_account
from opentill.console.gateway_accounts import PLACE, account_choices
from opentill.console.gateway_tests import find_merchant_id
from opentill.portal import account_forms
from opentill.portal.request import PageRequest


async def _list_choices(request: PageRequest) -> Sequence[str]:
    return account_choices(request)


async def _find_owner(request: PageRequest, text: str) -> str | None:
    """Return the id of the merchant that was entered, None for the operator. Raises NotFound."""
    if not text:
        return None
    async with request.app.db.connection() as tx:
        merchant_id = await find_merchant_id(tx, text)
        return (await merchants.find(tx, merchant_id)).id


_FORMS: Final = account_forms.Place(
    base=PLACE,
    reads="deployment.read",
    manages="deployment.manage",
    reason=REASON,
    choices=_list_choices,
    find=find_account,
    find_owner=_find_owner,
    by_merchant=False,
)
pages: Final = account_forms.pages(_FORMS)
