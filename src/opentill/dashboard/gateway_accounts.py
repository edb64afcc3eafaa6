"""A merchant's own accounts at payment providers: list, page, pause, resume and retire.

The forms with credentials are those of the console (``portal/account_forms.py``). What concerns the
order among accounts, their costs and when they pause themselves is the operator's.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from starlette.responses import Response

from opentill import figures, ledger, merchants
from opentill.core.errors import Invalid, NotPermitted
from opentill.dashboard import page_helpers
from opentill.db.database import Tx
from opentill.figures import GatewaySums
from opentill.gateways import Gateways, accounts
from opentill.gateways.account import AccountStatus, GatewayAccount
from opentill.orders.payments import day_limits
from opentill.portal import account_forms, account_views, credential_fields, render
from opentill.portal.account_views import DAY_MS, QUARTER_MS
from opentill.portal.gateway_labels import GATEWAY_TITLE
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web import charts
from opentill.web.translations import N_

PLACE: Final = f"{DASHBOARD_PATH}/settings/gateway-accounts"
_REASON: Final = "on the page of the gateway accounts"
_LAST_PAYMENT_MS: Final = 30 * DAY_MS  # older payments are not looked for
State = account_views.State | Literal["UNFUNDED"]


class Row(msgspec.Struct, frozen=True):
    """An account of the merchant and how it does."""

    account: GatewayAccount
    state: State
    rate: str  # of the last 24 hours
    attempts: str
    volumes: Sequence[str]
    last_payment: int | None


class Overview(msgspec.Struct, frozen=True):
    """What the operator allows a merchant, and the merchant's accounts."""

    allowed: Sequence[str]
    rows: Sequence[Row]


async def _read(request: PageRequest, only: str | None = None) -> Overview:
    """Return the merchant's accounts, or only one of them. Raises NotFound."""
    merchant_id, now, localizer = request.access.merchant_id, request.now, request.localizer
    until = now - now % QUARTER_MS + QUARTER_MS
    async with request.app.db.connection() as tx:
        allowed = await accounts.list_allowed(tx, merchant_id)
        if only is None:
            own = await accounts.list_own(tx, merchant_id)
        else:
            own = [await accounts.find_own(tx, merchant_id, only)]
        ids = [account.id for account in own]
        day, last = list[GatewaySums](), dict[str, int]()
        if ids:
            day = await figures.sum_by_gateway(tx, until - DAY_MS, until, ids)
            last = await figures.list_last_payments(tx, until - _LAST_PAYMENT_MS, ids)
        currency = (await merchants.find(tx, merchant_id)).settlement_currency
        prepaid = await ledger.find_prepaid_state(tx, merchant_id, currency, now)
        is_funded = prepaid.level != "EMPTY"
    rows: list[Row] = []
    for account in own:
        state: State = account_views.state_of(account, request.app.gateways)
        performance = account_views.performance(day, account.id)
        rows.append(
            Row(
                account,
                "UNFUNDED" if state == "ACTIVE" and not is_funded else state,
                charts.percent(localizer, performance.rate).text,
                localizer.number(performance.attempts),
                account_views.volumes(localizer, day, account.id),
                last.get(account.id),
            )
        )
    return Overview(allowed, rows)


async def list_accounts(request: PageRequest) -> Response:
    """List the merchant's accounts, with success rate and last payment."""
    overview = await _read(request)
    return render.page(
        request,
        "gateway_accounts.html",
        rows=overview.rows,
        choices=_offered(request, overview.allowed),
        named_providers=_name_providers(request),
        manages=request.may("gateways.manage"),
        most=accounts.MOST_OWN,
        zone=page_helpers.zone_of(request),
    )


def _offered(request: PageRequest, allowed: Sequence[str]) -> list[str]:
    """Return the allowed gateways that this deployment can still have accounts of."""
    return [name for name in accounts.allowable(request.app.settings) if name in allowed]


def _name_providers(request: PageRequest) -> list[str]:
    """Return the names of the providers that the operator can allow here."""
    names = (GATEWAY_TITLE.get(name, name) for name in accounts.allowable(request.app.settings))
    return [request.localizer.gettext(name) for name in names]


async def _list_choices(request: PageRequest) -> Sequence[str]:
    async with request.app.db.connection() as tx:
        allowed = await accounts.list_allowed(tx, request.access.merchant_id)
    return _offered(request, allowed)


async def _find(request: PageRequest, tx: Tx) -> GatewayAccount:
    """Return the account in the path. Raises NotFound, also for one of somebody else."""
    return await accounts.find_own(tx, request.access.merchant_id, request.ids["account"])


async def _find_owner(request: PageRequest, _text: str) -> str | None:
    return request.access.merchant_id


async def show_account(request: PageRequest) -> Response:
    """Show an account. Raises NotFound."""
    return await _page(request)


async def _page(
    request: PageRequest, status: int = 200, errors: dict[str, str] | None = None
) -> Response:
    overview = await _read(request, request.ids["account"])
    (row,), localizer, gateways = overview.rows, request.localizer, request.app.gateways
    account = row.account
    async with request.app.db.connection() as tx:
        totals = await day_limits.list_totals(tx, [account.id], request.now)
    return render.page(
        request,
        "gateway_account.html",
        status,
        row=row,
        account=account,
        state=row.state,
        is_allowed=account.gateway in _offered(request, overview.allowed),
        is_unreadable=isinstance(gateways, Gateways) and account.id in gateways.unreadable,
        methods=account_views.methods_text(localizer, account.methods),
        limits=account_views.limit_views(localizer, account, totals),
        hints=credential_fields.hints_of(account),
        callback_url=request.app.settings.public_url + account.callback_path,
        overlaps=account.previous_until is not None and account.previous_until > request.now,
        manages=request.may("gateways.manage"),
        errors=errors or {},
        zone=page_helpers.zone_of(request),
    )


_STATUSES: Final[dict[str, AccountStatus]] = {
    "ACTIVE": "ACTIVE",
    "PAUSED": "PAUSED",
    "RETIRED": "RETIRED",
}


async def set_status(request: PageRequest) -> Response:
    """Pause, resume or retire an account. Idempotent. Raises NotFound."""
    status = _STATUSES.get((await request.form())["status"])
    if status is None:
        return await _page(request, 400, {"status": N_("Choose what to do")})
    merchant_id, account_id = request.access.merchant_id, request.ids["account"]
    actor = _FORMS.actor(request)

    async def work(tx: Tx) -> None:
        await accounts.set_own_status(tx, merchant_id, account_id, status, request.now, actor=actor)

    try:
        await request.app.db.run(work)
    except Invalid:
        error = N_("A retired account stays retired. Add the account again")
        return await _page(request, 400, {"status": error})
    except NotPermitted:
        error = N_("Only the operator can resume this account")
        return await _page(request, 403, {"status": error})
    await accounts.load_changes(request.app.gateways)
    return render.see_other(request, f"{_FORMS.path(request)}/{account_id}?done={status}")


_FORMS: Final = account_forms.Place(
    base=PLACE,
    reads="gateways.read",
    manages="gateways.manage",
    reason=_REASON,
    choices=_list_choices,
    find=_find,
    find_owner=_find_owner,
    by_merchant=True,
)
_ACCOUNT: Final = f"{PLACE}/{{account:id}}"
pages: Final = (
    Page("GET", PLACE, "gateways.read", list_accounts),
    *account_forms.pages(_FORMS),
    Page("GET", _ACCOUNT, "gateways.read", show_account),
    Page(
        "POST",
        f"{_ACCOUNT}/status",
        "gateways.manage",
        set_status,
        fields=("status",),
        proves=N_("Change a gateway account"),
        about=_FORMS.about,
    ),
)
