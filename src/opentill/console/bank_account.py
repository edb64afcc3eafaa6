"""Staff see, change and confirm the bank account of a merchant's payouts."""

from functools import partial
from typing import Final

from starlette.responses import Response

from opentill import merchants, payouts, people
from opentill.console import proof_facts
from opentill.console.labels import GIVE_A_REASON
from opentill.console.merchants import PLACE
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid
from opentill.portal import bank_account, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_PLACE: Final = f"{PLACE}/{{merchant:id}}/bank-account"
_CONSOLE: Final = bank_account.Place("payouts.manage", ZONE)
_CHANGED: Final = N_(
    "Nothing was confirmed: the account or its payouts have changed since you opened this page."
)


async def confirm_bank_account(request: PageRequest) -> Response:
    """Resume payouts to the account after the bank has returned one. Raises NotFound."""
    form = await request.form()
    actor = people.actor_of(request.login, form.get("confirmation", "").strip())
    try:
        shown_state = int(form.get("version", "")), int(form.get("held", ""))
    except ValueError:
        # The form is not from this page. No account is in the state 0, 0, so the form counts as
        # outdated.
        shown_state = 0, 0
    merchant_id, now = request.merchant_id, request.now
    try:
        await request.app.db.run(
            lambda tx: payouts.confirm_account(tx, merchant_id, actor, now, shown_state)
        )
    except merchants.Stale:
        return await bank_account.show(request, _CONSOLE, 409, {"confirmation": _CHANGED})
    except Invalid as problem:
        error = GIVE_A_REASON if problem.field == "reason" else _CHANGED
        return await bank_account.show(request, _CONSOLE, 400, {"confirmation": error})
    return render.see_other(request, f"{request.path.removesuffix('/confirm')}?confirmed=1")


pages: Final = (
    Page("GET", _PLACE, "payouts.read", partial(bank_account.show, place=_CONSOLE)),
    Page(
        "POST",
        _PLACE,
        "payouts.manage",
        partial(bank_account.save, place=_CONSOLE),
        fields=(*bank_account.FIELDS, "reason"),
        check=partial(bank_account.check, place=_CONSOLE),
        proves=N_("Change the bank account of a merchant"),
        about=proof_facts.of_merchant,
    ),
    Page(
        "POST",
        f"{_PLACE}/confirm",
        "payouts.manage",
        confirm_bank_account,
        fields=("version", "held", "confirmation"),
        proves=N_("Confirm the bank account of a merchant"),
        about=proof_facts.of_merchant,
    ),
)
