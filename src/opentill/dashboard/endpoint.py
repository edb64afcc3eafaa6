"""One path of the dashboard as an ASGI application: who may, then what shows it.

The checks in their order: where a change comes from, who is logged in, what they may do at the
merchant, and, for what is dangerous, whether they have proved who they are within ten minutes.
Whatever goes wrong gets a page.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from opentill import people
from opentill.core.errors import MethodNotAllowed, NotFound, Problem
from opentill.core.ids import is_id
from opentill.dashboard import cookies, render
from opentill.dashboard.model import Page
from opentill.dashboard.request import PageRequest
from opentill.people import STEP_UP, Permission
from opentill.web import forms

PROOF: Final = "step_up_password"  # the field in which a form brings the password along


class NotPermitted(Problem):
    """The person may not do this here."""

    status, code, message = 403, 40301, "Not permitted"


class Endpoint:
    """The rows of one path, by method."""

    def __init__(self, pages: Sequence[Page]) -> None:
        """Take the rows of a path; none means that there is no such page."""
        self._pages: dict[str, Page] = {one.method: one for one in pages}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        request = PageRequest(scope, receive)
        try:
            response = await self._serve(scope["method"], request)
        except Exception as error:  # noqa: BLE001 - a person gets a page, the log the rest
            response = render.trouble(error, request)
        for cookie in request.new_cookies:
            response.headers.append("set-cookie", cookie)
        await response(scope, receive, send)

    async def _serve(self, method: str, request: PageRequest) -> Response:
        one = self._page(method)
        if one.method == "POST":
            forms.check_origin(request.headers, request.app.settings.public_url, cookies_count=True)
        login = await _login(request)
        request.admit(login)
        if one.allowed == "anyone":
            return await one.handler(request)
        if login is None:
            path = request.here().removeprefix(request.base)
            return render.see_other(request, f"/login?next={quote(path, safe='')}")
        if one.allowed != "a person":
            refused = await _admit(request, one.allowed, changes=one.method == "POST")
            if refused is not None:
                return refused
        return await one.handler(request)

    def _page(self, method: str) -> Page:
        if not self._pages:
            raise NotFound
        found = self._pages.get("GET" if method == "HEAD" else method)
        if found is None:
            raise MethodNotAllowed(("HEAD", *self._pages))
        return found


async def _login(request: PageRequest) -> people.Login | None:
    token = request.cookies.get(cookies.login_name(request.app.settings))
    if not token:
        return None
    return await people.find(request.app.db, token, request.browser.address, request.now)


async def _admit(request: PageRequest, permission: Permission, *, changes: bool) -> Response | None:
    """Note what the person may do at the merchant; the page to show instead where they may not.

    Raises NotFound and NotPermitted.
    """
    if not all(map(is_id, request.ids.values())):
        raise NotFound
    login = request.login
    access = await people.access(request.app.db, login, request.merchant_id, request.now)
    request.admit(login, access)
    if not access.may(permission):
        raise NotPermitted
    if changes and permission in STEP_UP and not login.is_proved(request.now):
        return await _step_up(request)
    return None


async def _step_up(request: PageRequest) -> Response | None:
    """Ask for the password before a form is taken; None once it came along with the form."""
    form = await request.form()
    given = form.pop(PROOF, None)
    errors: dict[str, str] = {}
    if given is not None:
        try:
            token = await people.prove(
                request.app.db, request.login, given, request.browser.address, request.now
            )
        except people.WrongCredentials:
            errors[PROOF] = "error_proof"
        else:
            request.new_cookies.append(cookies.logged_in(request.app.settings, token))
            return None
    status = 403 if errors else 200
    return render.page(request, "step_up.html", status, form=form, errors=errors, proof=PROOF)
