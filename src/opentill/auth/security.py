"""A person's own security settings: password, second factors, logins, language of mails."""

from typing import Any, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import people
from opentill.core.errors import Invalid, NotFound, TooManyRequests
from opentill.people import Access, Workplace, passkeys, second_factor, totp
from opentill.portal import login_cookies, mail_language, menu, render
from opentill.portal.identity_proof import wrong_credentials
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web import responses
from opentill.web.translations import N_

PLACE: Final = "/security"


async def show(request: PageRequest) -> Response:
    """Show the settings."""
    return await _security(request)


async def _render(
    request: PageRequest, template: str, status: int = 200, **values: Any
) -> Response:
    """Render a page of the person's account, whose menu leads back to the person's merchants."""
    async with request.app.db.connection() as tx:
        workplaces = await people.workplaces(tx, request.login)
    if len(workplaces) == 1 and request.login.staff_role is None:
        values["zone"] = await _enter_merchant(request, workplaces)
    elif (
        request.console_of_staff is not None and request.console_of_staff.count_waiting is not None
    ):
        request.waiting = await request.console_of_staff.count_waiting(request)
    return render.page(
        request,
        template,
        status,
        scripts=True,
        workplaces=workplaces,
        account_menu=menu.sections_of_account(request, workplaces),
        **values,
    )


async def _enter_merchant(request: PageRequest, workplaces: list[Workplace]) -> ZoneInfo:
    """Give the page the search and the menu's counts of the person's only merchant.

    Returns the merchant's time zone.
    """
    (workplace,) = workplaces
    request.admit(request.login, Access.of_member(request.login, workplace, workplaces))
    _, dashboard = request.portal.neighbors or (None, None)
    if dashboard is not None and dashboard.count_waiting is not None:
        request.waiting = await dashboard.count_waiting(request)
    return ZoneInfo(workplace.time_zone)


async def _security(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    wait: str = "",
    *,
    name: str | None = None,
) -> Response:
    """Show the settings; ``name`` is the entry of the form that changes the person's name."""
    async with request.app.db.connection() as tx:
        security = await people.security_of(tx, request.login, request.now)
    return await _render(
        request,
        "security.html",
        status,
        address=urlsplit(request.app.settings.public_url).hostname,
        security=security,
        errors=errors or {},
        wait=wait,
        name=request.login.name if name is None else name,
    )


async def change_name(request: PageRequest) -> Response:
    """Change the name that colleagues see."""
    name = (await request.form()).get("name", "")
    try:
        await request.app.db.run(
            lambda tx: people.change_name(tx, request.login, name, request.now)
        )
    except Invalid:
        error = N_("Enter your name, at most 200 characters")
        return await _security(request, 400, {"name": error}, name=name)
    return render.see_other(request, f"{PLACE}?done=name")


async def change_password(request: PageRequest) -> Response:
    """Set a new password; the form must contain the current one too.

    The errors of both passwords are shown at once, unless that would use up a one-time code.
    """
    form = await request.form()
    credentials = request.credentials(form.get("current", ""), form.get("code", ""))
    new, key = form.get("password", ""), request.app.settings.secret_key
    errors: dict[str, str] = {}
    status, wait = 400, ""
    try:
        people.check_password("password", new, request.login.email, request.login.name)
    except Invalid as problem:
        errors["password"] = _password_error(problem)
    if errors and credentials.code:
        return await _security(request, status, errors)
    try:
        if errors:
            proof = await people.prove_for_password(
                request.app.db, request.login, credentials, key, request.now
            )
        else:
            proof = await people.change_password(
                request.app.db, request.login, credentials, new, key, request.now
            )
    except people.WrongCredentials:
        async with request.app.db.connection() as tx:
            security = await people.security_of(tx, request.login, request.now)
        status, errors = 403, {"current": wrong_credentials(security), **errors}
    except TooManyRequests as problem:
        wait = request.localizer.duration(problem.retry_after_s * 1000)
        too_many = N_("There were too many attempts. Try again in {wait}")
        status, errors = 429, {"current": too_many, **errors}
    else:
        settings = request.app.settings
        request.new_cookies += [
            login_cookies.logged_in(settings, proof.token),
            login_cookies.remember_person(settings, request.headers, proof.person),
        ]
    if errors:
        return await _security(request, status, errors, wait)
    return render.see_other(request, f"{PLACE}?done=password")


def _password_error(problem: Invalid) -> str:
    if "common" in (problem.reason or ""):
        return N_(
            "This password is easily guessed. Choose one that is not "
            "common and not made of your name or address"
        )
    return N_("Choose a password of 12 to 256 characters")


async def confirm(request: PageRequest) -> Response:
    """Redirect to the security page, once the person has proved their identity again."""
    return render.see_other(request, PLACE)


async def change_language(request: PageRequest) -> Response:
    """Set the language in which the person gets mails."""
    language = mail_language.choose(request, await request.form())
    if language is None:
        return await _security(request, 400, {"language": N_("Choose one of the languages")})
    await request.app.db.run(
        lambda tx: people.change_language(tx, request.login, language, request.now)
    )
    return render.see_other(request, f"{PLACE}?done=language")


# ── authenticator ──


async def begin_totp(request: PageRequest) -> Response:
    """Create an authenticator's secret, which the person has to confirm."""
    key = request.app.settings.secret_key
    await request.app.db.run(lambda tx: second_factor.begin(tx, request.login, key))
    return render.see_other(request, f"{PLACE}/authenticator")


async def show_totp(request: PageRequest) -> Response:
    """Show the authenticator's unconfirmed secret; without one, the page that sets it up."""
    try:
        return await _totp(request)
    except NotFound:
        return render.see_other(request, PLACE)


async def _totp(
    request: PageRequest, status: int = 200, errors: dict[str, str] | None = None
) -> Response:
    settings = request.app.settings
    async with request.app.db.connection() as tx:
        secret = await second_factor.pending_secret(tx, request.login, settings.secret_key)
    return await _render(
        request,
        "authenticator.html",
        status,
        secret=totp.group_by_four(secret),
        address=totp.otpauth_uri(secret, "OpenTill", request.login.email),
        errors=errors or {},
    )


async def draw_totp(request: PageRequest) -> Response:
    """Draw the QR code for an authenticator."""
    settings = request.app.settings
    async with request.app.db.connection() as tx:
        secret = await second_factor.pending_secret(tx, request.login, settings.secret_key)
    return responses.drawing(
        totp.qr_code(totp.otpauth_uri(secret, "OpenTill", request.login.email))
    )


async def confirm_totp(request: PageRequest) -> Response:
    """Start to use the new authenticator, and show the recovery codes once."""
    form, key = await request.form(), request.app.settings.secret_key
    code = form.get("code", "")
    try:
        codes = await request.app.db.run(
            lambda tx: second_factor.confirm(tx, request.login, code, key, request.now)
        )
    except Invalid:
        return await _totp(
            request,
            400,
            {"code": N_("This code is wrong. Enter the code that the authenticator shows now")},
        )
    return await _codes(request, codes)


async def renew_codes(request: PageRequest) -> Response:
    """Create new recovery codes, and show them once."""
    codes = await request.app.db.run(
        lambda tx: second_factor.renew_codes(tx, request.login, request.now)
    )
    return await _codes(request, codes)


async def _codes(request: PageRequest, codes: list[str]) -> Response:
    return await _render(request, "codes.html", codes=[totp.group_by_four(code) for code in codes])


async def remove_totp(request: PageRequest) -> Response:
    """Remove the authenticator."""
    keep_one = _must_keep_one(request)
    try:
        await request.app.db.run(
            lambda tx: second_factor.remove(tx, request.login, request.now, keep_one=keep_one)
        )
    except people.LastFactor:
        return await _security(
            request,
            400,
            {
                "factor": N_(
                    "Staff must keep a second factor here. Set up another one "
                    "first, then remove this one"
                )
            },
        )
    return render.see_other(request, f"{PLACE}?done=authenticator")


def _must_keep_one(request: PageRequest) -> bool:
    """Return whether the person must keep a second factor, as staff must in a live deployment."""
    return request.login.staff_role is not None and request.app.settings.livemode


# ── passkeys ──


async def begin_passkey(request: PageRequest) -> Response:
    """Show the page on which the browser creates a passkey."""
    return await _passkey(request)


async def _passkey(
    request: PageRequest, status: int = 200, errors: dict[str, str] | None = None
) -> Response:
    site = request.required_site
    options = await request.app.db.run(
        lambda tx: passkeys.new_options(tx, request.login, site, request.now)
    )
    return await _render(request, "passkey.html", status, options=options, errors=errors or {})


async def add_passkey(request: PageRequest) -> Response:
    """Store the passkey that the browser has created."""
    form, site = await request.form(), request.required_site
    credential, name = form.get("credential", ""), form.get("name", "")
    try:
        codes = await passkeys.add(
            request.app.db, request.login, credential, name, site, request.now
        )
    except Invalid:
        return await _passkey(
            request, 400, {"name": N_("This passkey was not accepted. Please try again")}
        )
    if codes:
        return await _codes(request, codes)
    return render.see_other(request, f"{PLACE}?done=passkey")


async def remove_passkey(request: PageRequest) -> Response:
    """Remove a passkey."""
    form = await request.form()
    passkey_id = form.get("id", "")
    keep_one = _must_keep_one(request)
    try:
        await request.app.db.run(
            lambda tx: passkeys.remove(
                tx, request.login, passkey_id, request.now, keep_one=keep_one
            )
        )
    except people.LastFactor:
        return await _security(
            request,
            400,
            {
                "factor": N_(
                    "Staff must keep a second factor here. Set up another one "
                    "first, then remove this one"
                )
            },
        )
    return render.see_other(request, f"{PLACE}?done=passkey")


# ── logins ──


async def end_login(request: PageRequest) -> Response:
    """End one of the person's other logins, or all of them."""
    form = await request.form()
    login_id = form.get("id", "")
    if login_id:
        await request.app.db.run(lambda tx: people.end_by_id(tx, request.login, login_id))
    else:
        await request.app.db.run(lambda tx: people.end_other_logins(tx, request.login))
    return render.see_other(request, f"{PLACE}?done=login")


pages: Final = (
    Page("GET", PLACE, "a person", show, enrolls=True),
    Page("POST", f"{PLACE}/confirm", "a person", confirm, proof=True),
    Page("POST", f"{PLACE}/name", "a person", change_name, fields=("name",)),
    Page("POST", f"{PLACE}/password", "a person", change_password),
    Page("POST", f"{PLACE}/language", "a person", change_language, fields=("language",)),
    Page("GET", f"{PLACE}/authenticator", "a person", show_totp, enrolls=True),
    Page("GET", f"{PLACE}/authenticator.svg", "a person", draw_totp, enrolls=True),
    Page(
        "POST",
        f"{PLACE}/authenticator/begin",
        "a person",
        begin_totp,
        enrolls=True,
        proof=True,
        proves=N_("Set up an authenticator"),
    ),
    Page(
        "POST",
        f"{PLACE}/authenticator",
        "a person",
        confirm_totp,
        enrolls=True,
        proof=True,
        proves=N_("Set up an authenticator"),
    ),
    Page(
        "POST",
        f"{PLACE}/authenticator/remove",
        "a person",
        remove_totp,
        proof=True,
        proves=N_("Remove the authenticator"),
    ),
    Page(
        "POST",
        f"{PLACE}/codes",
        "a person",
        renew_codes,
        proof=True,
        proves=N_("Create new recovery codes"),
    ),
    Page(
        "POST",
        f"{PLACE}/passkeys/begin",
        "a person",
        begin_passkey,
        enrolls=True,
        proof=True,
        proves=N_("Add a passkey"),
    ),
    Page(
        "POST",
        f"{PLACE}/passkeys",
        "a person",
        add_passkey,
        enrolls=True,
        proof=True,
        proves=N_("Add a passkey"),
        fields=("name",),
    ),
    Page(
        "POST",
        f"{PLACE}/passkeys/remove",
        "a person",
        remove_passkey,
        proof=True,
        proves=N_("Remove a passkey"),
        fields=("id",),
    ),
    Page(
        "POST",
        f"{PLACE}/logins/end",
        "a person",
        end_login,
        proof=True,
        proves=N_("Log out other devices"),
        fields=("id",),
    ),
)
