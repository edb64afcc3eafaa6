"""A request for a page, and the person who makes it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar
from urllib.parse import parse_qsl, unquote, urlencode

from starlette.types import Receive, Scope

from opentill import context
from opentill.core.errors import Invalid, Problem, or_not_found
from opentill.core.ids import is_id
from opentill.db.database import Tx, storing_nothing
from opentill.disputes import WaitingCases
from opentill.gateways import account_name
from opentill.orders import OPERATOR
from opentill.people import Access, Browser, Credentials, Login, Permission, Site, staff_may
from opentill.portal.gateway_labels import GATEWAY_TITLE
from opentill.portal.model import CONSOLE_PATH, PROOF_PREFIX, SENDER
from opentill.portal.portal import Portal
from opentill.server.protocol import ALLOW_BODY_S
from opentill.server.upload_limits import Uploads
from opentill.web import forms, language, templates

T = TypeVar("T")
_MAX_FIELDS: Final = 50
# Fields of the query that report the result of an action. A page shows them once.
_RESULTS: Final = frozenset({"other_person", "done", "rows", "matched", "found"})
_NO_FILTERS: Final = _RESULTS | {
    "lang",
    "page",
    "before",
    "after",
    "live",
    "sheet",
    "for",
    "tab",
    "sort",
    "test",
}


class Rehearsed(Exception):
    """The form was rehearsed without an error; nothing of it is stored."""


class PageRequest:
    """A request, its form and the person who made it.

    ``login`` exists on each page that needs a login, ``access`` on a merchant's pages.
    """

    def __init__(self, portal: Portal, scope: Scope, receive: Receive) -> None:
        """Read the head of the request; a malformed query counts as empty."""
        self.portal = portal
        self.app = context.app_of(scope)
        self.now = self.app.clock()
        self.path: str = scope["path"]
        self.is_read: Final = scope["method"] in {"GET", "HEAD"}
        self.ids: Mapping[str, str] = scope["path_params"]
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        user_agent = self.headers.get(b"user-agent", b"").decode("latin-1")
        try:
            pairs = parse_qsl(
                scope["query_string"].decode("latin-1"),
                keep_blank_values=True,  # an empty field has another meaning than a missing one
                max_num_fields=_MAX_FIELDS,
            )
        except ValueError:
            pairs = []
        # PostgreSQL cannot store or compare texts with NUL, so it is removed.
        self.query = {name: value.replace("\0", "") for name, value in reversed(pairs)}
        self.base = templates.base_path(self.app.settings.public_url)
        self.localizer = language.choose(
            "merchant",
            self.query.get("lang"),
            self.headers.get(b"accept-language", b"").decode("latin-1"),
            remembered=language.cookie_language("merchant", self.headers),
        )
        self.browser = Browser(scope["opentill_address"], user_agent, self.localizer.language)
        self.max_file_bytes = 0  # the limit for all files of the form together
        self.may_upload = False  # whether the person may upload files by this form
        self._receive = receive
        self._allow_body_s: Callable[[float], None] = scope.get(ALLOW_BODY_S, _ignore_deadline)
        self._form: forms.Form | Problem | None = None
        self._sender = ""
        self._proof_fields: dict[str, str] = {}
        self._login: Login | None = None
        self._pending: Login | None = None
        self._access: Access | None = None
        self.new_cookies: list[str] = []
        # Whether the form is only rehearsed, before its sender has proved who they are.
        self.is_rehearsal = False
        # How much waits for the person on pages of the menu, by their paths below the portal's.
        self.waiting: Mapping[str, int] = {}
        self.cases: WaitingCases | None = None  # these cases, once they have been read
        if language.supported("merchant", self.query.get("lang")):
            chosen = self.localizer.language
            self.new_cookies.append(language.cookie(chosen, self.app.settings.public_url))

    def account_name(self, gateway: str) -> str:
        """Return how pages name a gateway account by its id: its label and its gateway.

        An account of the environment has no label: pages name its gateway, or the bank. Payments
        that staff marked as paid have none either.
        """
        if gateway == OPERATOR:
            return self.localizer.gettext("Manual payments")
        name = account_name(self.app.gateways, gateway)
        title = GATEWAY_TITLE.get(name) if name == gateway else None
        return name if title is None else self.localizer.gettext(title)

    @property
    def is_poll(self) -> bool:
        """Whether the script of a live page made the request (decision 0068), not a person.

        Posts are never polls, whatever their headers say.
        """
        return self.is_read and self.headers.get(b"hx-request") == b"true"

    @property
    def site(self) -> Site | None:
        """The site of passkeys, None if they do not work here."""
        host = self.headers.get(b"host", b"").decode("latin-1")
        return Site.from_url(self.app.settings.public_url, host)

    @property
    def required_site(self) -> Site:
        """The site of passkeys. Raises NotFound if they do not work here."""
        return or_not_found(self.site)

    @property
    def merchant_id(self) -> str:
        """The merchant in the path, or else of the person's access; "" if there is none."""
        in_path = self.ids.get("merchant", "") or self.merchant_in_path
        return in_path or ("" if self._access is None else self._access.merchant_id)

    @property
    def merchant_in_path(self) -> str:
        """The merchant in a path of the dashboard, even if it has no page; "" if there is none."""
        if self.portal.is_console or not self.path.startswith("/dashboard/"):
            return ""
        segment = self.path.split("/")[2]
        return segment if is_id(segment) else ""

    @property
    def has_frame(self) -> bool:
        """Whether the person is known well enough to see the menu of the portal."""
        return self.is_admitted_staff if self.portal.is_console else self._access is not None

    @property
    def is_admitted_staff(self) -> bool:
        """Whether the person is staff, and has the second factor that the console requires."""
        login, needs_factor = self._login, self.app.settings.livemode
        return (
            login is not None
            and login.staff_role is not None
            and (login.strong or not needs_factor)
        )

    @property
    def optional_login(self) -> Login | None:
        """The login, None if nobody is logged in."""
        return self._login

    @property
    def pending_login(self) -> Login | None:
        """A login that lacks its second factor. Only the page that asks for the factor uses it."""
        return self._pending

    @property
    def optional_access(self) -> Access | None:
        """The person's access to the merchant in the path, None if there is no merchant.

        On the person's own pages it is the access to their only merchant.
        """
        return self._access

    @property
    def login(self) -> Login:
        """The login of the person who made the request."""
        if self._login is None:
            raise AssertionError  # ``allowed`` of the page permits visitors without a login
        return self._login

    @property
    def access(self) -> Access:
        """The person's access to the merchant in the path."""
        if self._access is None:
            raise AssertionError  # the path of the page contains no merchant
        return self._access

    def may(self, permission: Permission) -> bool:
        """Return whether the person has a permission at the path's merchant, or else as staff."""
        if self._access is not None:
            return self._access.may(permission)
        role = self.login.staff_role
        return role is not None and staff_may(role, permission)

    def admit(self, login: Login | None, access: Access | None = None) -> None:
        """Set the login and access of the request."""
        if login is not None and login.is_pending:
            self._login, self._pending, self._access = None, login, None
        else:
            self._login, self._pending, self._access = login, None, access

    def credentials(self, password: str, code: str) -> Credentials:
        """Return the credentials with which the person proves their identity for a step-up."""
        return Credentials(
            email=self.login.email,
            password=password,
            code=code,
            browser=self.browser,
            is_known_browser=True,
        )

    async def transact(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run ``work`` in a transaction; if the form is only rehearsed, undo it.

        Raises the exceptions of ``work``, and then Rehearsed in a rehearsal.
        """

        async def rehearse(tx: Tx) -> T:
            await work(tx)
            raise Rehearsed

        if not self.is_rehearsal:
            return await self.app.db.run(work)
        with storing_nothing(is_set=False):
            return await self.app.db.run(rehearse)

    async def form(self) -> dict[str, str]:
        """Return the fields of the form. Raises the errors of ``forms.read``."""
        return (await self._read_once()).fields

    async def files(self) -> dict[str, forms.Upload]:
        """Return the files of the form. Raises the errors of ``forms.read``."""
        return (await self._read_once()).files

    async def _read_once(self) -> forms.Form:
        """Read the form at the first call; later ones return or raise the same.

        A request that only reads has none.
        """
        if self.is_read:
            return forms.Form({}, {})
        if self._form is None:
            try:
                self._form = await self._read()
                fields = self._form.fields
                self._sender = fields.pop(SENDER, "")
                proof_fields = [name for name in fields if name.startswith(PROOF_PREFIX)]
                self._proof_fields = {name: fields.pop(name) for name in proof_fields}
            except Problem as problem:
                self._form = problem
        if isinstance(self._form, Problem):
            raise self._form
        return self._form

    async def _read(self) -> forms.Form:
        if not self.may_upload:
            form = await forms.read_with_files(self.headers, self._receive, self.max_file_bytes)
        else:
            form = await self._upload(self.app.uploads)
        forms.decode_files(form)
        return form

    async def _upload(self, uploads: Uploads) -> forms.Form:
        """Read a form with files within the time for uploads.

        Raises the errors of ``forms.read``.
        """
        with uploads.turn(self.login.person_id, self.browser.address):
            self._allow_body_s(uploads.time_s)
            try:
                async with asyncio.timeout(uploads.time_s):
                    return await forms.read_with_files(
                        self.headers, self._receive, self.max_file_bytes
                    )
            except TimeoutError:
                reason = f"the file must arrive within {uploads.time_s:g} seconds"
                raise Invalid("body", reason) from None

    async def encoded_files(self) -> dict[str, str]:
        """Return the files of the form as hidden fields, unless they are too large for that."""
        return forms.encode_files(await self.files(), self.max_file_bytes)

    @property
    def sender(self) -> str:
        """The person to whom the form was shown, "" if unknown; set once the form is read."""
        return self._sender

    @property
    def proof_fields(self) -> Mapping[str, str]:
        """The fields that prove the sender's identity; set once the form is read.

        ``form`` lacks them, so that a password is neither stored nor shown again.
        """
        return self._proof_fields

    @property
    def person(self) -> str:
        """The person to whom the forms of the response are shown, "" for anyone."""
        return self._sender if self._login is None else self._login.person_id

    def url(self, **changes: str) -> str:
        """Return the request's own URL with changes of its query."""
        query = urlencode({**self.query, **changes})
        return f"{self.base}{self.path}?{query}" if query else f"{self.base}{self.path}"

    @property
    def page(self) -> str:
        """The path of the page that is shown; for a POST, the path of the page with the form."""
        return self.path if self.is_read else self.portal.nearest_page(self.path)

    def page_url(self, **changes: str) -> str:
        """Return the URL of the page that is shown, with changes of its query."""
        if self.is_read:
            return self.url(**changes)
        return f"{self.base}{self.page}?{urlencode(changes)}"

    def page_without(self, *names: str, **changes: str) -> str:
        """Return the URL of the first page of the list that is shown, without some fields.

        ``changes`` are fields with new values.
        """
        left_out = {*names, "page", "before", "after", *_RESULTS}
        query = {name: value for name, value in self.query.items() if name not in left_out}
        path = f"{self.base}{self.page}"
        encoded = urlencode({**query, **changes})
        return f"{path}?{encoded}" if encoded else path

    @property
    def console_of_staff(self) -> Portal | None:
        """The console, if its menu is around the page: on its pages, and on staff's own."""
        console, _ = self.portal.neighbors or (None, None)
        if self.portal.is_console:
            console = self.portal
        return console if self.is_admitted_staff else None

    @property
    def search_path(self) -> str:
        """The path of the search in the header; "" if the page has none."""
        if self._access is not None:
            return self.link("search")
        console = self.console_of_staff
        return self.console("search") if console and console.has_page("/search") else ""

    @property
    def is_search(self) -> bool:
        """Whether this is the page with the results of the search."""
        return self.search_path == f"{self.base}{self.path}"

    @property
    def is_filtered(self) -> bool:
        """Whether the query has a filter."""
        return any(text for name, text in self.query.items() if name not in _NO_FILTERS)

    def link(self, *segments: str) -> str:
        """Return the path of a page of this merchant."""
        return "/".join((f"{self.base}/dashboard", self.merchant_id, *segments)) + (
            "" if segments else "/"
        )

    def console(self, *segments: str) -> str:
        """Return the path of a page of the console."""
        return "/".join((self.base + CONSOLE_PATH, *segments)) + ("" if segments else "/")

    @property
    def next(self) -> str:
        """The path to open after logging in, without the base; "" if none is allowed."""
        return safe_next(self.query.get("next", ""))


def _ignore_deadline(_seconds: float) -> None:
    """Stand in for a server that has no deadlines for bodies."""


_NEXT: Final = ("/dashboard", CONSOLE_PATH, "/security", "/invite/")
_LONGEST_NEXT: Final = 2000


def safe_next(path: str) -> str:
    """Return a path that may be opened after logging in; "" for anything else.

    It begins with one of ``_NEXT`` and contains nothing that a browser could read as another
    host: no backslash, no control character, no double slash. Its segments are no dots, which
    browsers also recognize if they are encoded as ``%2e``.
    """
    if not path.isprintable() or "\\" in path or "//" in path or len(path) > _LONGEST_NEXT:
        return ""
    place = unquote(path.partition("?")[0])
    is_ours = any(place == prefix or place.startswith(prefix.rstrip("/") + "/") for prefix in _NEXT)
    has_dots = any(trick in place for trick in ("/.", "//", "\\"))
    return path if is_ours and not has_dots else ""
