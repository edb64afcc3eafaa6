"""Step-up: asking a person to prove their identity again before a dangerous form is accepted."""

from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from opentill import people
from opentill.core.errors import TooManyRequests
from opentill.db.database import Tx
from opentill.people import passkeys
from opentill.people.logins import Proof
from opentill.portal import login_cookies, render
from opentill.portal.labels import PROVED_ACTION
from opentill.portal.model import PROOF_PREFIX, SECRET_PREFIX, Allowed, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_PASSWORD: Final = f"{PROOF_PREFIX}password"
_CODE: Final = f"{PROOF_PREFIX}code"
_CREDENTIAL: Final = f"{PROOF_PREFIX}credential"


async def require(
    request: PageRequest, action: Allowed, page: Page[PageRequest] | None = None
) -> Response | None:
    """Return the page that asks for a proof of identity, None if the person has just given one.

    A proof counts for ten minutes. It is a passkey, or the password with a code of the second
    factor if there is one. ``action`` is the permission to do what the form does; the page names
    it by ``PROVED_ACTION``, unless the row of the form's ``page`` has a text of its own.
    """
    if request.login.is_proved(request.now):
        return None
    form, errors, wait, status = await request.form(), dict[str, str](), "", 200
    password, code = request.proof_fields.get(_PASSWORD), request.proof_fields.get(_CODE, "")
    settings, credential = request.app.settings, request.proof_fields.get(_CREDENTIAL)
    proof: Proof | None = None
    if credential is not None:
        site = request.required_site
        try:
            proof = await passkeys.prove(
                request.app.db, request.login, credential, site, request.now
            )
        except people.WrongCredentials:
            errors = {_CREDENTIAL: N_("This passkey was not accepted. Please try again")}
            status = 403
    elif password is not None:
        try:
            proof = await people.prove(
                request.app.db,
                request.login,
                request.credentials(password, code),
                settings.secret_key,
                request.now,
            )
        except people.WrongCredentials:
            status = 403
        except TooManyRequests as problem:
            errors = {_PASSWORD: N_("There were too many attempts. Try again in {wait}")}
            wait, status = request.localizer.duration(problem.retry_after_s * 1000), 429
    if proof is not None:
        request.new_cookies.append(login_cookies.logged_in(settings, proof.token))
        return None
    async with request.app.db.connection() as tx:
        security = await people.security_of(tx, request.login, request.now)
        options = await passkey_options(tx, request, security, request.login)
    if status == HTTPStatus.FORBIDDEN and credential is None:
        errors = {_PASSWORD: wrong_credentials(security)}
    files = await request.encoded_files()
    kept_form = {name: text for name, text in form.items() if not name.startswith(SECRET_PREFIX)}
    text = page.proves if page is not None else ""
    facts = await page.about(request) if page is not None and page.about is not None else ()
    return render.page(
        request, "proof.html", status, form=kept_form | files, errors=errors, security=security,
        action=text or PROVED_ACTION[action], facts=facts, wait=wait, options=options,
        scripts=True,
        files=bool(files), lost=len(files) < len(await request.files()),
        lost_secrets=len(kept_form) < len(form),
    )  # fmt: skip


def wrong_credentials(security: people.Security) -> str:
    """Return the error of a form that asks for the password, and for a code with a factor."""
    if security.has_factor:
        return N_("The password or the code is wrong")
    return N_("The password is wrong")


async def passkey_options(
    tx: Tx, request: PageRequest, security: people.Security, login: people.Login
) -> str | None:
    """Return the options for using one of a person's passkeys; None if none can be used."""
    if request.site is None or not security.passkeys:
        return None
    return await passkeys.options(tx, request.site, request.now, login.person_id)
