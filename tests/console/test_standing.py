"""The console's pages of a merchant's standing, and of applications."""

import re

import httpx2
import pytest

from opentill import merchants, people
from opentill.merchants import Actor, ApplicationForm
from support.api_server import Shop
from support.people import Visitor, person

ANN = Actor("ann", "too many disputes")


@pytest.fixture
def admin(shop: Shop) -> Visitor:
    return person(shop.api_server, None, staff_role="admin")


def page(shop: Shop, visitor: Visitor, merchant_id: str = "") -> str:
    answer = visitor.get(f"/console/merchants/{merchant_id or shop.id}/standing")
    assert answer.status_code == 200
    return answer.text


def send(shop: Shop, visitor: Visitor, form: dict[str, str], below: str = "") -> httpx2.Response:
    shown = page(shop, visitor)
    ids = re.findall(r'name="form_id" value="([0-9a-f]{32})"', shown)
    path = f"/console/merchants/{shop.id}/standing{below}"
    return visitor.post(path, {"form_id": ids[0], **form})


def changes(shop: Shop) -> list[merchants.MerchantChange]:
    return shop.api_server.tx(lambda tx: merchants.status_history(tx, shop.id))


def test_a_merchant_is_suspended_once_however_often_the_form_is_sent(
    shop: Shop, admin: Visitor
) -> None:
    form = {"event": "suspended", "reason": "chargebacks <b>", "notes": "the bank\nhas called"}
    form["form_id"] = "0" * 31 + "1"
    for _ in range(2):
        answer = send(shop, admin, form)
        assert answer.status_code == 303
    line = changes(shop)[0]
    assert (line.event, line.reason, line.notes) == (
        "suspended", "chargebacks <b>", "the bank\nhas called",
    )  # fmt: skip
    assert line.who == f"{admin.email} ({admin.person_id})"
    shown = page(shop, admin)
    assert "chargebacks &lt;b&gt;" in shown
    assert "the bank\nhas called" in shown
    other = send(shop, admin, {"event": "suspended", "reason": "another tab", "notes": "mine"})
    assert other.status_code == 409
    assert "Somebody else has changed this merchant meanwhile: Suspended" in other.text
    assert "Not done: Suspend" in other.text
    assert "another tab" in other.text
    assert "mine" in other.text


@pytest.mark.parametrize(
    ("form", "below", "field"),
    [
        ({"event": "suspended", "reason": " ", "notes": "n"}, "", "suspended-reason"),
        ({"event": "suspended", "reason": "r", "notes": "x" * 2001}, "", "suspended-notes"),
        ({"capability": "payout", "state": "off", "reason": ""}, "/capability", "payout-reason"),
        ({"notes": " "}, "/notes", "noted-notes"),
    ],
)
def test_a_refused_form_says_at_its_field_why(
    shop: Shop, admin: Visitor, form: dict[str, str], below: str, field: str
) -> None:
    answer = send(shop, admin, form, below)
    assert answer.status_code == 400
    assert f'id="{field}-error"' in answer.text
    assert f'href="#{field}"' in answer.text
    assert [one.event for one in changes(shop)] == ["created"]


def test_capabilities_are_switched_and_notes_added(shop: Shop, admin: Visitor) -> None:
    off = {"capability": "payout", "state": "off", "reason": "bank details"}
    assert send(shop, admin, off, "/capability").status_code == 303
    assert "bank details" in page(shop, admin)
    on = {"capability": "payout", "state": "on", "reason": "checked"}
    assert send(shop, admin, on, "/capability").status_code == 303
    assert send(shop, admin, {"notes": "called twice"}, "/notes").status_code == 303
    assert [one.event for one in changes(shop)] == [
        "noted", "capability_on", "capability_off", "created",
    ]  # fmt: skip


def test_closing_says_what_is_left_and_takes_the_name(shop: Shop, admin: Visitor) -> None:
    shop.paid()
    now = shop.api_server.app.clock()
    shop.api_server.tx(lambda tx: merchants.change_status(tx, shop.id, "suspended", ANN, now))
    assert "Pending balance:" in page(shop, admin)
    form = {"event": "closed", "reason": "moved away", "confirm": "Harbour"}
    unconfirmed = send(shop, admin, form)
    assert unconfirmed.status_code == 400
    assert 'id="closed-confirm-error"' in unconfirmed.text
    refused = send(shop, admin, form | {"confirm": "Harbour Books"})
    assert refused.status_code == 409
    assert "still has money" in refused.text


def test_an_application_is_approved_and_its_link_shown_this_once(
    shop: Shop, admin: Visitor
) -> None:
    form = ApplicationForm(
        merchant="Quay <i>", currency="USD", name="Bo", email="bo@quay.example", website="",
        business="tea",
    )  # fmt: skip
    now = shop.api_server.app.clock()
    made = shop.api_server.tx(lambda tx: merchants.apply(tx, form, now))
    listed = admin.get("/console/applications").text
    assert f"/console/merchants/{made}/standing" in listed
    assert "Quay &lt;i&gt;" in listed
    assert "Applications that wait" in admin.get("/console").text
    path = f"/console/merchants/{made}/standing"
    sent = {"event": "approved", "reason": "known", "form_id": "a" * 32}
    first, again = admin.post(path, sent), admin.post(path, sent)
    links = [re.findall(r"/invite/[\w-]+", one.text) for one in (first, again)]
    assert first.status_code == 200
    assert links[0] == links[1] != []
    assert links[0][0] not in admin.get(path).text
    (link,) = shop.api_server.tx(lambda tx: people.invitations(tx, made, now))
    assert (link.email, link.role) == ("bo@quay.example", "owner")


def test_who_may_not_manage_merchants_reads_only(shop: Shop) -> None:
    auditor = person(shop.api_server, None, staff_role="auditor")
    assert 'method="post" action="/console/merchants' not in page(shop, auditor)
    answer = auditor.post(
        f"/console/merchants/{shop.id}/standing", {"event": "suspended", "reason": "x"}
    )
    assert answer.status_code == 403
