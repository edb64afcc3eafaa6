"""One path of a table of pages as an ASGI application: who may, then what shows it.

The checks in their order: where a change comes from, who is logged in and was shown the form, what
they may do at the merchant or as staff, and, for what is dangerous, whether they have proved who
they are within ten minutes. Whatever goes wrong gets a page.
"""

import functools
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from opentill import people
from opentill.core import log
from opentill.core.errors import MethodNotAllowed, NotFound, NotPermitted, TooManyRequests
from opentill.core.ids import is_id
from opentill.db.database import Tx
from opentill.http import routing
from opentill.http.incoming import MAX_BODY
from opentill.people import NEED_PROOF, Permission, passkeys
from opentill.portal import kept_forms, login_cookies, render
from opentill.portal.model import OF_PROOF, Page
from opentill.portal.portal import Portal
from opentill.portal.request import PageRequest
from opentill.web import forms
from opentill.web.responses import GUARDS, PRIVATE
from opentill.web.translations import N_

_PASSWORD: Final = f"{OF_PROOF}password"
_CODE: Final = f"{OF_PROOF}code"
_CREDENTIAL: Final = f"{OF_PROOF}credential"
# What a live page gets that asks again and may not be seen any more: its browser is to load
# it again, and comes to the login or to the page that says why.
_NOT_HERE: Final = (303, 403, 404)
FACTOR: Final = "/login/factor"  # where a login that lacks its second factor proves it
_LOAD_AGAIN: Final = {**GUARDS, **PRIVATE, "hx-refresh": "true"}


class Endpoint:
    """The rows of one path, by method."""

    def __init__(self, portal: Portal, pages: Sequence[Page]) -> None:
        """Take the rows of a path; none means that there is no such page."""
        self._portal = portal
        self._pages: dict[str, Page] = {one.method: one for one in pages}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        request = PageRequest(self._portal, scope, receive)
        try:
            response = await self._serve(scope["method"], request)
        except Exception as error:  # noqa: BLE001 - a person gets a page, the log the rest
            response = render.trouble(error, request)
        if request.is_poll and response.status_code in _NOT_HERE:
            response = Response(b"", 403, _LOAD_AGAIN)
        for cookie in request.new_cookies:
            response.headers.append("set-cookie", cookie)
        await response(scope, receive, send)

    async def _serve(self, method: str, request: PageRequest) -> Response:
        one = self._page(method)
        if one.method == "POST":
            forms.check_origin(request.headers, request.app.settings.public_url, cookies_count=True)
        request.admit(await _login(request))
        await _allow_files(request, one)
        if one.allowed == "anyone":
            return await one.handler(request)
        if one.method == "POST":
            asked = await kept_forms.check(request)
            if asked is not None:
                return asked
        elif request.known_login is None:
            path = request.here().removeprefix(request.base)
            place = "/login" if request.pending_login is None else FACTOR
            return render.see_other(request, f"{place}?next={quote(path, safe='')}")
        login, proof = request.login, one.proof
        if _lacks_second_factor(request) and not _may_enroll(login, one):
            return render.see_other(request, "/security?second=1")
        if one.allowed != "a person":
            await _admit(request, one)
            proof = one.method == "POST" and one.allowed in NEED_PROOF
        if proof and not login.is_proved(request.now):
            asked = await _proof(request)
            if asked is not None:
                return asked
        return await one.handler(request)

    def _page(self, method: str) -> Page:
        if not self._pages:
            raise NotFound
        found = self._pages.get("GET" if method == "HEAD" else method)
        if found is None:
            raise MethodNotAllowed(("HEAD", *self._pages))
        return found


def routes(portal: Portal, rest: str = "") -> list[Route]:
    """Return the routes of a portal's pages; whatever else begins with ``rest`` is no page."""
    found = routing.build_routes(portal.pages, functools.partial(Endpoint, portal))
    return [*found, Route(f"{rest}/{{rest:path}}", Endpoint(portal, ()))] if rest else found


async def _login(request: PageRequest) -> people.Login | None:
    token = login_cookies.login(request.app.settings, request.headers)
    if not token:
        return None
    address, used = request.browser.address, not request.is_poll
    return await people.find(request.app.db, token, address, request.now, used=used)


def _lacks_second_factor(request: PageRequest) -> bool:
    """Return whether somebody of the staff has to log in with a second factor first.

    In a deployment without real money they need none.
    """
    login = request.login
    return login.staff_role is not None and not login.strong and request.app.settings.livemode


def _may_enroll(login: people.Login, one: Page) -> bool:
    """Return whether a page is one on which staff set up their first second factor.

    They do that in a login that a link has begun: with a password alone, somebody else could.
    """
    return one.enrolls and (one.method == "GET" or login.by_link)


async def _admit(request: PageRequest, one: Page) -> None:
    """Note what the person may do at a merchant. Raises NotFound and NotPermitted.

    To whoever is not staff, there is no console.
    """
    login = request.login
    if not all(map(is_id, request.ids.values())):
        raise NotFound
    if not one.of_console:
        access = await people.access(request.app.db, login, request.merchant_id, request.now)
        log.merchant.set(access.merchant_id)
        request.admit(login, access)
    elif login.staff_role is None:
        raise NotFound
    permission: Permission = one.allowed  # type: ignore[assignment] # the caller saw to the others
    if not request.may(permission):
        raise NotPermitted


async def _allow_files(request: PageRequest, one: Page) -> None:
    """Allow the files of a form to who may do what they are for, before any is read."""
    request.most_of_files = min(one.files, MAX_BODY)
    if not one.files or request.known_login is None or _lacks_second_factor(request):
        return
    try:
        await _admit(request, one)
    except (NotFound, NotPermitted):
        return
    request.most_of_files, request.may_upload = one.files, True


async def prove_first(request: PageRequest) -> Response | None:
    """Ask for a step-up before a form is taken, where what the form says makes it dangerous.

    None once the person has proved who they are.
    """
    return None if request.login.is_proved(request.now) else await _proof(request)


async def _proof(request: PageRequest) -> Response | None:
    """Ask who somebody is before a form is taken; None once the proof came along with the form.

    The proof is a passkey or, also of whoever has none, the password with a code of the second
    factor, if there is one.
    """
    form, errors, wait, status = await request.form(), dict[str, str](), "", 200
    password, code = request.proving.get(_PASSWORD), request.proving.get(_CODE, "")
    settings, credential = request.app.settings, request.proving.get(_CREDENTIAL)
    if credential is not None:
        site = request.known_site
        try:
            proof = await passkeys.prove(
                request.app.db, request.login, credential, site, request.now
            )
        except people.WrongCredentials:
            errors, status = (
                {_CREDENTIAL: N_("This passkey was not accepted. Please try again")},
                403,
            )
        else:
            request.new_cookies.append(login_cookies.logged_in(settings, proof.token))
            return None
    elif password is not None:
        try:
            proof = await people.prove(
                request.app.db,
                request.login,
                request.proof(password, code),
                settings.secret_key,
                request.now,
            )
        except people.WrongCredentials:
            errors, status = {_PASSWORD: N_("The password or the code is wrong")}, 403
        except TooManyRequests as problem:
            errors, status = (
                {_PASSWORD: N_("There were too many attempts. Try again in {wait}")},
                429,
            )
            wait = request.localizer.duration(problem.retry_after_s * 1000)
        else:
            request.new_cookies.append(login_cookies.logged_in(settings, proof.token))
            return None
    async with request.app.db.connection() as tx:
        security = await people.security_of(tx, request.login, request.now)
        options = await passkey_options(tx, request, security, request.login)
    files = await request.kept_files()
    return render.page(
        request, "proof.html", status, form=form | files, errors=errors, security=security,
        wait=wait, options=options, scripts=options is not None,
        files=bool(files), lost=len(files) < len(await request.files()),
    )  # fmt: skip


async def passkey_options(
    tx: Tx, request: PageRequest, security: people.Security, login: people.Login
) -> str | None:
    """Return what a page asks a person's passkey with; None where none of theirs works."""
    if request.site is None or not security.passkeys:
        return None
    return await passkeys.options(tx, request.site, request.now, login.person_id)
