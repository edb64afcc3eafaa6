"""People who log in, created by the services with cheap password hashes."""

import itertools
import re
from typing import Any, Final

import httpx2
import pytest

from opentill import people
from opentill.db.database import Tx
from opentill.merchants import Actor
from opentill.people import Browser, MerchantRole, NewLink, StaffRole, queries
from opentill.people.passwords import Cost
from support.api_server import ApiServer
from support.form_fields import fill_in_empty_fields, find_form_mistakes

CHEAP_HASH: Final = Cost(8, 1)
PASSWORD: Final = "nine purple lanterns hum"
TESTER: Final = Actor("tester", "for a test")
_numbers: Final = itertools.count(1)


def _check_forms(response: httpx2.Response) -> httpx2.Response:
    """Return a response whose forms, if it is a page, have the fields that the server requires."""
    if response.headers.get("content-type", "").startswith("text/html"):
        mistakes = find_form_mistakes(response.text)
        assert not mistakes, "\n".join(mistakes)
    return response


class Visitor:
    """A browser with its own cookies, which sends an Origin header with forms."""

    def __init__(self, api_server: ApiServer, email: str = "", person_id: str = "") -> None:
        """The visitor is not logged in yet."""
        self.api_server = api_server
        self.email = email
        self.person_id = person_id
        self.http = httpx2.Client(
            base_url=api_server.url,
            # This client shares the connections of ``api_server.http``.
            transport=api_server.http._transport,
            headers={"origin": api_server.url, "user-agent": "Testfox/1.0"},
        )

    @property
    def token(self) -> str:
        """The token in the login's cookie."""
        return str(self.http.cookies.get("opentill", domain="127.0.0.1"))

    @property
    def audit_name(self) -> str:
        """The name of the person in the audit log."""
        return f"{self.email} ({self.person_id})"

    def set_token(self, token: str) -> None:
        """Set the login's cookie to a token."""
        self.http.cookies.clear()
        self.http.cookies.set("opentill", token, domain="127.0.0.1", path="/")

    def get(self, path: str, **options: Any) -> httpx2.Response:
        """GET a page."""
        return _check_forms(self.http.get(path, **options))

    def post(
        self,
        path: str,
        form: dict[str, str] | None = None,
        *,
        complete: bool = True,
        **options: Any,
    ) -> httpx2.Response:
        """Send a form. Its other fields are empty, unless ``complete`` is False."""
        headers = {"content-type": "application/x-www-form-urlencoded"}
        headers |= options.pop("headers", {})
        data = fill_in_empty_fields(path, form or {}) if complete else form
        return _check_forms(self.http.post(path, data=data, headers=headers, **options))

    def log_in(self, password: str = PASSWORD, code: str = "", **fields: str) -> httpx2.Response:
        """Submit the login form, and the form of the second factor if there is a code."""
        response = self.post("/login", {"email": self.email, "password": password, **fields})
        if code and response.headers.get("location", "").startswith("/login/factor"):
            return self.post("/login/factor", {"code": code})
        return response


def new_address() -> str:
    """Return a new email address."""
    return f"person{next(_numbers)}@example.com"


def invite(
    api_server: ApiServer,
    email: str,
    merchant_id: str | None,
    role: MerchantRole | None = None,
    staff_role: StaffRole | None = None,
) -> NewLink:
    """Invite a member or staff and return the link."""
    now = api_server.app.clock()
    return api_server.tx(
        lambda tx: people.invite(
            tx,
            email,
            now,
            merchant_id=merchant_id,
            role=role,
            staff_role=staff_role,
            actor=TESTER,
        )
    )


def create_person(
    api_server: ApiServer,
    merchant_id: str | None,
    role: MerchantRole | None = None,
    staff_role: StaffRole | None = None,
) -> Visitor:
    """Create a person with a role and return their browser, which is logged in."""
    email = new_address()
    link = invite(api_server, email, merchant_id, role, staff_role)
    created = api_server.run(
        people.join(
            api_server.app.db,
            link.token,
            "Ada Example",
            PASSWORD,
            Browser("192.0.2.9", "Testfox/1.0"),
            api_server.app.clock(),
            cost=CHEAP_HASH,
        )
    )
    visitor = Visitor(api_server, email, created.person.id)
    visitor.set_token(created.token)
    return visitor


def heading_of(response: httpx2.Response) -> str:
    """Return the first heading of a page."""
    match = re.search(r"<h1>(.*?)</h1>", response.text, re.DOTALL)
    assert match is not None, response.text
    return re.sub(r"<[^>]+>|[\u2068\u2069]", "", match[1]).strip()


@pytest.fixture(autouse=True)
def reset_login_limits(api_server: ApiServer) -> None:
    """Delete the counts of login attempts, because all tests have one address."""

    async def prune(tx: Tx) -> None:
        await queries.PRUNE_LIMITS.run(tx, before=2**53)

    api_server.tx(prune)
