"""The console changes a merchant's standing and decides applications."""

import re

import httpx2
import pytest

from console.console_pages import hidden_fields, visible_text
from opentill import merchants, people
from opentill.db.database import Tx
from opentill.merchants import Actor, ApplicationForm
from support.api_server import Shop
from support.people import Visitor, create_person

ANN = Actor("ann", "too many disputes")


@pytest.fixture
def admin(shop: Shop) -> Visitor:
    return create_person(shop.api_server, None, staff_role="admin")


def get_page(shop: Shop, visitor: Visitor) -> str:
    response = visitor.get(f"/console/merchants/{shop.id}/standing")
    assert response.status_code == 200
    return response.text


def submit(shop: Shop, visitor: Visitor, form: dict[str, str], action: str = "") -> httpx2.Response:
    """Submit a form of the page with a new form id, unless ``form`` has one."""
    form_id = hidden_fields(get_page(shop, visitor))["form_id"]
    path = f"/console/merchants/{shop.id}/standing{action}"
    return visitor.post(path, {"form_id": form_id, **form})


def read_history(shop: Shop) -> list[merchants.MerchantChange]:
    return shop.api_server.tx(lambda tx: merchants.status_history(tx, shop.id))


def test_submitting_a_form_again_suspends_a_merchant_once(shop: Shop, admin: Visitor) -> None:
    form = {"event": "suspended", "reason": "chargebacks <b>", "notes": "the bank\nhas called"}
    form["form_id"] = "0" * 31 + "1"
    for _ in range(2):
        assert submit(shop, admin, form).status_code == 303
    change = read_history(shop)[0]
    assert (change.event, change.reason, change.notes) == (
        "suspended", "chargebacks <b>", "the bank\nhas called",
    )  # fmt: skip
    assert change.who == admin.audit_name
    page = get_page(shop, admin)
    assert "chargebacks &lt;b&gt;" in page
    assert "the bank\nhas called" in page
    conflict = submit(shop, admin, {"event": "suspended", "reason": "another tab", "notes": "mine"})
    assert conflict.status_code == 409
    assert "Somebody else has changed this merchant meanwhile: Suspended" in conflict.text
    assert "Not done: Suspend" in conflict.text
    assert "another tab" in conflict.text
    assert "mine" in conflict.text


@pytest.mark.parametrize(
    ("form", "action", "field"),
    [
        ({"event": "suspended", "reason": " ", "notes": "n"}, "", "suspended-reason"),
        ({"event": "suspended", "reason": "r", "notes": "x" * 2001}, "", "suspended-notes"),
        ({"capability": "payout", "state": "off", "reason": ""}, "/capability", "payout-reason"),
        ({"notes": " "}, "/notes", "noted-notes"),
    ],
)
def test_a_refused_form_shows_the_error_at_its_field(
    shop: Shop, admin: Visitor, form: dict[str, str], action: str, field: str
) -> None:
    response = submit(shop, admin, form, action)
    assert response.status_code == 400
    assert f'id="{field}-error"' in response.text
    assert [change.event for change in read_history(shop)] == ["created"]


def test_capabilities_are_switched_and_notes_added(shop: Shop, admin: Visitor) -> None:
    off = {"capability": "payout", "state": "off", "reason": "bank details"}
    assert submit(shop, admin, off, "/capability").status_code == 303
    assert "bank details" in get_page(shop, admin)
    on = {"capability": "payout", "state": "on", "reason": "checked"}
    assert submit(shop, admin, on, "/capability").status_code == 303
    assert submit(shop, admin, {"notes": "called twice"}, "/notes").status_code == 303
    assert [change.event for change in read_history(shop)] == [
        "noted", "capability_on", "capability_off", "created",
    ]  # fmt: skip


def test_closing_lists_the_blockers_and_needs_the_merchants_name(
    shop: Shop, admin: Visitor
) -> None:
    now = shop.api_server.app.clock()
    shop.api_server.tx(lambda tx: merchants.change_status(tx, shop.id, "suspended", ANN, now))
    form = {"event": "closed", "reason": "moved away", "confirm": "Harbour"}
    unconfirmed = submit(shop, admin, form)
    assert unconfirmed.status_code == 400
    assert 'id="closed-confirm-error"' in unconfirmed.text
    assert "exactly as it stands above this field" in unconfirmed.text
    assert "Merchant: <strong><bdi>Harbour Books</bdi></strong></p>" in unconfirmed.text
    shop.api_server.tx(lambda tx: merchants.change_status(tx, shop.id, "resumed", ANN, now))
    shop.create_paid_order()
    shop.api_server.tx(lambda tx: merchants.change_status(tx, shop.id, "suspended", ANN, now))
    assert "Pending balance:" in get_page(shop, admin)
    refusal = submit(shop, admin, form | {"confirm": "Harbour Books"})
    assert refusal.status_code == 409
    assert "still has money" in refusal.text


def test_an_application_is_approved_and_its_link_is_shown_once(shop: Shop, admin: Visitor) -> None:
    form = ApplicationForm(
        merchant="Quay <i>", currency="USD", name="Bo", email="bo@quay.example", website="",
        business="tea",
    )  # fmt: skip
    now = shop.api_server.app.clock()
    merchant_id = shop.api_server.tx(lambda tx: merchants.apply(tx, form, now))
    path = f"/console/merchants/{merchant_id}/standing"
    applications = admin.get("/console/applications").text
    assert path in applications
    assert "Quay &lt;i&gt;" in applications
    assert "Applications to decide" in admin.get("/console").text
    approval = {"event": "approved", "reason": "known", "form_id": "a" * 32}
    # A double click submits the form twice.
    responses = [admin.post(path, approval) for _ in range(2)]
    links = [re.findall(r"/invite/[\w-]+", response.text) for response in responses]
    assert responses[0].status_code == 200
    assert links[0] == links[1] != []
    assert links[0][0] not in admin.get(path).text
    (invitation,) = shop.api_server.tx(lambda tx: people.invitations(tx, merchant_id, now))
    assert (invitation.email, invitation.role) == ("bo@quay.example", "owner")


def test_staff_without_the_permission_only_read_the_standing(shop: Shop) -> None:
    auditor = create_person(shop.api_server, None, staff_role="auditor")
    assert 'method="post" action="/console/merchants' not in get_page(shop, auditor)
    path = f"/console/merchants/{shop.id}/standing"
    assert auditor.post(path, {"event": "suspended", "reason": "x"}).status_code == 403


def test_a_suspended_merchant_shows_what_stays_off_and_why(shop: Shop, admin: Visitor) -> None:
    now = shop.api_server.app.clock()

    async def suspend(tx: Tx) -> None:
        await merchants.set_capability(
            tx, shop.id, "payout", on=False, actor=Actor("ann", "unclear owner"), now=now
        )
        await merchants.change_status(tx, shop.id, "suspended", Actor("ann", "fraud"), now)

    shop.api_server.tx(suspend)
    page = visible_text(admin.get(f"/console/merchants/{shop.id}/standing").text)
    assert "fraud Stays off after the suspension: unclear owner" in page
    assert page.count("Stays off after the suspension:") == 1
    assert "Switch on after the suspension" in page
    assert "Keep off after the suspension" in page


def test_an_active_merchant_is_closed_in_one_form_which_is_offered_when_nothing_is_left(
    shop: Shop, admin: Visitor
) -> None:
    page = get_page(shop, admin)
    assert "The merchant has no money and nothing under way." in page
    assert 'name="event" value="closed"' in page
    form = {"event": "closed", "reason": "moved away", "confirm": "Harbour Books"}
    assert submit(shop, admin, form).headers["location"].endswith("?done=closed")
    assert [change.event for change in read_history(shop)] == ["closed", "suspended", "created"]


def test_an_active_merchant_with_money_sees_what_is_left_instead_of_the_button(
    shop: Shop, admin: Visitor
) -> None:
    shop.create_paid_order()
    page = get_page(shop, admin)
    assert "These must be settled before the merchant can be closed:" in page
    assert 'name="event" value="closed"' not in page
    form = {"event": "closed", "reason": "moved away", "confirm": "Harbour Books"}
    refusal = submit(shop, admin, form)
    assert refusal.status_code == 409
    assert "moved away" in refusal.text
    assert [change.event for change in read_history(shop)] == ["created"]


def test_the_page_says_which_switch_was_turned(shop: Shop, admin: Visitor) -> None:
    off = {"capability": "payout", "state": "off", "reason": "bank details"}
    location = submit(shop, admin, off, "/capability").headers["location"]
    assert "Payouts are switched off." in admin.get(location).text
