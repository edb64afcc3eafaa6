"""One path of a table of pages as an ASGI application: the checks, then the handler.

The checks in their order: the origin of a form; the login, and the person to whom the form was
shown; the permission at the merchant or as staff; the fields of the form, and the page's own check
of it; a step-up where the page needs one. Errors are shown as pages.
"""

import functools
from collections.abc import Sequence
from typing import Any, Final, cast
from urllib.parse import quote

from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from opentill import people
from opentill.core import log
from opentill.core.errors import MethodNotAllowed, NotFound, NotPermitted, PayloadTooLarge
from opentill.core.ids import is_id
from opentill.db.database import storing_nothing
from opentill.http import routing
from opentill.http.incoming import MAX_BODY
from opentill.people import NEED_PROOF, Permission
from opentill.portal import identity_proof, kept_forms, login_cookies, render
from opentill.portal.model import FACTOR_PATH, Page
from opentill.portal.portal import Portal
from opentill.portal.request import PageRequest, Rehearsed
from opentill.web import forms
from opentill.web.responses import GUARDS, PRIVATE

# If an update of a live page gets one of these statuses, the browser reloads the whole page, which
# shows the login or says what is wrong.
_NO_UPDATE: Final = (303, 403, 404)
# Errors whose page has the menu and the search for people who have logged in. Other errors may be
# defects or a database that does not respond, so their page needs nothing else.
_SHOWN_IN_FRAME: Final = (NotFound, NotPermitted, MethodNotAllowed)
_RELOAD: Final = {**GUARDS, **PRIVATE, "hx-refresh": "true"}


class Endpoint:
    """The pages of one path, by HTTP method, as an ASGI application."""

    def __init__(self, portal: Portal, pages: Sequence[Page[Any]]) -> None:
        """Store the path's rows of the table; without rows, the path is not found."""
        self._portal = portal
        self._pages: dict[str, Page[Any]] = {page.method: page for page in pages}
        self._has_only_a_form = set(self._pages) == {"POST"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        request = PageRequest(self._portal, scope, receive)
        try:
            if scope["method"] in ("GET", "HEAD") and self._has_only_a_form:
                # After the form the address bar has its path; people copy it, browsers restore it.
                response = render.see_other(request, self._portal.form_page(request.path))
            else:
                response = await self._serve(scope["method"], request)
        except Exception as error:  # noqa: BLE001 - a person gets a page, the log the rest
            response = await _error_page(error, request)
        if request.is_poll and response.status_code in _NO_UPDATE:
            response = Response(b"", 403, _RELOAD)
        for cookie in request.new_cookies:
            response.headers.append("set-cookie", cookie)
        await response(scope, receive, send)

    async def _serve(self, method: str, request: PageRequest) -> Response:
        page = self._page(method)
        if page.method == "POST":
            forms.check_origin(request.headers, request.app.settings.public_url, cookies_count=True)
        request.admit(await _find_login(request))
        await _allow_files(request, page)
        if page.allowed == "anyone":
            return await page.handler(request)
        if page.method == "POST":
            if (response := await kept_forms.check(request)) is not None:
                return response
        elif request.optional_login is None:
            path = request.url().removeprefix(request.base)
            login_path = "/login" if request.pending_login is None else FACTOR_PATH
            return render.see_other(request, f"{login_path}?next={quote(path, safe='')}")
        needs_proof = page.proof
        if _lacks_second_factor(request) and not _may_enroll(request.login, page):
            return render.see_other(request, "/security?second=1")
        if page.allowed != "a person":
            await _check_permission(request, page)
            needs_proof = page.method == "POST" and page.allowed in NEED_PROOF
        await _count_waiting(request, is_file=page.is_file)
        await _check_fields(request, page)
        response = None if page.check is None else await page.check(request)
        if response is None and needs_proof:
            response = await _require_proof(request, page)
        return response if response is not None else await page.handler(request)

    def _page(self, method: str) -> Page[Any]:
        if not self._pages:
            raise NotFound
        page = self._pages.get("GET" if method == "HEAD" else method)
        if page is None:
            raise MethodNotAllowed(("HEAD", *self._pages))
        return page


def routes(portal: Portal, prefix: str = "") -> list[Route]:
    """Return the routes of a portal's pages; other paths below ``prefix`` are not found."""
    page_routes = routing.build_routes(portal.pages, functools.partial(Endpoint, portal))
    if not prefix:
        return page_routes
    return [*page_routes, Route(f"{prefix}/{{rest:path}}", Endpoint(portal, ()))]


async def _error_page(error: Exception, request: PageRequest) -> Response:
    owners: list[str] = []
    if isinstance(error, _SHOWN_IN_FRAME):
        try:
            await _admit_to_frame(request)
            await _count_waiting(request)
            if isinstance(error, NotPermitted):
                owners = await _owners(request)
        except Exception as frame_error:  # noqa: BLE001 - the database may have stopped responding
            error = frame_error
    return render.error_page(error, request, owners)


async def _owners(request: PageRequest) -> list[str]:
    """Return the names of the owners whom a member can ask for another role."""
    access = request.optional_access
    if access is None or access.role is None:
        return []
    async with request.app.db.connection() as tx:
        members = await people.members(tx, access.merchant_id)
    return [member.name for member in members if member.role == "owner"]


async def _admit_to_frame(request: PageRequest) -> None:
    """Find the person and the merchant of a request that failed before its checks had done so."""
    if request.optional_login is None:
        request.admit(await _find_login(request))
    login = request.optional_login
    if login is None or _lacks_second_factor(request) or request.optional_access is not None:
        return
    if merchant_id := request.merchant_in_path:
        try:
            access = await people.access(request.app.db, login, merchant_id, request.now)
        except NotFound:  # the person has no access to the merchant
            return
        request.admit(login, access)


async def _find_login(request: PageRequest) -> people.Login | None:
    token = login_cookies.login(request.app.settings, request.headers)
    if not token:
        return None
    address, used = request.browser.address, not request.is_poll
    return await people.find(
        request.app.db,
        token,
        address,
        request.now,
        used=used,
        with_workplaces=bool(request.merchant_in_path),
    )


def _lacks_second_factor(request: PageRequest) -> bool:
    """Return whether a staff member has to log in with a second factor first.

    A deployment without real money requires none.
    """
    login = request.login
    return login.staff_role is not None and not login.strong and request.app.settings.livemode


def _may_enroll(login: people.Login, page: Page[Any]) -> bool:
    """Return whether staff may set up their first second factor on a page, in this login.

    Only a login by a mailed link may: with a password alone, an attacker could.
    """
    return page.enrolls and (page.method == "GET" or login.by_link)


async def _check_permission(request: PageRequest, page: Page[Any]) -> None:
    """Check the page's permission. Raises NotFound and NotPermitted.

    The console does not exist for persons who are not staff.
    """
    login = request.login
    if not all(map(is_id, request.ids.values())):
        raise NotFound
    if not page.in_console:
        access = await people.access(request.app.db, login, request.merchant_id, request.now)
        log.merchant.set(access.merchant_id)
        request.admit(login, access)
    elif login.staff_role is None:
        raise NotFound
    if not request.may(cast("Permission", page.allowed)):
        raise NotPermitted


async def _count_waiting(request: PageRequest, *, is_file: bool = False) -> None:
    """Count the waiting cases of the menu: any response but an update may be a page with it.

    A form may be shown again with its errors, ask for a proof, or show a new key once.
    """
    count = request.portal.count_waiting
    if count is None or is_file or request.is_poll:
        return
    request.waiting = await count(request)


async def _check_fields(request: PageRequest, page: Page[Any]) -> None:
    """Check that the form has the page's fields. Raises IncompleteForm."""
    if not page.fields:
        return
    try:
        form = await request.form()
    except PayloadTooLarge:  # the handler reports which file is too large
        return
    forms.require_fields(form, page.fields)


async def _require_proof(request: PageRequest, page: Page[Any]) -> Response | None:
    """Return the page that asks for a proof, or the errors of the form; None if it was proved."""
    response = await _rehearse(request, page) if page.rehearsed else None
    if response is None:
        response = await identity_proof.require(request, page.allowed, page)
    return response


async def _rehearse(request: PageRequest, page: Page[Any]) -> Response | None:
    """Run the handler of a form without storing anything; return its errors, None without.

    Nobody enters a password for a form that is then refused.
    """
    if request.login.is_proved(request.now) or request.proof_fields:
        return None
    request.is_rehearsal = True
    try:
        with storing_nothing():
            return await page.handler(request)
    except Rehearsed:
        return None
    finally:
        request.is_rehearsal = False


async def _allow_files(request: PageRequest, page: Page[Any]) -> None:
    """Allow the files of a form, before any is read, if the person may send the form."""
    request.max_file_bytes = min(page.files, MAX_BODY)
    if not page.files or request.optional_login is None or _lacks_second_factor(request):
        return
    try:
        await _check_permission(request, page)
    except (NotFound, NotPermitted):
        return
    request.max_file_bytes, request.may_upload = page.files, True
