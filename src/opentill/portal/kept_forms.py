"""Forms that outlive a login: what was entered is kept, and only who entered it sends it.

A form says whom it was shown to (``portal.py`` puts that into each). If the login has ended when it
comes, its fields are kept in a page that asks for the login, and it goes on once the same person is
logged in, there or in another tab. A form that somebody else was shown does nothing: whoever is
logged in now gets its page afresh.
"""

from typing import Final
from urllib.parse import quote, urlsplit

from starlette.responses import Response

from opentill import people
from opentill.core.errors import (
    Invalid,
    PayloadTooLarge,
    TooManyRequests,
    UnsupportedMediaType,
)
from opentill.portal import login_cookies, render
from opentill.portal.request import PageRequest, safe_next
from opentill.web.translations import N_

# The fields of the page that asks for the login.
_EMAIL: Final = "login_email"
_PASSWORD: Final = "login_password"  # noqa: S105 - a name
_CODE: Final = "login_code"
_FROM: Final = "login_from"  # the page that the form is on


async def check(request: PageRequest) -> Response | None:
    """Return None if the form may be taken: whom it was shown to is logged in, perhaps just now.

    Otherwise return what is shown in its place.
    """
    try:
        form = await request.form()
    except (Invalid, PayloadTooLarge, UnsupportedMediaType):
        # Nothing that could be kept. What reads it says what is wrong with it.
        return _to_login(request) if request.known_login is None else None
    given = {name: form.pop(name, None) for name in (_EMAIL, _PASSWORD, _CODE, _FROM)}
    page = given[_FROM] or _page_of(request)
    if request.known_login is None:
        asked = await _log_in(request, given, page)
        if asked is not None:
            return asked
    elif request.sender in {"", request.login.person_id}:  # programs know of no such field
        return None
    if request.sender == request.login.person_id:
        return None
    path = safe_next(page) or "/dashboard"
    return render.see_other(request, f"{path}{'&' if '?' in path else '?'}other_person=1")


def _page_of(request: PageRequest) -> str:
    """Return the page that the form was on, without the base: browsers send its address along."""
    try:
        address = urlsplit(request.headers.get(b"referer", b"").decode("latin-1"))
    except ValueError:  # such as "http://[::1"
        return ""
    path = address.path.removeprefix(request.base)
    return safe_next(f"{path}?{address.query}" if address.query else path)


def _to_login(request: PageRequest) -> Response:
    return render.see_other(request, f"/login?next={quote(_page_of(request), safe='')}")


async def _log_in(request: PageRequest, given: dict[str, str | None], page: str) -> Response | None:
    """Log in whoever has filled the page that asks for it; else show that page."""
    email, password = given[_EMAIL] or "", given[_PASSWORD]
    settings = request.app.settings
    errors, wait, status = dict[str, str](), "", 401
    if password or email:
        credentials = people.Credentials(
            email=email,
            password=password or "",
            browser=request.browser,
            code=given[_CODE] or "",
            cookies=login_cookies.shown_trust(request.headers),
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
            errors = {_EMAIL: N_("E-mail, password or code is wrong")}
        except TooManyRequests as problem:
            errors, status = {_EMAIL: N_("There were too many attempts. Try again in {wait}")}, 429
            wait = request.localizer.duration(problem.retry_after_s * 1000)
        else:
            request.new_cookies += login_cookies.begun(settings, request.headers, login)
            found = await people.find(
                request.app.db, login.token, request.browser.address, request.now
            )
            request.admit(found)
            if not login.pending:
                return _to_login(request) if found is None else None
            errors = {
                _EMAIL: N_(
                    "Your password is correct. Confirm your second factor in a new "
                    "tab, then come back here"
                )
            }
    elif password is not None:
        errors = {_EMAIL: N_("You are not logged in yet. Log in here, or in another tab")}
    if request.pending_login is not None and not errors:
        errors = {
            _EMAIL: N_(
                "Your password is correct. Confirm your second factor in a new "
                "tab, then come back here"
            )
        }
    not_kept = request.portal.not_kept
    kept = {name: one for name, one in (await request.form()).items() if name not in not_kept}
    lost = len(kept) < len(await request.form()) or bool(await request.files())
    return render.page(
        request, "kept_form.html", status, form=kept, lost=lost, page=page, email=email,
        errors=errors, wait=wait,
    )  # fmt: skip
