"""The page of an account of the environment: state, figures, pause and resume, and its breaker.

Its credentials and methods are settings; a pause and the breaker are stored.
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from opentill import people
from opentill.console import account_figures, breaker_form, gateway_tests
from opentill.console.gateway_account import REASON
from opentill.console.gateway_accounts import (
    ENVIRONMENT,
    environment_names,
    environment_state,
    is_last_active,
)
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Tx
from opentill.gateways import accounts, callback_url
from opentill.gateways.accounts import AccountChanges, EnvironmentStatus
from opentill.portal import account_views, render
from opentill.portal.model import Facts, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_, NC_

_STATUSES: Final[dict[str, EnvironmentStatus]] = {"ACTIVE": "ACTIVE", "PAUSED": "PAUSED"}


def _check_name(request: PageRequest, name: str) -> str:
    """Return the name of an account of the environment. Raises NotFound."""
    if name not in environment_names(request):
        raise NotFound
    return name


async def about_environment_account(request: PageRequest) -> Facts:
    """Return the account of a form, for the page that asks for a proof of identity."""
    name = _check_name(request, (await request.form()).get("gateway", ""))
    return [(NC_("table heading", "Account"), name)]


async def show_environment_account(request: PageRequest) -> Response:
    """Show an account of the environment. Raises NotFound."""
    return await _page(request, _check_name(request, request.query.get("gateway", "")))


async def _page(
    request: PageRequest,
    name: str,
    status: int = 200,
    errors: dict[str, str] | None = None,
    form: Mapping[str, str] | None = None,
) -> Response:
    settings, gateways = request.app.settings, request.app.gateways
    state = environment_state(request, name)
    async with request.app.db.connection() as tx:
        breaker = await accounts.find_breaker(tx, name)
        account_sums = await account_figures.read(tx, request, name)
        test = None
        if state != "PAUSED" and request.may("orders.decide"):
            values: dict[str, str] = dict.fromkeys(gateway_tests.FIELDS, "")
            test = await gateway_tests.read_test_form(request, tx, name, values)
    methods = settings.gateway_options.get(f"{name}_methods", "")
    return render.page(
        request,
        "environment_account.html",
        status,
        account_id=name,
        state=state,
        is_last_active=is_last_active(request, name),
        test=test,
        breaker=breaker,
        breaker_text=accounts.breaker_text(breaker),
        values={
            key: (form or {}).get(key, value)
            for key, value in breaker_form.values_of(breaker).items()
        },
        wait="",
        is_live=gateway_tests.takes_real_money(request, name),
        methods=account_views.methods_text(request.localizer, methods),
        position=environment_names(request).index(name) + 1,
        callback_url=callback_url(settings.public_url, gateways, name),
        **account_sums,
        manages=request.may("deployment.manage"),
        errors=errors or {},
        zone=ZONE,
    )


async def set_environment_status(request: PageRequest) -> Response:
    """Pause or resume an account of the environment. Idempotent."""
    form, environment = await request.form(), environment_names(request)
    name = _check_name(request, form.get("gateway", ""))
    status = _STATUSES.get(form.get("status", ""))
    if status is None:
        return await _page(request, name, 400, {"status": N_("Choose what to do")})
    actor = people.actor_of(request.login, REASON)

    async def work(tx: Tx) -> None:
        await accounts.set_environment_status(
            tx, name, status, request.now, environment=environment, actor=actor
        )

    await request.app.db.run(work)
    await accounts.load_changes(request.app.gateways)
    return render.see_other(
        request, f"{ENVIRONMENT}?{urlencode({'gateway': name, 'done': status})}"
    )


async def set_breaker(request: PageRequest) -> Response:
    """Change when an account of the environment pauses itself."""
    form, environment = await request.form(), environment_names(request)
    name, errors = _check_name(request, form.get("gateway", "")), dict[str, str]()
    changes = AccountChanges(**breaker_form.read(form, errors))
    if errors:
        return await _page(request, name, 400, errors, form)
    actor = people.actor_of(request.login, REASON)

    async def work(tx: Tx) -> None:
        await accounts.set_breaker(
            tx, name, changes, request.now, environment=environment, actor=actor
        )

    try:
        await request.app.db.run(work)
    except Invalid as problem:
        field, error = breaker_form.ERRORS[str(problem.field)]
        return await _page(request, name, 400, {field: error}, form)
    await accounts.load_changes(request.app.gateways)
    return render.see_other(
        request, f"{ENVIRONMENT}?{urlencode({'gateway': name, 'done': 'terms'})}"
    )


_PROVES: Final[dict[str, Any]] = {
    "proves": N_("Change a gateway account"),
    "about": about_environment_account,
}
pages: Final = (
    Page("GET", ENVIRONMENT, "deployment.read", show_environment_account),
    Page(
        "POST",
        f"{ENVIRONMENT}/status",
        "deployment.manage",
        set_environment_status,
        fields=("gateway", "status"),
        **_PROVES,
    ),
    Page(
        "POST",
        f"{ENVIRONMENT}/breaker",
        "deployment.manage",
        set_breaker,
        fields=("gateway", *breaker_form.FIELDS),
        **_PROVES,
    ),
)
