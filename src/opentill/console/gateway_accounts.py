"""The list of gateway accounts: those of the environment, then those in the database."""

from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.responses import Response

from opentill import figures, merchants
from opentill.console.zone import ZONE
from opentill.core.settings import SANDBOX
from opentill.figures import GatewaySums
from opentill.gateways import Gateways, accounts
from opentill.gateways.account import GatewayAccount
from opentill.orders.payments import day_limits
from opentill.portal import account_views, render
from opentill.portal.account_views import DAY_MS, QUARTER_MS, LimitView
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web import charts
from opentill.web.translations import N_

LAST_PAYMENT_MS: Final = 30 * DAY_MS  # older payments are not looked for


class Row(msgspec.Struct, frozen=True):
    """An account in the list."""

    id: str  # "" for an account of the environment
    label: str
    gateway: str
    state: account_views.State
    livemode: bool
    merchant_id: str | None
    limits: list[LimitView]  # those of the day, with what counts today
    rate: str  # of the last 24 hours
    last_payment: int | None


async def list_accounts(request: PageRequest) -> Response:
    """List all accounts, with the limits used today, success rate and last payment."""
    now = request.now
    until = now - now % QUARTER_MS + QUARTER_MS
    async with request.app.db.connection() as tx:
        listed = await accounts.list_accounts(tx)
        totals = await day_limits.list_totals(tx, [account.id for account in listed], now)
        sums = await figures.sum_by_gateway(tx, until - DAY_MS, until)
        last = await account_views.list_last_payments(tx, until - LAST_PAYMENT_MS)
        owners = [account.merchant_id for account in listed if account.merchant_id is not None]
        names = await merchants.names(tx, owners)
    rows = [
        *_environment_rows(request, sums, last),
        *(
            Row(
                account.id,
                account.label,
                account.gateway,
                account_views.state_of(account, request.app.gateways),
                account.livemode,
                account.merchant_id,
                [
                    view
                    for view in account_views.limit_views(request.localizer, account, totals)
                    if view.day_sum or view.day_payments
                ],
                _rate(request, sums, account.id),
                last.get(account.id),
            )
            for account in listed
        ),
    ]
    return render.page(
        request,
        "gateway_accounts.html",
        rows=rows,
        names=names,
        manages=request.may("deployment.manage"),
        choices=account_choices(request),
        zone=ZONE,
    )


def account_choices(request: PageRequest) -> Sequence[str]:
    """Return the gateways of which an account can be added here."""
    from opentill.gateways import registry

    refused = request.app.settings.sandbox_refused
    return [name for name in registry.account_gateways() if name != SANDBOX or not refused]


def _environment_rows(
    request: PageRequest, sums: Sequence[GatewaySums], last: dict[str, int]
) -> list[Row]:
    return [
        Row(
            "",
            request.account_name(name),
            name,
            environment_state(request, name),
            request.app.settings.livemode and name != SANDBOX,
            None,
            [],
            _rate(request, sums, name),
            last.get(name),
        )
        for name in environment_names(request)
    ]


def environment_names(request: PageRequest) -> list[str]:
    """Return the accounts of the environment, in the order of preference."""
    gateways = request.app.gateways
    stored: dict[str, GatewayAccount] = gateways.accounts if isinstance(gateways, Gateways) else {}
    return [name for name in gateways if name not in stored]


def environment_state(request: PageRequest, name: str) -> account_views.State:
    """Return the state of an account of the environment as this process sees it."""
    gateways = request.app.gateways
    if not isinstance(gateways, Gateways):
        return "ACTIVE"
    if name in gateways.paused:
        return "PAUSED"
    breaker = gateways.breaker(name)
    if breaker is not None and breaker.broken_at is not None:
        return "BROKEN"
    return "UNREACHABLE" if gateways.is_unreachable(name) else "ACTIVE"


def is_last_active(request: PageRequest, name: str) -> bool:
    """Whether no other account can take the deployment's payments."""
    gateways = request.app.gateways
    if not isinstance(gateways, Gateways):
        return False
    paused = {one.id for one in gateways.accounts.values() if one.status != "ACTIVE"}
    paused |= {one.id for one in gateways.accounts.values() if one.livemode != gateways.livemode}
    return not {*gateways} - {*gateways.paused, *paused, name}


def _rate(request: PageRequest, sums: Sequence[GatewaySums], name: str) -> str:
    return charts.percent(request.localizer, account_views.performance(sums, name).rate).text


PLACE: Final = f"{CONSOLE_PATH}/gateway-accounts"
ENVIRONMENT: Final = f"{PLACE}/environment"  # the page of an account of the environment
pages: Final = (
    Page(
        "GET", PLACE, "deployment.read", list_accounts, menu=N_("Gateway accounts"), group="system"
    ),
)
