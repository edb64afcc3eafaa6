"""Adding a gateway account, and replacing its credentials.

Pages ask for the proof of identity before the form is shown, so that no credentials have to be
entered twice. The provider is asked whether it accepts them before they are saved.
"""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from opentill import merchants, people
from opentill.console import credential_fields, encrypted_secrets
from opentill.console.credential_fields import CredentialField
from opentill.console.gateway_account import REASON, about_account, find_account
from opentill.console.gateway_accounts import PLACE, account_choices
from opentill.console.gateway_tests import find_merchant_id
from opentill.core.errors import Invalid, KeyReused, NotFound
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.gateways import Gateway, accounts
from opentill.gateways.account import LIVE_PREFIX, TEST_PREFIX
from opentill.gateways.account_modes import mode_of_credentials
from opentill.gateways.accounts import NewAccount, Problem
from opentill.gateways.accounts.model import MAX_LABEL
from opentill.portal import form_ids, identity_proof, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_FIELDS: Final = ("label", "merchant", "mode")
_SUFFIX: Final = "suffix"  # the hidden field with the account's id after its prefix
# Field of the service → field of the form, and its error text.
_ERRORS: Final[Mapping[str, tuple[str, str]]] = {
    "label": (
        "label",
        N_("Enter 1 to {wait} characters that no other account in use has"),
    ),
    "test": ("mode", N_("Choose the money that the credentials are for")),
    "gateway": ("credentials", N_("This gateway cannot have accounts here")),
}


async def show_form(request: PageRequest) -> Response:
    """Show the form of a gateway; without one, the list to choose from."""
    gateway = request.query.get("gateway", "")
    if gateway not in account_choices(request):
        return render.see_other(request, f"{PLACE}#add")
    return await _require_proof(request, _ADD, PLACE) or await _form(request, gateway)


async def _require_proof(
    request: PageRequest, page: Page[PageRequest], otherwise: str
) -> Response | None:
    """Return the page that asks for a proof of identity, None if there is one.

    Those who may only read are led to another page.
    """
    if not request.may("deployment.manage"):
        return render.see_other(request, otherwise)
    return await identity_proof.require(request, "deployment.manage", page)


async def _form(
    request: PageRequest,
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
    return render.page(
        request,
        "gateway_account_new.html",
        status,
        gateway=gateway,
        fields=fields,
        values={name: entered.get(name, "") for name in _FIELDS},
        chooses_mode=mode_of_credentials(gateway, {}) is None and gateway != "stripe",
        opens_more=_needs_more(fields, values or {}, errors or {}),
        is_refused=problem is not None,
        unreached=_unreached(request, problem),
        encrypted=encrypted,
        suffix=suffix,
        callbacks=[
            f"{request.app.settings.public_url}/gateways/{gateway}/{prefix}_{suffix}/callback"
            for prefix in (LIVE_PREFIX, TEST_PREFIX)
        ],
        form_id=form_ids.new_form_id(),
        errors=dict(errors or {}),
        wait=wait,
    )  # fmt: skip


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


async def confirm_form(request: PageRequest) -> Response:
    """Lead back to the form after the proof of identity."""
    return render.see_other(request, request.url().removeprefix(request.base))


async def add_account(request: PageRequest) -> Response:
    """Add an account, after its provider has accepted the credentials."""
    form: Mapping[str, str] = await request.form()
    gateway = form["gateway"]
    if gateway not in account_choices(request):
        return render.see_other(request, f"{PLACE}#add")
    form = encrypted_secrets.restore(request, form, gateway)
    try:
        return await _add(request, gateway, form)
    except NotFound:
        error = N_("Enter the whole name or the ID of a merchant, or nothing")
        return await _form(request, gateway, form, 400, {"merchant": error})
    except KeyReused:
        return await _form(request, gateway, form, 422, {"credentials": form_ids.FORM_REUSED})
    except Invalid as problem:
        return await _refuse(request, gateway, form, problem)


async def _add(request: PageRequest, gateway: str, form: Mapping[str, str]) -> Response:
    settings, actor = request.app.settings, people.actor_of(request.login, REASON)
    new = NewAccount(
        gateway=gateway,
        label=form["label"].strip(),
        credentials=credential_fields.read(gateway, form, settings),
        merchant_id=await _read_owner(request, form.get("merchant", "").strip()),
        livemode={"live": True, "test": False}.get(form.get("mode", "")),
        id_suffix=form.get(_SUFFIX, ""),
    )
    gettext, is_unchecked = request.localizer.gettext, bool(form.get("unchecked"))
    if (refusal := await _check(accounts.build(new, settings), form)) is not None:
        if not refusal.was_asked:
            return await _form(request, gateway, form, 502, problem=refusal)
        field, error, wait = credential_fields.explain_refusal(gateway, refusal, gettext)
        return await _form(request, gateway, form, 409, {field: error}, wait, problem=refusal)

    async def work(tx: Tx) -> str:
        account_id = (await accounts.add(tx, settings, new, request.now, actor=actor)).id
        if is_unchecked:
            await accounts.set_status(tx, account_id, "PAUSED", request.now, actor=actor)
        return account_id

    account_id = await form_ids.run_once(request, work)
    await accounts.load_changes(request.app.gateways)
    done = "unchecked" if is_unchecked else "added"
    return render.see_other(request, f"{PLACE}/{account_id}?done={done}")


async def _refuse(
    request: PageRequest, gateway: str, form: Mapping[str, str], problem: Invalid
) -> Response:
    field, error, wait = credential_fields.explain(gateway, problem) or (
        *_ERRORS.get(problem.field or "", ("credentials", N_("Not possible: {wait}"))),
        str(MAX_LABEL) if problem.field == "label" else str(problem.reason),
    )
    return await _form(request, gateway, form, 400, {field: error}, wait)


async def _read_owner(request: PageRequest, text: str) -> str | None:
    """Return the id of the merchant that was entered, None for the operator. Raises NotFound."""
    if not text:
        return None
    async with request.app.db.connection() as tx:
        merchant_id = await find_merchant_id(tx, text)
        return (await merchants.find(tx, merchant_id)).id


async def _check(adapter: Gateway, form: Mapping[str, str]) -> accounts.Problem | None:
    """Ask the provider whether it accepts an account, unless the form says not to."""
    if form.get("unchecked"):
        await adapter.close()
        return None
    return await accounts.check(adapter)


async def show_credentials(request: PageRequest) -> Response:
    """Show the form that replaces the credentials of an account. Raises NotFound."""
    path = f"{PLACE}/{request.ids['account']}"
    return await _require_proof(request, _REPLACE, path) or await _credentials_form(request)


async def _credentials_form(
    request: PageRequest,
    values: Mapping[str, str] | None = None,
    status: int = 200,
    errors: Mapping[str, str] | None = None,
    wait: str = "",
    *,
    problem: Problem | None = None,
) -> Response:
    async with request.app.db.connection() as tx:
        account = await find_account(request, tx)
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
        opens_more=any(field.id in (errors or {}) for field in fields if not field.is_main),
        is_refused=problem is not None,
        unreached=_unreached(request, problem),
        encrypted=encrypted,
        errors=dict(errors or {}),
        wait=wait,
    )


async def confirm_credentials_form(request: PageRequest) -> Response:
    """Lead back to the form after the proof of identity."""
    return render.see_other(request, f"{PLACE}/{request.ids['account']}/credentials")


async def replace_credentials(request: PageRequest) -> Response:
    """Replace the credentials of an account, after its provider has accepted the new ones."""
    form: Mapping[str, str] = await request.form()
    settings, gettext = request.app.settings, request.localizer.gettext
    form = encrypted_secrets.restore(request, form, request.ids["account"])
    actor = people.actor_of(request.login, REASON)
    async with request.app.db.connection() as tx:
        account = await find_account(request, tx)
    try:
        credentials = credential_fields.read(account.gateway, form, settings)
        adapter = accounts.build_rotated(account, credentials, settings)
    except Invalid as problem:
        field, error, wait = credential_fields.explain(account.gateway, problem) or (
            "credentials",
            N_("Not possible: {wait}"),
            str(problem.reason),
        )
        return await _credentials_form(request, form, 400, {field: error}, wait)
    if (refusal := await _check(adapter, form)) is not None:
        if not refusal.was_asked:
            return await _credentials_form(request, form, 502, problem=refusal)
        field, error, wait = credential_fields.explain_refusal(account.gateway, refusal, gettext)
        return await _credentials_form(request, form, 409, {field: error}, wait, problem=refusal)

    async def work(tx: Tx) -> None:
        await accounts.rotate(tx, settings, account.id, credentials, request.now, actor=actor)

    await request.app.db.run(work)
    await accounts.load_changes(request.app.gateways)
    return render.see_other(request, f"{PLACE}/{quote(account.id)}?done=rotated")


_ACCOUNT: Final = f"{PLACE}/{{account:id}}"
_ADD: Final = Page(
    "POST",
    f"{PLACE}/add",
    "deployment.manage",
    add_account,
    fields=("gateway", _SUFFIX, *_FIELDS),
    proves=N_("Add a gateway account"),
)
_REPLACE: Final = Page(
    "POST",
    f"{_ACCOUNT}/credentials/replace",
    "deployment.manage",
    replace_credentials,
    proves=N_("Replace the credentials of a gateway account"),
    about=about_account,
)
pages: Final = (
    Page("GET", f"{PLACE}/new", "deployment.read", show_form),
    # The page that asks for the proof before the form is shown sends it here.
    Page("POST", f"{PLACE}/new", "deployment.manage", confirm_form, proves=_ADD.proves),
    _ADD,
    Page("GET", f"{_ACCOUNT}/credentials", "deployment.read", show_credentials),
    Page(
        "POST",
        f"{_ACCOUNT}/credentials",
        "deployment.manage",
        confirm_credentials_form,
        proves=_REPLACE.proves,
        about=about_account,
    ),
    _REPLACE,
)
