"""The forms that add a gateway account and replace its credentials, for staff and for merchants.

Pages ask for the proof of identity before the form is shown, so that no credentials have to be
entered twice. The provider is asked whether it accepts them before they are saved.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from opentill import people
from opentill.core.errors import Invalid, KeyReused, NotFound, TooManyRequests
from opentill.core.ids import new_id
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.gateways import Gateway, accounts
from opentill.gateways.account import LIVE_PREFIX, TEST_PREFIX, GatewayAccount
from opentill.gateways.account_modes import mode_of_credentials
from opentill.gateways.accounts import NewAccount, Problem
from opentill.gateways.accounts.model import MAX_LABEL
from opentill.merchants import Actor
from opentill.people import Permission
from opentill.portal import credential_fields, encrypted_secrets, form_ids, identity_proof, render
from opentill.portal.credential_fields import CredentialField
from opentill.portal.model import Facts, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_, NC_

_FIELDS: Final = ("label", "merchant", "mode")
_SUFFIX: Final = "suffix"  # the hidden field with the account's id after its prefix
_CHECKS_PER_HOUR: Final = 30  # of the credentials of a merchant's accounts, at their providers
# Field of the service → field of the form, and its error text.
_ERRORS: Final[Mapping[str, tuple[str, str]]] = {
    "label": (
        "label",
        N_("Enter 1 to {wait} characters that no other account in use has"),
    ),
    "test": ("mode", N_("Choose the money that the credentials are for")),
    "gateway": ("credentials", N_("This gateway cannot have accounts here")),
}
# The same fields in the form of merchants, which has no choice of the mode.
_OWN_ERRORS: Final[Mapping[str, tuple[str, str]]] = {
    **_ERRORS,
    "test": (
        "credentials",
        N_("These credentials are for test money, or for real money where tests are made"),
    ),
    "accounts": ("credentials", N_("You have as many accounts as possible. Ask the operator")),
}


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The pages of gateway accounts in the console or in the dashboard of a merchant."""

    base: str  # the path of the list of accounts, as in a table of pages
    reads: Permission
    manages: Permission
    reason: str  # in the audit log
    # The gateways of which an account can be added.
    choices: Callable[[PageRequest], Awaitable[Sequence[str]]]
    # Finds the account of the page. Raises NotFound.
    find: Callable[[PageRequest, Tx], Awaitable[GatewayAccount]]
    # Finds the id of the account's owner from the text of the form. Raises NotFound.
    find_owner: Callable[[PageRequest, str], Awaitable[str | None]]
    # Whether the person who enters the credentials belongs to a merchant.
    by_merchant: bool

    def path(self, request: PageRequest) -> str:
        """Return the path of the list of accounts."""
        return self.base.replace("{merchant:id}", request.ids.get("merchant", ""))

    async def about(self, request: PageRequest) -> Facts:
        """Return the account in the path, for the page that asks for a proof of identity."""
        async with request.app.db.connection() as tx:
            return [(NC_("table heading", "Account"), (await self.find(request, tx)).name)]

    def actor(self, request: PageRequest) -> Actor:
        """Return who acts, for the audit log."""
        return people.actor_of(request.login, self.reason)


def _add_page(place: Place) -> Page[PageRequest]:
    return Page(
        "POST",
        f"{place.base}/add",
        place.manages,
        partial(_add_account, place=place),
        fields=("gateway", "label", _SUFFIX, *(() if place.by_merchant else ("merchant", "mode"))),
        proves=N_("Add a gateway account"),
    )


def _replace_page(place: Place) -> Page[PageRequest]:
    return Page(
        "POST",
        f"{place.base}/{{account:id}}/credentials/replace",
        place.manages,
        partial(_replace_credentials, place=place),
        proves=N_("Replace the credentials of a gateway account"),
        about=place.about,
    )


def pages(place: Place) -> tuple[Page[PageRequest], ...]:
    """Return the pages that add an account and replace credentials."""
    base, account = place.base, f"{place.base}/{{account:id}}"
    add, replace = _add_page(place), _replace_page(place)
    return (
        Page("GET", f"{base}/new", place.reads, partial(_show_form, place=place)),
        # The page that asks for the proof before the form is shown sends it here.
        Page("POST", f"{base}/new", place.manages, _confirm_form, proves=add.proves),
        add,
        Page(
            "GET",
            f"{account}/credentials",
            place.reads,
            partial(_show_credentials, place=place),
        ),
        Page(
            "POST",
            f"{account}/credentials",
            place.manages,
            partial(_confirm_credentials_form, place=place),
            proves=replace.proves,
            about=place.about,
        ),
        replace,
    )


async def _show_form(request: PageRequest, place: Place) -> Response:
    """Show the form of a gateway; without one, the list to choose from."""
    gateway = request.query.get("gateway", "")
    if gateway not in await place.choices(request):
        return render.see_other(request, f"{place.path(request)}#add")
    missing_proof = await _require_proof(request, place, _add_page(place), place.path(request))
    return missing_proof or await _form(request, place, gateway)


async def _require_proof(
    request: PageRequest, place: Place, page: Page[PageRequest], otherwise: str
) -> Response | None:
    """Return the page that asks for a proof of identity, None if there is one.

    Those who may only read are led to another page.
    """
    if not request.may(place.manages):
        return render.see_other(request, otherwise)
    return await identity_proof.require(request, place.manages, page)


async def _form(  # noqa: PLR0913 - the entries, their errors and how to go on
    request: PageRequest,
    place: Place,
    gateway: str,
    values: Mapping[str, str] | None = None,
    status: int = 200,
    errors: Mapping[str, str] | None = None,
    wait: str = "",
    *,
    problem: Problem | None = None,
) -> Response:
    entered = credential_fields.defaults_of(gateway, request.app.settings)
    if values is not None:
        entered = dict(values)
    encrypted = encrypted_secrets.encrypt(request, entered, gateway, next(iter(errors or {}), ""))
    kept_names = encrypted_secrets.read(request, encrypted, gateway)
    fields = credential_fields.fields_of(gateway, entered, kept_names)
    suffix = entered.get(_SUFFIX, "") or new_id(LIVE_PREFIX).partition("_")[2]
    has_mode = mode_of_credentials(gateway, {}) is not None or gateway == "stripe"
    return render.page(
        request,
        "gateway_account_new.html",
        status,
        gateway=gateway,
        fields=fields,
        values={name: entered.get(name, "") for name in _FIELDS},
        chooses_mode=not has_mode and not place.by_merchant,
        by_merchant=place.by_merchant,
        place=request.base + place.path(request),
        opens_more=_needs_more(fields, values or {}, errors or {}),
        is_refused=problem is not None and not place.by_merchant,
        unreached=_unreached(request, problem),
        encrypted=encrypted,
        suffix=suffix,
        callbacks=[
            f"{request.app.settings.public_url}/gateways/{gateway}/{prefix}_{suffix}/callback"
            for prefix in _prefixes(request, place)
        ],
        form_id=form_ids.new_form_id(),
        errors=dict(errors or {}),
        wait=wait,
    )


def _prefixes(request: PageRequest, place: Place) -> tuple[str, ...]:
    """Return the prefixes that the id of the new account can have."""
    if not place.by_merchant:
        return (LIVE_PREFIX, TEST_PREFIX)
    return (LIVE_PREFIX if request.app.settings.livemode else TEST_PREFIX,)


def _unreached(request: PageRequest, problem: Problem | None) -> str:
    """Return why the provider could not be asked, "" if it was."""
    if problem is None or problem.was_asked:
        return ""
    return credential_fields.in_words(problem, request.localizer.gettext)


def _needs_more(
    fields: Sequence[CredentialField], values: Mapping[str, str], errors: Mapping[str, str]
) -> bool:
    """Whether something under "Other settings" was entered, or is wrong."""
    names = ["merchant", "mode", *(field.id for field in fields if not field.is_main)]
    return any(name in errors or values.get(name, "").strip() for name in names)


async def _confirm_form(request: PageRequest) -> Response:
    """Lead back to the form after the proof of identity."""
    return render.see_other(request, request.url().removeprefix(request.base))


async def _add_account(request: PageRequest, place: Place) -> Response:
    """Add an account, after its provider has accepted the credentials."""
    form: Mapping[str, str] = await request.form()
    gateway = form["gateway"]
    if gateway not in await place.choices(request):
        return render.see_other(request, f"{place.path(request)}#add")
    form = encrypted_secrets.restore(request, form, gateway)
    try:
        return await _add(request, place, gateway, form)
    except NotFound:
        error = N_("Enter the whole name or the ID of a merchant, or nothing")
        return await _form(request, place, gateway, form, 400, {"merchant": error})
    except KeyReused:
        errors = {"credentials": form_ids.FORM_REUSED}
        return await _form(request, place, gateway, form, 422, errors)
    except Invalid as problem:
        return await _refuse(request, place, gateway, form, problem)


async def _add(
    request: PageRequest, place: Place, gateway: str, form: Mapping[str, str]
) -> Response:
    settings, actor = request.app.settings, place.actor(request)
    mode = {"live": True, "test": False}.get(form.get("mode", ""))
    new = NewAccount(
        gateway=gateway,
        label=form["label"].strip(),
        credentials=credential_fields.read(gateway, form, settings),
        merchant_id=await place.find_owner(request, form.get("merchant", "").strip()),
        livemode=settings.livemode if place.by_merchant else mode,
        by_merchant=place.by_merchant,
        id_suffix=form.get(_SUFFIX, ""),
    )
    gettext = request.localizer.gettext
    is_unchecked = bool(form.get("unchecked")) and not place.by_merchant
    if (refusal := await _check(request, place, accounts.build(new, settings), form)) is not None:
        if not refusal.was_asked:
            return await _form(request, place, gateway, form, 502, problem=refusal)
        field, error, wait = credential_fields.explain_refusal(gateway, refusal, gettext)
        errors = {field: error}
        return await _form(request, place, gateway, form, 409, errors, wait, problem=refusal)

    async def work(tx: Tx) -> str:
        add = accounts.add_own if place.by_merchant else accounts.add
        account_id = (await add(tx, settings, new, request.now, actor=actor)).id
        if is_unchecked:
            await accounts.set_status(tx, account_id, "PAUSED", request.now, actor=actor)
        return account_id

    account_id = await form_ids.run_once(request, work)
    await accounts.load_changes(request.app.gateways)
    done = "unchecked" if is_unchecked else "added"
    return render.see_other(request, f"{place.path(request)}/{account_id}?done={done}")


async def _refuse(
    request: PageRequest, place: Place, gateway: str, form: Mapping[str, str], problem: Invalid
) -> Response:
    texts = _OWN_ERRORS if place.by_merchant else _ERRORS
    field, error, wait = credential_fields.explain(gateway, problem) or (
        *texts.get(problem.field or "", ("credentials", N_("Not possible: {wait}"))),
        str(MAX_LABEL) if problem.field == "label" else str(problem.reason),
    )
    return await _form(request, place, gateway, form, 400, {field: error}, wait)


async def _check(
    request: PageRequest, place: Place, adapter: Gateway, form: Mapping[str, str]
) -> Problem | None:
    """Ask the provider whether it accepts an account, unless staff's form says not to.

    Raises TooManyRequests if a merchant asks too often.
    """
    if place.by_merchant:
        try:
            await request.app.db.run(
                partial(
                    rate_limits.hit_hourly,
                    scope="gateway checks",
                    subject=request.merchant_id,
                    limit=_CHECKS_PER_HOUR,
                    now=request.now,
                )
            )
        except TooManyRequests:
            await adapter.close()
            raise
    elif form.get("unchecked"):
        await adapter.close()
        return None
    return await accounts.check(adapter)


async def _show_credentials(request: PageRequest, place: Place) -> Response:
    """Show the form that replaces the credentials of an account. Raises NotFound."""
    path = f"{place.path(request)}/{request.ids['account']}"
    await _find(request, place)
    missing_proof = await _require_proof(request, place, _replace_page(place), path)
    return missing_proof or await _credentials_form(request, place)


async def _find(request: PageRequest, place: Place) -> GatewayAccount:
    async with request.app.db.connection() as tx:
        account = await place.find(request, tx)
        if place.by_merchant:
            await accounts.require_allowed(tx, request.merchant_id, account.gateway)
    return account


async def _credentials_form(
    request: PageRequest,
    place: Place,
    values: Mapping[str, str] | None = None,
    status: int = 200,
    errors: Mapping[str, str] | None = None,
    wait: str = "",
    *,
    problem: Problem | None = None,
) -> Response:
    account = await _find(request, place)
    wrong = next(iter(errors or {}), "")
    encrypted = encrypted_secrets.encrypt(request, values or {}, account.id, wrong)
    kept_names = encrypted_secrets.read(request, encrypted, account.id)
    fields = credential_fields.fields_of(account.gateway, values or {}, kept_names)
    return render.page(
        request,
        "gateway_credentials.html",
        status,
        account=account,
        fields=fields,
        place=f"{request.base}{place.path(request)}/{account.id}",
        opens_more=any(field.id in (errors or {}) for field in fields if not field.is_main),
        is_refused=problem is not None and not place.by_merchant,
        unreached=_unreached(request, problem),
        encrypted=encrypted,
        errors=dict(errors or {}),
        wait=wait,
    )


async def _confirm_credentials_form(request: PageRequest, place: Place) -> Response:
    """Lead back to the form after the proof of identity."""
    return render.see_other(request, f"{place.path(request)}/{request.ids['account']}/credentials")


async def _replace_credentials(request: PageRequest, place: Place) -> Response:
    """Replace the credentials of an account, after its provider has accepted the new ones."""
    form: Mapping[str, str] = await request.form()
    settings, actor, gettext = request.app.settings, place.actor(request), request.localizer.gettext
    form = encrypted_secrets.restore(request, form, request.ids["account"])
    account = await _find(request, place)
    try:
        credentials = credential_fields.read(account.gateway, form, settings)
        adapter = accounts.build_rotated(
            account, credentials, settings, by_merchant=place.by_merchant
        )
    except Invalid as problem:
        field, error, wait = credential_fields.explain(account.gateway, problem) or (
            "credentials",
            N_("Not possible: {wait}"),
            str(problem.reason),
        )
        return await _credentials_form(request, place, form, 400, {field: error}, wait)
    if (refusal := await _check(request, place, adapter, form)) is not None:
        if not refusal.was_asked:
            return await _credentials_form(request, place, form, 502, problem=refusal)
        field, error, wait = credential_fields.explain_refusal(account.gateway, refusal, gettext)
        errors = {field: error}
        return await _credentials_form(request, place, form, 409, errors, wait, problem=refusal)

    async def work(tx: Tx) -> None:
        if place.by_merchant:
            await accounts.rotate_own(tx, settings, account, credentials, request.now, actor=actor)
        else:
            await accounts.rotate(tx, settings, account.id, credentials, request.now, actor=actor)

    await request.app.db.run(work)
    await accounts.load_changes(request.app.gateways)
    return render.see_other(request, f"{place.path(request)}/{quote(account.id)}?done=rotated")
