"""The bank account that a merchant's payouts go to, as staff see, change and confirm it."""

from functools import partial
from typing import Final

from starlette.responses import Response

from opentill import merchants, payouts, people
from opentill.console.labels import BANK_ACCOUNT_ERROR
from opentill.console.merchants import PLACE
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid
from opentill.portal import bank_account, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_PLACE: Final = f"{PLACE}/{{merchant:id}}/bank-account"
_HERE: Final = bank_account.Place("payouts.manage", ZONE)


async def confirm(request: PageRequest) -> Response:
    """Let payouts go to the account again after the bank returned one. Raises NotFound."""
    form = await request.form()
    actor = people.actor_of(request.login, form.get("confirmation", "").strip())
    version, held_since = form.get("version", ""), form.get("held", "")
    try:
        seen = int(version), int(held_since)
    except ValueError:
        seen = 0, 0  # no form of ours
    merchant_id, now = request.merchant_id, request.now
    try:
        await request.app.db.run(
            lambda tx: payouts.confirm_account(tx, merchant_id, actor, now, seen)
        )
    except merchants.Stale:
        return await bank_account.show(
            request,
            _HERE,
            409,
            {
                "confirmation": N_(
                    "Nothing was confirmed: the account or its payouts have "
                    "changed since you opened this page."
                )
            },
        )
    except Invalid as problem:
        field = "reason" if problem.field == "reason" else "held"
        return await bank_account.show(
            request, _HERE, 400, {"confirmation": BANK_ACCOUNT_ERROR[field]}
        )
    place = request.path.removesuffix("/confirm")
    return render.see_other(request, f"{place}?confirmed=1")


pages: Final = (
    Page("GET", _PLACE, "payouts.read", partial(bank_account.show, place=_HERE)),
    Page("POST", _PLACE, "payouts.manage", partial(bank_account.save, place=_HERE)),
    Page("POST", f"{_PLACE}/confirm", "payouts.manage", confirm),
)
