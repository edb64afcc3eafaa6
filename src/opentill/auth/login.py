"""Logging in and out."""

from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from opentill import people
from opentill.core.errors import TooManyRequests
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.people import passkeys
from opentill.portal import login_cookies, render
from opentill.portal.endpoint import FACTOR, passkey_options
from opentill.portal.labels import FACTOR_ERROR
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest, safe_next
from opentill.web.translations import N_

_PASSKEYS: Final = 30  # pages that ask a person for one, in a minute


async def _first_page(request: PageRequest, person_id: str) -> str:
    """Return where somebody comes who wanted to go nowhere else: staff to the console."""
    async with request.app.db.connection() as tx:
        return CONSOLE_PATH if await people.is_staff(tx, person_id) else "/dashboard"


async def show_login(request: PageRequest) -> Response:
    """Show the form, unless somebody is logged in already."""
    if request.known_login is not None:
        goal = request.next or await _first_page(request, request.login.person_id)
        return render.see_other(request, goal)
    return render.page(request, "login.html", email="", next=request.next)


async def log_in(request: PageRequest) -> Response:
    """Log somebody in, and lead to where they wanted to go."""
    form = await request.form()
    email, goal = form.get("email", ""), safe_next(form.get("next", ""))
    settings = request.app.settings
    given = people.Credentials(
        email=email,
        password=form.get("password", ""),
        browser=request.browser,
        code=form.get("code", ""),
        cookies=login_cookies.shown_trust(request.headers),
    )
    try:
        login = await people.log_in(request.app.db, given, settings.secret_key, request.now)
    except people.FactorsSuspended as suspended:
        wait = request.localizer.duration(max(0, suspended.until - request.now))
        return render.page(
            request,
            "login.html",
            403,
            email=email,
            next=goal,
            wait=wait,
            errors={
                "email": N_(
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
            email=email,
            next=goal,
            errors={"email": N_("E-mail, password or code is wrong")},
        )
    except TooManyRequests as problem:
        return render.page(
            request,
            "login.html",
            429,
            {"retry-after": str(problem.retry_after_s)},
            email=email,
            next=goal,
            errors={"email": N_("There were too many attempts. Try again in {wait}")},
            wait=request.localizer.duration(problem.retry_after_s * 1000),
        )
    request.new_cookies += login_cookies.begun(settings, request.headers, login)
    if login.pending:
        return render.see_other(request, _factor_page(goal))
    return render.see_other(request, goal or await _first_page(request, login.person.id))


# ── the second factor of a login that lacks it ──


def _factor_page(goal: str) -> str:
    return f"{FACTOR}?next={quote(goal, safe='')}" if goal else FACTOR


async def show_factor(request: PageRequest) -> Response:
    """Show the page on which somebody whose password was right proves their second factor."""
    return await _factor(request, request.next)


async def _factor(
    request: PageRequest,
    goal: str,
    status: int = 200,
    errors: dict[str, str] | None = None,
    wait: str = "",
) -> Response:
    login = request.pending_login
    if login is None:
        return render.see_other(
            request, f"/login?next={quote(goal, safe='')}" if goal else "/login"
        )

    async def work(tx: Tx) -> tuple[people.Security, str | None]:
        security = await people.security_of(tx, login, request.now)
        if security.passkeys:
            await _count_passkey(tx, login, request.now)
        return security, await passkey_options(tx, request, security, login)

    security, options = await request.app.db.run(work)
    return render.page(
        request, "factor.html", status, scripts=options is not None, options=options,
        security=security, next=goal, email=login.email, errors=errors or {}, wait=wait,
    )  # fmt: skip


async def prove_factor(request: PageRequest) -> Response:
    """Take the proof of a second factor: a passkey, a code, or a recovery code."""
    form, settings, login = await request.form(), request.app.settings, request.pending_login
    goal = safe_next(form.get("next", ""))
    if login is None:
        return await _factor(request, goal)
    try:
        if credential := form.get("credential"):
            site = request.known_site
            proof = await passkeys.prove(request.app.db, login, credential, site, request.now)
        else:
            given = people.Credentials(
                email=login.email,
                password="",
                code=form.get("code", ""),
                browser=request.browser,
                cookies=login_cookies.shown_trust(request.headers),
            )
            key = settings.secret_key
            proof = await people.prove_code(request.app.db, login, given, key, request.now)
    except people.WrongCredentials:
        field = "passkey" if form.get("credential") else "code"
        return await _factor(request, goal, 401, {field: FACTOR_ERROR[field]})
    except TooManyRequests as problem:
        wait = request.localizer.duration(problem.retry_after_s * 1000)
        return await _factor(
            request,
            goal,
            429,
            {"code": N_("There were too many attempts. Try again in {wait}")},
            wait,
        )
    request.new_cookies += [
        login_cookies.logged_in(settings, proof.token),
        login_cookies.know(settings, request.headers, proof.person),
    ]
    return render.see_other(request, goal or await _first_page(request, login.person_id))


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
        options=passkeys.login_options(request.known_site, key, request.now),
        next=goal,
        errors=errors or {},
    )


async def _count_passkey(tx: Tx, login: people.Login, now: int) -> None:
    """Count a page that asks a person for their passkey. Raises TooManyRequests."""
    if await rate_limits.hit(tx, "passkey", login.person_id, _PASSKEYS, now) is None:
        wait = await rate_limits.retry_after_s(tx, "passkey", login.person_id, now)
        raise TooManyRequests(_PASSKEYS, wait)


async def use_passkey(request: PageRequest) -> Response:
    """Log in the person whose passkey the browser has used."""
    form, settings = await request.form(), request.app.settings
    goal, site = safe_next(form.get("next", "")), request.known_site
    credential, browser = form.get("credential", ""), request.browser
    try:
        login = await passkeys.log_in(
            request.app.db, credential, site, browser, settings.secret_key, request.now
        )
    except people.WrongCredentials:
        return await _passkey(
            request, goal, 401, {"passkey": N_("This passkey was not accepted. Please try again")}
        )
    request.new_cookies += login_cookies.begun(settings, request.headers, login)
    return render.see_other(request, goal or await _first_page(request, login.person.id))


async def log_out(request: PageRequest) -> Response:
    """End the login, if there is one."""
    login = request.known_login or request.pending_login
    if login is not None:
        await request.app.db.run(lambda tx: people.end(tx, login))
    request.new_cookies.append(login_cookies.logged_out(request.app.settings))
    return render.see_other(request, "/login")


pages: Final = (
    Page("GET", "/login", "anyone", show_login),
    Page("POST", "/login", "anyone", log_in),
    Page("GET", FACTOR, "anyone", show_factor),
    Page("POST", FACTOR, "anyone", prove_factor),
    Page("POST", "/login/passkey/begin", "anyone", begin_passkey),
    Page("POST", "/login/passkey", "anyone", use_passkey),
    Page("POST", "/logout", "anyone", log_out),
)
