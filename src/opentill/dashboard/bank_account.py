"""The bank account that a merchant's payouts go to: its last characters, and a form for another.

The form says which version it changes, so that two owners do not undo each other's work unseen. The
whole number is never shown again.
"""

from typing import Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import merchants, payouts, people
from opentill.backoffice import render
from opentill.backoffice.model import OF_MERCHANT, Page
from opentill.backoffice.request import PageRequest
from opentill.core import bankaccounts
from opentill.core.errors import Invalid

_FIELDS: Final = ("holder", "account", "country", "bic", "bank_code")
_NAMES: Final = {"bankCode": "bank_code"}


async def show(request: PageRequest) -> Response:
    """Show where payouts go, with a form for whoever may change it."""
    return await _page(request)


async def _page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    typed: dict[str, str] | None = None,
) -> Response:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        stored = await payouts.account(tx, request.merchant_id)
    waits = stored is not None and stored.usable_from > request.now
    return render.page(
        request,
        "bank_account.html",
        status,
        stored=stored,
        waits=waits,
        zone=ZoneInfo(merchant.time_zone),
        values={name: (typed or {}).get(name, "") for name in _FIELDS},
        hold_days=request.app.settings.bank_account_hold_days,
        errors=errors or {},
    )


async def save(request: PageRequest) -> Response:
    """Send payouts to another account from now on."""
    form = await request.form()
    typed = {name: form.get(name, "") for name in _FIELDS}
    settings = request.app.settings
    try:
        account = bankaccounts.checked(
            typed["holder"],
            typed["account"],
            country=typed["country"],
            bic=typed["bic"],
            bank_code=typed["bank_code"],
        )
    except Invalid as problem:
        field = _NAMES.get(str(problem.field), str(problem.field))
        return await _page(request, 400, {field: f"error_bank_{field}"}, typed)
    rule = payouts.HoldRule(settings.secret_key, settings.bank_account_hold_days)
    actor = people.actor_of(request.login, "on the page of the bank account")
    seen = form.get("version", "")
    try:
        await request.app.db.run(
            lambda tx: payouts.change_account(
                tx,
                request.merchant_id,
                account,
                actor,
                rule,
                request.now,
                int(seen) if seen.isascii() and seen.isdecimal() and len(seen) < 9 else -1,  # noqa: PLR2004 - digits
            )
        )
    except merchants.Stale:
        return await _page(request, 409, {"account": "error_bank_stale"}, typed)
    return render.see_other(request, f"/dashboard/{request.merchant_id}/payouts/account?saved=1")


_PLACE: Final = f"{OF_MERCHANT}/payouts/account"
pages: Final = (
    Page("GET", _PLACE, "payouts.read", show),
    Page("POST", _PLACE, "payouts.account", save),
)
