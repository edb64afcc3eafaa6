"""Hostile forms, queries, headers and paths of pages are refused and never cause a 5xx.

``test_hostile.py`` tests the API.
"""

import base64
import inspect
import json
import re
from contextlib import closing
from functools import partial
from html import unescape
from http.client import HTTPConnection
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import pytest
from starlette.types import Message

from opentill.app import PORTALS
from opentill.core.errors import Invalid
from opentill.portal.model import Page
from opentill.web import forms
from support.api_server import ApiServer, Shop
from support.examples import pairwise
from support.people import PASSWORD, Visitor, create_person, reset_login_limits

__all__ = ["reset_login_limits"]

PAGES: Final = [page for portal in PORTALS for page in portal.pages]
ID: Final = "prod_01m7y0m0jzefzv5n8efcf1hqw1"
URLENCODED: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data; boundary=b"
PART: Final = b'--b\r\ncontent-disposition: form-data; name="%b"%b\r\n\r\n%b\r\n'
# These bodies are invalid for any form.
INVALID_FORMS: Final = {
    "NUL in a text": (URLENCODED, b"email=a%00b&password=x&note=a%00"),
    "NUL in a name": (URLENCODED, b"a%00=1"),
    "no UTF-8": (URLENCODED, b"email=%ff"),
    "no UTF-8 without percent-encoding": (URLENCODED, b"email=\xff"),
    "lone surrogate": (URLENCODED, b"email=%ed%a0%80"),
    "thousands of fields": (URLENCODED, b"&".join(b"a%d=1" % n for n in range(5000))),
    "a name that is too long": (URLENCODED, b"a" * 70_000 + b"=1"),
    "another media type": ("text/\xff", b"email=a"),
    "multipart with NUL in a text": (MULTIPART, PART % (b"note", b"", b"a\0b") + b"--b--"),
    "multipart with NUL in a name": (MULTIPART, PART % (b"a\0", b"", b"x") + b"--b--"),
    "multipart that is no UTF-8": (MULTIPART, PART % (b"note", b"", b"\xff") + b"--b--"),
    "multipart without its end": (MULTIPART, PART % (b"note", b"", b"x")),
    "multipart with another boundary": (MULTIPART, b"--c\r\n\r\n--c--"),
    "multipart without a boundary": ("multipart/form-data", PART % (b"note", b"", b"x") + b"--b--"),
}
REFUSAL_STATUSES: Final = {400, 413, 415}


def page_path(page: Page, shop: Shop) -> str:
    """Return the path of a page of a shop, with unknown ids for everything else."""
    return re.sub(r"{\w+(:id)?}", ID, page.path.replace("{merchant:id}", shop.id))


def reads_a_form(page: Page) -> bool:
    """Return whether a page reads the fields of its form."""
    handler = page.handler.func if isinstance(page.handler, partial) else page.handler
    return "request.form()" in inspect.getsource(handler)


def send(visitor: Visitor, path: str, name: str) -> tuple[int, str]:
    """Send an invalid form; return the status and the text of the response."""
    type_, content = INVALID_FORMS[name]
    headers: Any = {"content-type": type_.encode("latin-1")}
    response = visitor.http.post(path, content=content, headers=headers)
    return response.status_code, response.text


@pytest.mark.parametrize("name", INVALID_FORMS)
def test_every_page_refuses_an_invalid_form(shop: Shop, name: str) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    admin = create_person(shop.api_server, None, staff_role="admin")
    forms_ = [page for page in PAGES if page.method == "POST" and page.path != "/logout"]
    for page in pairwise(forms_, list(INVALID_FORMS), name):
        visitor = admin if page.in_console else owner
        status, text = send(visitor, page_path(page, shop), name)
        assert status < 500, (page.path, text)
        assert status in REFUSAL_STATUSES | {403, 404} or not reads_a_form(page), (
            page.path,
            status,
        )
    for path in (f"/dashboard/{shop.id}/settings/profile", f"/dashboard/{shop.id}/team/invite"):
        assert send(owner, path, name)[0] in REFUSAL_STATUSES
    stranger = Visitor(shop.api_server)
    link = shop.data("POST", "/v1/payment-links", json={"productId": shop.create_product()["id"]})
    for path in ("/login", f"/checkout/{shop.create_session()['id']}", urlsplit(link["url"]).path):
        status, text = send(stranger, path, name)
        assert (status in REFUSAL_STATUSES, "<h1>" in text) == (True, True), (path, text)
    for path in ("/epay/submit.php", "/mapi.php", "/api.php"):
        status, text = send(stranger, path, name)
        assert (status, "系统错误" in text) == (200, False)
        assert json.loads(text)["code"] < 0


@pytest.mark.parametrize("name", [name for name in INVALID_FORMS if name.startswith("multipart")])
async def test_an_invalid_form_with_files_is_refused(name: str) -> None:
    type_, content = INVALID_FORMS[name]

    async def receive() -> Message:
        return {"type": "http.request", "body": content, "more_body": False}

    with pytest.raises(Invalid):
        await forms.read_with_files({b"content-type": type_.encode()}, receive, 1000)


def test_any_query_of_a_page_is_accepted_or_refused(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    admin = create_person(shop.api_server, None, staff_role="admin")
    usual_names = [
        "after",
        "before",
        "done",
        "from",
        "next",
        "opened",
        "page",
        "query",
        "test",
        "to",
    ]
    pages = [page for page in PAGES if page.method == "GET"]
    texts = ["a%00b", "%ff%00", "%ed%a0%80", "9" * 300]
    for page in pages:
        visitor = admin if page.in_console else owner
        path = page_path(page, shop)
        names = {*usual_names, *re.findall(r' name="(\w+)"', visitor.get(path).text)}
        for text in (text for text in texts if page in pairwise(pages, texts, text)):
            query = "&".join(f"{name}={text}" for name in sorted(names)[:48])
            response = visitor.get(f"{path}?{query}&%00%ff=%zz")
            assert response.status_code < 500, (path, query)
    for path in ("/epay/submit.php", "/mapi.php", "/api.php"):
        for query in ("pid=1%00", "pid=1&act=order%00", "pid=%ff", "pid=1&%00=1", "pid=%ed%a0%80"):
            assert "系统错误" not in owner.get(f"{path}?{query}").text


def test_hostile_headers_of_forms_never_cause_a_5xx(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    path = f"/dashboard/{shop.id}/team/invite"
    usual_headers: dict[str, str | bytes] = {
        "content-type": URLENCODED, "origin": shop.api_server.url,
    }  # fmt: skip

    def post(path: str, form: str, **headers: str | bytes) -> int:
        connection = HTTPConnection(urlsplit(shop.api_server.url).netloc, timeout=30)
        with closing(connection):
            connection.request("POST", path, form, usual_headers | headers)
            return connection.getresponse().status

    cookie = f"opentill={owner.token}".encode()
    for referer in (b"http://[", b"http://a:b@[::1", b"\xff"):
        assert post(path, "", referer=referer, cookie=cookie) == 400, referer
    form = urlencode({"email": owner.email, "password": PASSWORD})
    cookie = b"opentill_known=\xff.\xfe; opentill=\xff; opentill_language=\xff"
    assert post("/login", form, cookie=cookie) == 303


def test_a_login_returns_to_a_page_with_any_characters(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    page, encoded_page = "/dashboard/店?q=é%20&a=b", "/dashboard/%E5%BA%97?q=%C3%A9%20&a=b"
    assert owner.get("/login", params={"next": page}).headers["location"] == encoded_page
    assert owner.log_in(next=page).headers["location"] == encoded_page
    kept_form = {"form_person": ID, "login_from": page}
    response = owner.post(f"/dashboard/{shop.id}/team/invite", kept_form)
    assert response.headers["location"] == f"{encoded_page}&other_person=1"


# ── passkeys ──


class Authenticator:
    """Registers passkeys with any public key, as a browser at ``localhost`` does."""

    def __init__(self, api_server: ApiServer, visitor: Visitor) -> None:
        """Use the login of a visitor."""
        self.visitor = visitor
        self.host = f"localhost:{urlsplit(api_server.url).port}"
        visitor.http.headers.update({
            "host": self.host, "origin": f"http://{self.host}",
            "cookie": f"opentill={visitor.token}",
        })  # fmt: skip

    def client_data(self) -> str:
        """Return the client data of a browser for a new challenge."""
        page = unescape(self.visitor.post("/security/passkeys/begin").text)
        challenge = re.search(r'"challenge": ?"([\w-]+)"', page)
        assert challenge is not None
        data = {
            "type": "webauthn.create",
            "challenge": challenge[1],
            "origin": f"http://{self.host}",
        }
        return encode(json.dumps(data).encode())

    def register(self, key: bytes) -> int:
        """Register a passkey with a public key; return the status."""
        body = bytes.fromhex("49960de5880e8c687434170f6476605b8fe4aeb9a28632c7995cf3ba831d9763")
        body += b"\x45" + b"\0\0\0\1" + bytes(16) + b"\0\x10" + b"i" * 16 + key
        attested = b"\xa3cfmtdnonegattStmt\xa0hauthData\x59%b%b" % (
            len(body).to_bytes(2, "big"),
            body,
        )
        response = {"clientDataJSON": self.client_data(), "attestationObject": encode(attested)}
        id_ = encode(b"i" * 16)
        credential = {"id": id_, "rawId": id_, "type": "public-key", "response": response}
        form = {"credential": json.dumps(credential)}
        return self.visitor.post("/security/passkeys", form).status_code


def encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def test_an_invalid_passkey_is_refused(shop: Shop) -> None:
    authenticator = Authenticator(shop.api_server, create_person(shop.api_server, shop.id, "owner"))
    key = bytes.fromhex("a5010203262001215820") + bytes(32) + bytes.fromhex("225820") + bytes(32)
    assert authenticator.register(key) == 200  # the response is a page with recovery codes
    assert authenticator.register(key) == 400  # this passkey is already registered
    for invalid in (b"", b"\x01", b"\x80", b"\xa0", b"\xa1\x01\x02", b"\xff", b"\x81" * 500):
        assert authenticator.register(invalid) == 400, invalid
    nested = encode(b"[" * 5000)
    for text in ("[" * 5000, '{"a":' * 5000, f'{{"response":{{"clientDataJSON":"{nested}"}}}}'):
        for path, status in (("/login/passkey", 401), ("/security/passkeys", 400)):
            assert authenticator.visitor.post(path, {"credential": text}).status_code == status
