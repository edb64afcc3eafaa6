"""The page of a gateway account: state, terms, health, figures; and pause, resume and retire."""

from functools import partial
from typing import Final

from starlette.responses import Response

from opentill import merchants, people
from opentill.console import account_figures, gateway_tests
from opentill.console.gateway_accounts import PLACE, is_last_active
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.gateways import Gateways, accounts
from opentill.gateways.account import AccountStatus, GatewayAccount
from opentill.gateways.accounts import service
from opentill.orders.payments import day_limits
from opentill.portal import account_views, credential_fields, render
from opentill.portal.model import Facts, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_, NC_

REASON: Final = "in the console"
_STATUSES: Final[dict[str, AccountStatus]] = {
    "ACTIVE": "ACTIVE",
    "PAUSED": "PAUSED",
    "RETIRED": "RETIRED",
}


async def find_account(request: PageRequest, tx: Tx) -> GatewayAccount:
    """Return the account in the path. Raises NotFound."""
    return await accounts.find(tx, request.ids["account"])


async def about_account(request: PageRequest) -> Facts:
    """Return the account in the path, for the page that asks for a proof of identity."""
    async with request.app.db.connection() as tx:
        return [(NC_("table heading", "Account"), (await find_account(request, tx)).name)]


async def show_account(request: PageRequest) -> Response:
    """Show an account. Raises NotFound."""
    return await show_page(request)


async def show_page(
    request: PageRequest, status: int = 200, errors: dict[str, str] | None = None, wait: str = ""
) -> Response:
    """Show the page of the account in the path, with errors of its forms."""
    now, localizer, gateways = request.now, request.localizer, request.app.gateways
    async with request.app.db.connection() as tx:
        account = await find_account(request, tx)
        totals = await day_limits.list_totals(tx, [account.id], now)
        account_sums = await account_figures.read(tx, request, account.id)
        owner = [] if account.merchant_id is None else [account.merchant_id]
        names = await merchants.names(tx, owner)
        test = None
        if account.status == "ACTIVE" and account.id in gateways and request.may("orders.decide"):
            values: dict[str, str] = dict.fromkeys(gateway_tests.FIELDS, "")
            values["merchant"] = names.get(account.merchant_id or "", "")
            test = await gateway_tests.read_test_form(request, tx, account.id, values)
    unreadable = gateways.unreadable.get(account.id, "") if isinstance(gateways, Gateways) else ""
    return render.page(
        request,
        "gateway_account.html",
        status,
        account=account,
        state=account_views.state_of(account, gateways),
        unreadable=unreadable,
        is_last_active=is_last_active(request, account.id),
        test=test,
        is_live=account.livemode,
        owner=names.get(account.merchant_id or "", account.merchant_id or ""),
        methods=account_views.methods_text(localizer, account.methods),
        limits=account_views.limit_views(localizer, account, totals),
        hints=credential_fields.hints_of(account),
        breaker=accounts.breaker_text(account),
        callback_url=request.app.settings.public_url + account.callback_path,
        overlaps=account.previous_until is not None and account.previous_until > now,
        **account_sums,
        manages=request.may("deployment.manage"),
        errors=errors or {},
        wait=wait,
        zone=ZONE,
    )


async def set_status(request: PageRequest) -> Response:
    """Pause, resume or retire an account. Idempotent."""
    status = _STATUSES.get((await request.form()).get("status", ""))
    if status is None:
        return await show_page(request, 400, {"status": N_("Choose what to do")})
    account_id, actor = request.ids["account"], people.actor_of(request.login, REASON)
    try:
        await request.app.db.run(
            partial(
                accounts.set_status,
                account_id=account_id,
                status=status,
                now=request.now,
                actor=actor,
            )
        )
    except Invalid:
        error = N_("A retired account stays retired. Add the account again")
        return await show_page(request, 400, {"status": error})
    await accounts.load_changes(request.app.gateways)
    return render.see_other(request, f"{PLACE}/{account_id}?done={status}")


async def check_account(request: PageRequest) -> Response:
    """Ask the provider whether it accepts an account."""
    account_id = request.ids["account"]
    try:
        async with request.app.db.connection() as tx:
            stored = await accounts.find_stored(tx, account_id)
        adapter = service.build_stored(stored, request.app.settings)
    except Invalid as problem:
        error = N_("The stored credentials cannot be used: {wait}")
        return await show_page(request, 409, {"check": error}, str(problem.reason))
    refusal = await accounts.check(adapter)
    if refusal is not None:
        text = credential_fields.in_words(refusal, request.localizer.gettext)
        error = N_("The provider refuses the credentials: {wait}")
        if not refusal.was_asked:
            error = N_("The provider could not be asked, so nothing was checked: {wait}")
        return await show_page(request, 409, {"check": error}, text)
    return render.see_other(request, f"{PLACE}/{account_id}?done=accepted")


_PLACE: Final = f"{PLACE}/{{account:id}}"
pages: Final = (
    Page("GET", _PLACE, "deployment.read", show_account),
    Page(
        "POST",
        f"{_PLACE}/status",
        "deployment.manage",
        set_status,
        fields=("status",),
        proves=N_("Change a gateway account"),
        about=about_account,
    ),
    Page(
        "POST",
        f"{_PLACE}/check",
        "deployment.manage",
        check_account,
        proves=N_("Check a gateway account at its provider"),
        about=about_account,
    ),
)
