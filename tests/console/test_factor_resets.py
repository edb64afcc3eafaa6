"""A requested reset of second factors waits, for all to see, for those who can confirm it."""

import re
from collections.abc import Iterator
from decimal import Decimal

import msgspec
import pytest

from console.console_pages import visible_text
from people.passkey_device import add_passkey
from support.api_server import ApiServer, Shop
from support.people import Visitor, create_person, new_address

APPROVALS = "/console/approvals"


@pytest.fixture(autouse=True)
def _end_resets(api_server: ApiServer) -> Iterator[None]:
    """Stop the resets of a test, which other tests would see."""
    yield
    api_server.sql(
        "update factor_resets set status = 'STOPPED', due_at = null, ended_at = 1,"
        " ended_by = 'tester'"
        " where status in ('ASKED', 'WAITING')"
    )


def _section(page: str, heading: str) -> str:
    """Return the text of the page after a heading, up to the next one."""
    return visible_text("<main" + page.partition(f">{heading}</h2>")[2].partition("<h2")[0])


def _invite_admin(inviter: Visitor) -> Visitor:
    """Return an administrator whom the inviter has let in just now."""
    email = new_address()
    page = inviter.post("/console/people/invite", {"email": email, "role": "admin"})
    link = re.search(r"/invite/[\w-]{43}", page.text)
    assert link is not None
    visitor = Visitor(inviter.api_server, email)
    form = {"name": "Eve", "password": "seven slow rivers sing"}
    assert visitor.post(link[0], form).status_code == 303
    return visitor


def test_a_requested_reset_waits_in_approvals_and_on_the_home_page(shop: Shop) -> None:
    requester, confirmer = (
        create_person(shop.api_server, None, staff_role="admin") for _ in range(2)
    )
    newcomer = _invite_admin(requester)
    member = create_person(shop.api_server, shop.id, "owner")
    add_passkey(member)
    form = {"lost": member.email, "reason": "lost the phone"}
    assert requester.post("/console/people/factors", form).status_code == 303
    text = f"Reset of second factors: {member.email}"
    assert text in _section(confirmer.get(APPROVALS).text, "Waiting for your approval")
    for admin, reason in (
        (requester, "You requested this reset"),
        (newcomer, "the requester invited you"),
    ):
        waiting = _section(admin.get(APPROVALS).text, "Waiting for a colleague")
        assert text in waiting
        assert reason in waiting
    need = "Resets of second factors to confirm"
    assert need in visible_text(confirmer.get("/console").text)
    finance = create_person(shop.api_server, None, staff_role="finance")
    assert need not in visible_text(finance.get("/console").text)
    assert text not in visible_text(finance.get(APPROVALS).text)


def test_only_those_who_can_confirm_a_reset_get_the_button(shop: Shop) -> None:
    requester, confirmer = (
        create_person(shop.api_server, None, staff_role="admin") for _ in range(2)
    )
    newcomer = _invite_admin(requester)
    add_passkey(confirmer)
    form = {"lost": confirmer.email, "reason": "lost the phone"}
    assert requester.post("/console/people/factors", form).status_code == 303
    other = create_person(shop.api_server, None, staff_role="admin")
    for admin, reason in (
        (other, ""),
        (requester, "You requested this reset"),
        (newcomer, "the requester invited you"),
        (confirmer, "This reset is for you"),
    ):
        page = admin.get("/console/people").text
        row = next(
            row
            for row in page.partition('id="lost-factors"')[2].split("<li>")
            if confirmer.email in row
        )
        assert ("Confirm reset" in row) == (not reason), admin.email
        assert reason in row
        assert requester.person_id not in visible_text(f"<main{row}")


def test_the_form_of_a_reset_says_that_no_mail_is_sent_without_a_mail_server(shop: Shop) -> None:
    admin = create_person(shop.api_server, None, staff_role="admin")
    assert not shop.api_server.app.settings.sends_mail
    page = visible_text(admin.get("/console/people").text)
    assert "the person gets a mail" not in page
    assert "Tell the person yourself, because no mail server is set" in page


def test_approvals_say_whether_there_is_a_limit(shop: Shop) -> None:
    server = shop.api_server
    auditor = create_person(server, None, staff_role="auditor")
    before = server.app.settings
    server.app.settings = msgspec.structs.replace(before, approval_above=None)
    assert "OPENTILL_APPROVAL_ABOVE" in auditor.get(APPROVALS).text
    server.app.settings = msgspec.structs.replace(before, approval_above=Decimal(5))
    assert "OPENTILL_APPROVAL_ABOVE" not in auditor.get(APPROVALS).text
    server.app.settings = before


def test_a_confirmed_reset_says_that_there_is_no_mail_server(shop: Shop) -> None:
    requester, confirmer = (
        create_person(shop.api_server, None, staff_role="admin") for _ in range(2)
    )
    member = create_person(shop.api_server, shop.id, "owner")
    add_passkey(member)
    form = {"lost": member.email, "reason": "lost the phone"}
    assert requester.post("/console/people/factors", form).status_code == 303
    (row,) = shop.api_server.sql(
        "select id from factor_resets where person_id = $1", member.person_id
    )
    sent = confirmer.post("/console/people/factors/confirm", {"id": row["id"]})
    assert not shop.api_server.settings.sends_mail
    page = visible_text(confirmer.get(sent.headers["location"]).text)
    assert "There is no mail server: inform the person, who can stop it." in page
