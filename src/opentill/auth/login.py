"""Logging in and out."""

from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from opentill import people
from opentill.core.errors import NotLoggedIn, TooManyRequests
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.people import limits, passkeys
from opentill.portal import identity_proof, login_cookies, render
from opentill.portal.model import CONSOLE_PATH, FACTOR_PATH, Page
from opentill.portal.request import PageRequest, safe_next
from opentill.web.translations import N_

_PASSKEYS_PER_MINUTE: Final = 30  # at most this many pages a minute ask one person for a passkey


async def _home(request: PageRequest, person_id: str) -> str:
    """Return the path to open after a login: the console for staff, the dashboard for others."""
    async with request.app.db.connection() as tx:
        return CONSOLE_PATH if await people.is_staff(tx, person_id) else "/dashboard"


async def show_login(request: PageRequest) -> Response:
    """Show the form; a person who is logged in already is redirected."""
    if request.optional_login is not None:
        goal = request.next or await _home(request, request.login.person_id)
        return render.see_other(request, goal)
    return render.page(request, "login.html", scripts=True, email="", next=request.next)


async def log_in(request: PageRequest) -> Response:
    """Check the password; redirect to the requested page, or to that of the second factor."""
    form = await request.form()
    email, goal = form.get("email", ""), safe_next(form.get("next", ""))
    settings = request.app.settings
    missing: dict[str, str] = {}
    if not email.strip():
        missing["email"] = N_("Enter your email")
    if not form.get("password"):
        missing["password"] = N_("Enter your password")
    if missing:
        return render.page(
            request,
            "login.html",
            400,
            scripts=True,
            email=email.strip(),
            next=goal,
            errors=missing,
        )
    credentials = people.Credentials(
        email=email,
        password=form.get("password", ""),
        browser=request.browser,
        cookies=login_cookies.trust_marks(request.headers),
    )
    try:
        login = await people.log_in(request.app.db, credentials, settings.secret_key, request.now)
    except people.FactorsSuspended as suspended:
        wait = request.localizer.duration(max(0, suspended.until - request.now))
        return render.page(
            request,
            "login.html",
            403,
            scripts=True,
            email=email,
            next=goal,
            wait=wait,
            errors={
                "refused": N_(
                    "Your new password is set. Without your second factor you can "
                    "log in only in {wait}"
                )
            },
        )
    except people.WrongCredentials:
        return render.page(
            request,
            "login.html",
            401,
            scripts=True,
            email=email,
            next=goal,
            errors={"refused": N_("Email or password is wrong")},
        )
    except TooManyRequests as problem:
        return render.page(
            request,
            "login.html",
            429,
            {"retry-after": str(problem.retry_after_s)},
            scripts=True,
            email=email,
            next=goal,
            errors={"refused": N_("There were too many attempts. Try again in {wait}")},
            wait=request.localizer.duration(problem.retry_after_s * 1000),
        )
    request.new_cookies += login_cookies.build_login_cookies(settings, request.headers, login)
    if login.pending:
        return render.see_other(request, _factor_page(goal))
    return render.see_other(request, goal or await _home(request, login.person.id))


# ── the second factor of a pending login ──


def _factor_page(goal: str) -> str:
    return f"{FACTOR_PATH}?next={quote(goal, safe='')}" if goal else FACTOR_PATH


async def show_factor(request: PageRequest) -> Response:
    """Show the page on which a pending login proves its second factor."""
    return await _factor(request, request.next, by_recovery=request.query.get("recovery") == "1")


async def _factor(
    request: PageRequest,
    goal: str,
    status: int = 200,
    errors: dict[str, str] | None = None,
    wait: str = "",
    *,
    by_recovery: bool = False,
) -> Response:
    login = request.pending_login
    if login is None:
        return render.see_other(
            request, f"/login?next={quote(goal, safe='')}" if goal else "/login"
        )

    async def work(tx: Tx) -> tuple[people.Security, str | None]:
        security = await people.security_of(tx, login, request.now)
        if security.passkeys:
            await _count_passkey(tx, request, login)
        return security, await identity_proof.passkey_options(tx, request, security, login)

    security, options = await request.app.db.run(work)
    has_other = security.authenticator or options is not None
    return render.page(
        request, "factor.html", status, scripts=True, options=options,
        security=security, next=goal, email=login.email, errors=errors or {}, wait=wait,
        by_recovery=by_recovery or not has_other, for_staff=login.staff_role is not None,
        contact=request.app.settings.public_contact,
    )  # fmt: skip


async def prove_factor(request: PageRequest) -> Response:
    """Check the proof of a second factor: a passkey, a code or a recovery code."""
    form, settings, login = await request.form(), request.app.settings, request.pending_login
    goal, by_recovery = safe_next(form.get("next", "")), form.get("recovery") == "1"
    if login is None:
        return await _factor(request, goal)
    try:
        if credential := form.get("credential"):
            site = request.required_site
            proof = await passkeys.prove(request.app.db, login, credential, site, request.now)
        else:
            credentials = people.Credentials(
                email=login.email,
                password="",
                code=form.get("code", ""),
                browser=request.browser,
                cookies=login_cookies.trust_marks(request.headers),
            )
            key = settings.secret_key
            proof = await people.prove_code(request.app.db, login, credentials, key, request.now)
    except people.WrongCredentials:
        errors = {"code": N_("This code is wrong or was already used")}
        if form.get("credential"):
            errors = {"passkey": N_("This passkey was not accepted. Please try again")}
        return await _factor(request, goal, 401, errors, by_recovery=by_recovery)
    except TooManyRequests as problem:
        wait = request.localizer.duration(problem.retry_after_s * 1000)
        return await _factor(
            request,
            goal,
            429,
            {"code": N_("There were too many attempts. Try again in {wait}")},
            wait,
            by_recovery=by_recovery,
        )
    except NotLoggedIn:  # the login has ended meanwhile, for example by a new password
        request.admit(None)
        return await _factor(request, goal)
    request.new_cookies += [
        login_cookies.logged_in(settings, proof.token),
        login_cookies.remember_person(settings, request.headers, proof.person),
    ]
    return render.see_other(request, goal or await _home(request, login.person_id))


# ── a passkey without a password ──


async def begin_passkey(request: PageRequest) -> Response:
    """Show the page on which the browser asks for a passkey."""
    form = await request.form()
    return await _passkey(request, safe_next(form.get("next", "")))


async def _passkey(
    request: PageRequest, goal: str, status: int = 200, errors: dict[str, str] | None = None
) -> Response:
    key = request.app.settings.secret_key
    return render.page(
        request,
        "login_passkey.html",
        status,
        scripts=True,
        options=passkeys.login_options(request.required_site, key, request.now),
        next=goal,
        errors=errors or {},
    )


async def _count_passkey(tx: Tx, request: PageRequest, login: people.Login) -> None:
    """Count that a page asks a person for their passkey. Raises TooManyRequests.

    Browsers in which the person has logged in count separately, so that nobody else who knows the
    password can close the page to them.
    """
    subject, now, key = login.person_id, request.now, request.app.settings.secret_key
    person = await people.find_by_id(tx, login.person_id)
    if limits.is_trusted(key, person, login_cookies.trust_marks(request.headers)):
        subject += " known"
    if await rate_limits.hit(tx, "passkey", subject, _PASSKEYS_PER_MINUTE, now) is None:
        wait = await rate_limits.retry_after_s(tx, "passkey", subject, now)
        raise TooManyRequests(_PASSKEYS_PER_MINUTE, wait)


async def use_passkey(request: PageRequest) -> Response:
    """Log in the person to whom the used passkey belongs."""
    form, settings = await request.form(), request.app.settings
    goal, site = safe_next(form.get("next", "")), request.required_site
    credential, browser = form.get("credential", ""), request.browser
    try:
        login = await passkeys.log_in(
            request.app.db, credential, site, browser, settings.secret_key, request.now
        )
    except people.WrongCredentials:
        return await _passkey(
            request, goal, 401, {"passkey": N_("This passkey was not accepted. Please try again")}
        )
    request.new_cookies += login_cookies.build_login_cookies(settings, request.headers, login)
    return render.see_other(request, goal or await _home(request, login.person.id))


async def log_out(request: PageRequest) -> Response:
    """End the login, if there is one."""
    login = request.optional_login or request.pending_login
    if login is not None:
        await request.app.db.run(lambda tx: people.end(tx, login))
    request.new_cookies.append(login_cookies.logged_out(request.app.settings))
    return render.see_other(request, "/login")


pages: Final = (
    Page("GET", "/login", "anyone", show_login),
    Page("POST", "/login", "anyone", log_in),
    Page("GET", FACTOR_PATH, "anyone", show_factor),
    Page("POST", FACTOR_PATH, "anyone", prove_factor),
    Page("POST", "/login/passkey/begin", "anyone", begin_passkey),
    Page("POST", "/login/passkey", "anyone", use_passkey),
    Page("POST", "/logout", "anyone", log_out),
)
