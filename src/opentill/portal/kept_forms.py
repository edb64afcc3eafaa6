"""Forms that outlive a login (decision 0076).

Every form has a field with the person to whom it was shown (``portal.py``). If the login has ended
when the form arrives, the response is a page that asks for the login and keeps the fields; the form
is accepted once the same person has logged in, there or in another tab. If another person is logged
in, the form does nothing, and its page is shown again.
"""

from typing import Final
from urllib.parse import quote, urlsplit

from starlette.responses import Response

from opentill import people
from opentill.core.errors import (
    Invalid,
    NotLoggedIn,
    PayloadTooLarge,
    TooManyRequests,
    UnsupportedMediaType,
)
from opentill.portal import login_cookies, render
from opentill.portal.model import SECRET_PREFIX
from opentill.portal.request import PageRequest, safe_next
from opentill.web.translations import N_

# The fields of the page that asks a person to log in again.
_EMAIL: Final = "login_email"
_PASSWORD: Final = "login_password"  # noqa: S105 - a name
_CODE: Final = "login_code"
_FROM: Final = "login_from"  # contains the path of the page with the kept form


async def check(request: PageRequest) -> Response | None:
    """Return None if the handler may process the form, else the response that is sent instead.

    The person to whom the form was shown must be logged in, or log in by this request.
    """
    try:
        form = await request.form()
    except (Invalid, PayloadTooLarge, UnsupportedMediaType):
        # An unreadable form has no fields to keep. The form's own handler reports the error.
        return _to_login(request) if request.optional_login is None else None
    entries = {name: form.pop(name, None) for name in (_EMAIL, _PASSWORD, _CODE, _FROM)}
    page = entries[_FROM] or _referring_page(request)
    if request.optional_login is None:
        if (response := await _log_in(request, entries, page)) is not None:
            return response
    # Programs do not send the field that names the person to whom the form was shown.
    elif request.sender in {"", request.login.person_id}:
        return None
    if request.sender == request.login.person_id:
        return None
    path = safe_next(page) or "/dashboard"
    return render.see_other(request, f"{path}{'&' if '?' in path else '?'}other_person=1")


def _referring_page(request: PageRequest) -> str:
    """Return the path, without the base, of the page with the form; "" if it is unknown."""
    try:
        address = urlsplit(request.headers.get(b"referer", b"").decode("latin-1"))
    except ValueError:  # no valid URL, such as "http://[::1"
        return ""
    path = address.path.removeprefix(request.base)
    return safe_next(f"{path}?{address.query}" if address.query else path)


def _to_login(request: PageRequest) -> Response:
    return render.see_other(request, f"/login?next={quote(_referring_page(request), safe='')}")


async def _log_in(
    request: PageRequest, entries: dict[str, str | None], page: str
) -> Response | None:
    """Log in with the entries of the login page; return that page if they are missing or wrong.

    The page asks for the password, and after it for the code if the person has a second factor.
    """
    email, password = entries[_EMAIL] or "", entries[_PASSWORD]
    settings = request.app.settings
    errors, wait, status = dict[str, str](), "", 401
    if password or email:
        credentials = people.Credentials(
            email=email,
            password=password or "",
            browser=request.browser,
            cookies=login_cookies.trust_marks(request.headers),
        )
        try:
            login = await people.log_in(
                request.app.db, credentials, settings.secret_key, request.now
            )
        except people.FactorsSuspended as suspended:
            errors = {
                _EMAIL: N_(
                    "Your new password is set. Without your second factor you can "
                    "log in only in {wait}"
                )
            }
            wait = request.localizer.duration(max(0, suspended.until - request.now))
        except people.WrongCredentials:
            errors = {_EMAIL: N_("Email or password is wrong")}
        except TooManyRequests as problem:
            errors, status = {_EMAIL: N_("There were too many attempts. Try again in {wait}")}, 429
            wait = request.localizer.duration(problem.retry_after_s * 1000)
        else:
            request.new_cookies += login_cookies.build_login_cookies(
                settings, request.headers, login
            )
            active_login = await people.find(
                request.app.db, login.token, request.browser.address, request.now
            )
            request.admit(active_login)
            if not login.pending:
                return _to_login(request) if active_login is None else None
    elif request.pending_login is not None and (code := entries[_CODE]) is not None:
        status, errors, wait = await _prove_code(request, request.pending_login, code)
        if request.optional_login is not None:
            return None
    elif password is not None:
        errors = {_EMAIL: N_("You are not logged in yet. Log in here, or in another tab")}
    form, secret_fields = await request.form(), request.portal.secret_fields
    kept_fields = {
        name: value
        for name, value in form.items()
        if name not in secret_fields and not name.startswith(SECRET_PREFIX)
    }
    lost = len(kept_fields) < len(form) or bool(await request.files())
    return render.page(
        request, "kept_form.html", status, form=kept_fields, lost=lost, page=page, email=email,
        errors=errors, wait=wait,
    )  # fmt: skip


async def _prove_code(
    request: PageRequest, login: people.Login, code: str
) -> tuple[int, dict[str, str], str]:
    """Prove the second factor of a pending login and admit it.

    Returns the status, errors and waiting time of the page if the code is wrong.
    """
    settings = request.app.settings
    credentials = people.Credentials(
        email=login.email,
        password="",
        code=code,
        browser=request.browser,
        cookies=login_cookies.trust_marks(request.headers),
    )
    if not code:
        return 401, {_CODE: N_("Enter a code, or confirm your second factor in another tab")}, ""
    try:
        proof = await people.prove_code(
            request.app.db, login, credentials, settings.secret_key, request.now
        )
    except people.WrongCredentials:
        return 401, {_CODE: N_("This code is wrong or was already used")}, ""
    except TooManyRequests as problem:
        wait = request.localizer.duration(problem.retry_after_s * 1000)
        return 429, {_CODE: N_("There were too many attempts. Try again in {wait}")}, wait
    except NotLoggedIn:  # the pending login has ended: ask for the password again
        request.admit(None)
        return 401, {_EMAIL: N_("You are not logged in yet. Log in here, or in another tab")}, ""
    request.new_cookies += [
        login_cookies.logged_in(settings, proof.token),
        login_cookies.remember_person(settings, request.headers, proof.person),
    ]
    request.admit(
        await people.find(request.app.db, proof.token, request.browser.address, request.now)
    )
    return 401, {}, ""
