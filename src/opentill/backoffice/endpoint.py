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
from opentill.backoffice import cookies, kept_forms, render
from opentill.backoffice.faces import Face
from opentill.backoffice.model import OF_PROOF, Page
from opentill.backoffice.request import PageRequest
from opentill.core import log
from opentill.core.errors import MethodNotAllowed, NotFound, NotPermitted, TooManyRequests
from opentill.core.ids import is_id
from opentill.http import routing
from opentill.http.incoming import MAX_BODY
from opentill.people import NEED_PROOF, Permission
from opentill.web import forms
from opentill.web.responses import GUARDS, PRIVATE

_PASSWORD: Final = f"{OF_PROOF}password"
_CODE: Final = f"{OF_PROOF}code"
# What a live page gets that asks again and may not be seen any more: its browser is to load
# it again, and comes to the login or to the page that says why.
_NOT_HERE: Final = (303, 403, 404)
_LOAD_AGAIN: Final = {**GUARDS, **PRIVATE, "hx-refresh": "true"}


class Endpoint:
    """The rows of one path, by method."""

    def __init__(self, face: Face, pages: Sequence[Page]) -> None:
        """Take the rows of a path; none means that there is no such page."""
        self._face = face
        self._pages: dict[str, Page] = {one.method: one for one in pages}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        request = PageRequest(self._face, scope, receive)
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
            return render.see_other(request, f"/login?next={quote(path, safe='')}")
        login, proof = request.login, one.proof
        if one.allowed != "a person":
            if _lacks_second_factor(request):
                return render.see_other(request, "/security?second=1")
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


def routes(face: Face, rest: str = "") -> list[Route]:
    """Return the routes of a face's pages; whatever else begins with ``rest`` is no page."""
    found = routing.of_rows(face.pages, functools.partial(Endpoint, face))
    return [*found, Route(f"{rest}/{{rest:path}}", Endpoint(face, ()))] if rest else found


async def _login(request: PageRequest) -> people.Login | None:
    token = cookies.login(request.app.settings, request.headers)
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


async def _proof(request: PageRequest) -> Response | None:
    """Ask for the password before a form is taken; None once it came along with the form."""
    form, errors, wait, status = await request.form(), dict[str, str](), "", 200
    password, code = request.proving.get(_PASSWORD), request.proving.get(_CODE, "")
    settings = request.app.settings
    if password is not None:
        try:
            proof = await people.prove(
                request.app.db,
                request.login,
                request.proof(password, code),
                settings.secret_key,
                request.now,
            )
        except people.WrongCredentials:
            errors, status = {_PASSWORD: "error_proof"}, 403
        except TooManyRequests as problem:
            errors, status = {_PASSWORD: "error_wait"}, 429
            wait = request.localizer.duration(problem.retry_after_s * 1000)
        else:
            request.new_cookies.append(cookies.logged_in(settings, proof.token))
            return None
    async with request.app.db.connection() as tx:
        second = await people.has_second_factor(tx, request.login)
    files = await request.kept_files()
    return render.page(
        request, "proof.html", status, form=form | files, errors=errors, second=second, wait=wait,
        files=bool(files), lost=len(files) < len(await request.files()),
    )  # fmt: skip
