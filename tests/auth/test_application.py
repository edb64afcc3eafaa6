"""Applications of merchants are off by default, rate limited, and do not reveal known addresses."""

import contextlib
from collections.abc import Iterator

import msgspec
import pytest

from opentill import merchants
from opentill.db import rate_limits
from support.api_server import ApiServer
from support.people import Visitor, create_person, heading_of

FORM = {
    "merchant": "Harbour Books", "currency": "EUR", "name": "Ada", "email": "ada@example.com",
    "website": "https://harbour.example", "business": "Second-hand books\r\nand maps",
}  # fmt: skip


@contextlib.contextmanager
def accepting_applications(api_server: ApiServer) -> Iterator[Visitor]:
    """Reset the rate limits, accept applications until the block ends, and yield a new visitor."""
    before = api_server.app.settings
    api_server.app.settings = msgspec.structs.replace(before, applications=True)
    api_server.tx(rate_limits.forget)
    api_server.tx(lambda tx: tx.execute("update merchant_applications set visitor = null"))
    try:
        yield Visitor(api_server)
    finally:
        api_server.app.settings = before


def find_pending(api_server: ApiServer, email: str) -> list[merchants.PendingApplication]:
    applications = api_server.tx(merchants.waiting_applications)
    return [row for row in applications if row.email == email]


def test_the_page_exists_only_if_the_operator_accepts_applications(api_server: ApiServer) -> None:
    visitor = Visitor(api_server)
    assert visitor.get("/apply").status_code == 404
    assert visitor.post("/apply", FORM).status_code == 404
    assert find_pending(api_server, FORM["email"]) == []


def test_an_application_waits_for_a_decision(api_server: ApiServer) -> None:
    with accepting_applications(api_server) as visitor:
        page = visitor.get("/apply").text
        for token in ("organization", "url", "name", "email", "transaction-currency"):
            assert f'autocomplete="{token}"' in page
        form = FORM | {"email": "first@example.com"}
        response = visitor.post("/apply", form)
        assert (response.status_code, response.headers["location"]) == (303, "/apply?sent=1")
        assert heading_of(visitor.get("/apply?sent=1")) == "Thank you for your application"
        (application,) = find_pending(api_server, "first@example.com")
        assert (application.merchant_name, application.business) == (
            "Harbour Books",
            "Second-hand books\nand maps",
        )
        assert application.address == "127.0.0.1"
        from_another_site = visitor.post("/apply", form, headers={"origin": "https://evil.example"})
        assert from_another_site.status_code == 403


def test_an_applicant_gets_one_confirmation_by_mail(api_server: ApiServer) -> None:
    email = "mailed@example.com"
    with accepting_applications(api_server) as visitor:
        api_server.app.settings = msgspec.structs.replace(
            api_server.app.settings, smtp_url="smtp://mail.test", mail_from="pay@example.com"
        )
        for _ in range(2):
            response = visitor.post(
                "/apply", FORM | {"email": email}, headers={"accept-language": "zh-Hant"}
            )
            assert response.status_code == 303
    rows = api_server.tx(
        lambda tx: tx.fetch(
            "select merchant_id, language, data from mails"
            " where topic = 'application' and recipient = $1",
            email,
        )
    )
    assert [(row["merchant_id"], row["language"]) for row in rows] == [("", "zh-Hant")]
    assert msgspec.json.decode(rows[0]["data"])["name"] == FORM["merchant"]


def test_the_response_does_not_show_whether_an_address_is_known(api_server: ApiServer) -> None:
    ada = create_person(api_server, api_server.create_shop().id, "owner")
    with accepting_applications(api_server) as visitor:
        responses = [
            visitor.post("/apply", FORM | {"email": email})
            for email in (ada.email, "nobody@example.com", "nobody@example.com")
        ]
        results = {(page.status_code, page.headers["location"], page.text) for page in responses}
        assert len(results) == 1
        assert len(find_pending(api_server, "nobody@example.com")) == 1


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("merchant", "\u202egro.elpmaxe"),
        ("currency", "XXX"),
        ("name", ""),
        ("email", "ada"),
        ("website", "javascript:alert(1)"),
        ("business", "x" * 2001),
    ],
)
def test_an_error_is_shown_at_its_field_and_the_input_is_kept(
    api_server: ApiServer, field: str, text: str
) -> None:
    with accepting_applications(api_server) as visitor:
        refusal = visitor.post("/apply", FORM | {field: text})
        assert refusal.status_code == 400
        assert f'id="{field}-error"' in refusal.text
        assert refusal.text.count('class="error"') == 1
        for valid_field in {"merchant", "name", "website"} - {field}:
            assert f'value="{FORM[valid_field]}"' in refusal.text


def test_an_address_may_send_five_applications_in_a_minute(api_server: ApiServer) -> None:
    with accepting_applications(api_server) as visitor:
        forms = [FORM | {"email": f"many{number}@example.com"} for number in range(6)]
        responses = [visitor.post("/apply", form) for form in forms]
        assert [response.status_code for response in responses] == [303] * 5 + [429]
        assert int(responses[-1].headers["retry-after"]) > 0
        assert 'value="many5@example.com"' in responses[-1].text
        assert find_pending(api_server, "many5@example.com") == []
