"""A request for a page, and who makes it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.types import Receive, Scope

from opentill import context
from opentill.core.errors import Invalid, Problem, or_not_found
from opentill.people import Access, Browser, Credentials, Login, Permission, Site, staff_may
from opentill.portal.model import CONSOLE_PATH, OF_PROOF, SENDER
from opentill.portal.portal import Portal
from opentill.server.protocol import ALLOW_BODY_S
from opentill.server.upload_limits import Uploads
from opentill.web import forms, language, templates

_MAX_FIELDS: Final = 50
# Fields of a query that are no filters: the language, and what a page says once.
_NO_FILTERS: Final = frozenset({"lang", "other_person", "done", "rows", "matched", "found"})


class PageRequest:
    """What came, and who it came from.

    ``login`` is there for every row of a table that is not for anyone, ``access`` for those of a
    merchant.
    """

    def __init__(self, portal: Portal, scope: Scope, receive: Receive) -> None:
        """Read the head; a malformed query counts as empty."""
        self.portal = portal
        self.app = context.app_of(scope)
        self.now = self.app.clock()
        self.path: str = scope["path"]
        self._looks: bool = scope["method"] in {"GET", "HEAD"}
        self.ids: Mapping[str, str] = scope["path_params"]
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        user_agent = self.headers.get(b"user-agent", b"").decode("latin-1")
        try:
            pairs = parse_qsl(
                scope["query_string"].decode("latin-1"),
                keep_blank_values=True,  # an emptied field is not one that nobody asked for
                max_num_fields=_MAX_FIELDS,
            )
        except ValueError:
            pairs = []
        # Without what no text of PostgreSQL can hold.
        self.query = {name: value.replace("\0", "") for name, value in reversed(pairs)}
        self.base = templates.base_path(self.app.settings.public_url)
        self.localizer = language.choose(
            "merchant",
            self.query.get("lang"),
            self.headers.get(b"accept-language", b"").decode("latin-1"),
            remembered=language.cookie_language("merchant", self.headers),
        )
        self.browser = Browser(scope["opentill_address"], user_agent, self.localizer.language)
        self.most_of_files = 0  # bytes that a form may bring along
        self.may_upload = False  # by login and permission: files of that size take a place
        self._receive = receive
        self._allow_body_s: Callable[[float], None] = scope.get(ALLOW_BODY_S, _allow_nothing)
        self._form: forms.Form | Problem | None = None
        self._sender = ""
        self._proof: dict[str, str] = {}
        self._login: Login | None = None
        self._pending: Login | None = None
        self._access: Access | None = None
        self.new_cookies: list[str] = []
        if language.supported("merchant", self.query.get("lang")):
            chosen = self.localizer.language
            self.new_cookies.append(language.cookie(chosen, self.app.settings.public_url))

    @property
    def is_poll(self) -> bool:
        """Whether a live page asks again by its script (decision 0068), and no person did.

        Only reading is: a form gets its page whatever its headers say.
        """
        return self._looks and self.headers.get(b"hx-request") == b"true"

    @property
    def site(self) -> Site | None:
        """Where passkeys work, None if they do not here."""
        host = self.headers.get(b"host", b"").decode("latin-1")
        return Site.from_url(self.app.settings.public_url, host)

    @property
    def known_site(self) -> Site:
        """Where passkeys work. Raises NotFound if they do not here."""
        return or_not_found(self.site)

    @property
    def merchant_id(self) -> str:
        """The merchant in the path, "" where there is none."""
        return self.ids.get("merchant", "")

    @property
    def known_login(self) -> Login | None:
        """The login, on pages that are for anyone too."""
        return self._login

    @property
    def pending_login(self) -> Login | None:
        """A login that lacks a second factor: to every page but that one nobody is logged in."""
        return self._pending

    @property
    def known_access(self) -> Access | None:
        """What the person may do at the merchant, on pages without one too."""
        return self._access

    @property
    def login(self) -> Login:
        """The login of whoever made the request."""
        if self._login is None:
            raise AssertionError  # the row in the table says "anyone"
        return self._login

    @property
    def access(self) -> Access:
        """What they may do at the merchant in the path."""
        if self._access is None:
            raise AssertionError  # the row in the table is of no merchant
        return self._access

    def may(self, permission: Permission) -> bool:
        """Return whether they may, at the merchant in the path or, without one, as staff."""
        if self._access is not None:
            return self._access.may(permission)
        role = self.login.staff_role
        return role is not None and staff_may(role, permission)

    def admit(self, login: Login | None, access: Access | None = None) -> None:
        """Note who made the request."""
        if login is not None and login.is_pending:
            self._login, self._pending, self._access = None, login, None
        else:
            self._login, self._pending, self._access = login, None, access

    def proof(self, password: str, code: str) -> Credentials:
        """Return what the person proves with who they are."""
        return Credentials(
            email=self.login.email,
            password=password,
            code=code,
            browser=self.browser,
            is_known_browser=True,
        )

    async def form(self) -> dict[str, str]:
        """Return the fields of the form that was sent. Raises as ``forms.read`` does."""
        return (await self._whole_form()).fields

    async def files(self) -> dict[str, forms.Upload]:
        """Return the files that the form has brought along, as ``form`` does the fields."""
        return (await self._whole_form()).files

    async def _whole_form(self) -> forms.Form:
        """Read the form once, whatever becomes of it: a body comes only once."""
        if self._form is None:
            try:
                self._form = await self._read()
                fields = self._form.fields
                self._sender = fields.pop(SENDER, "")
                proving = [name for name in fields if name.startswith(OF_PROOF)]
                self._proof = {name: fields.pop(name) for name in proving}
            except Problem as problem:
                self._form = problem
        if isinstance(self._form, Problem):
            raise self._form
        return self._form

    async def _read(self) -> forms.Form:
        if not self.may_upload:
            form = await forms.read_with_files(self.headers, self._receive, self.most_of_files)
        else:
            form = await self._upload(self.app.uploads)
        forms.decode_files(form)
        return form

    async def _upload(self, uploads: Uploads) -> forms.Form:
        """Read a form with files within the time that these have. Raises as ``forms.read`` does."""
        with uploads.turn(self.login.person_id, self.browser.address):
            self._allow_body_s(uploads.time_s)
            try:
                async with asyncio.timeout(uploads.time_s):
                    return await forms.read_with_files(
                        self.headers, self._receive, self.most_of_files
                    )
            except TimeoutError:
                reason = f"the file must arrive within {uploads.time_s:g} seconds"
                raise Invalid("body", reason) from None

    async def kept_files(self) -> dict[str, str]:
        """Return the files of the form as fields, those that are small enough to come once more."""
        return forms.encode_files(await self.files(), self.most_of_files)

    @property
    def sender(self) -> str:
        """The person whom the form was shown to, "" if it does not say; once the form is read."""
        return self._sender

    @property
    def proving(self) -> Mapping[str, str]:
        """The fields in which the form brings along who sends it; once the form is read.

        They are no part of it, so that a password is neither stored nor shown again.
        """
        return self._proof

    @property
    def person(self) -> str:
        """The person whom the forms of this page are shown to, "" for anyone."""
        return self._sender if self._login is None else self._login.person_id

    def here(self, **changes: str) -> str:
        """Return the address of this page with changes of its query."""
        query = urlencode({**self.query, **changes})
        return f"{self.base}{self.path}?{query}" if query else f"{self.base}{self.path}"

    @property
    def page(self) -> str:
        """The path of the page that is shown: for the address of a form, of the page it is on."""
        return self.path if self._looks else self.portal.page_of(self.path)

    def of_page(self, **changes: str) -> str:
        """Return the address of the page that is shown, with changes of its query."""
        if self._looks:
            return self.here(**changes)
        return f"{self.base}{self.page}?{urlencode(changes)}"

    def in_language(self, lang: str) -> str:
        """Return the address of this page, or of the one that its form stands on, in a language."""
        return self.of_page(lang=lang)

    @property
    def is_filtered(self) -> bool:
        """Whether the query asks for something, beside the language and what a page says once."""
        return any(text for name, text in self.query.items() if name not in _NO_FILTERS)

    def link(self, *parts: str) -> str:
        """Return the path of a page of this merchant."""
        return "/".join((f"{self.base}/dashboard", self.merchant_id, *parts)) + (
            "" if parts else "/"
        )

    def console(self, *parts: str) -> str:
        """Return the path of a page of the console."""
        return "/".join((self.base + CONSOLE_PATH, *parts)) + ("" if parts else "/")

    @property
    def next(self) -> str:
        """Where to go after logging in, without the base: one of the pages for people, or ""."""
        return safe_next(self.query.get("next", ""))


def _allow_nothing(_seconds: float) -> None:
    """Stand in for a server that has no deadlines for bodies."""


_NEXT: Final = ("/dashboard", CONSOLE_PATH, "/security", "/invite/")
_LONGEST_NEXT: Final = 2000


def safe_next(path: str) -> str:
    """Return a path of ours that a login may lead to; "" for anything else.

    It begins with one of our own places and holds nothing that a browser could read as another
    host: no backslash, no control character, no second slash at the start.
    """
    if not path.isprintable() or "\\" in path or "//" in path or len(path) > _LONGEST_NEXT:
        return ""
    place = path.partition("?")[0]
    inside = any(place == one or place.startswith(one.rstrip("/") + "/") for one in _NEXT)
    return path if inside and "/." not in place else ""
