"""The page of a payment: its notes, its card, and the notification of an Epay shop."""

import contextlib

import pytest

from dashboard.pages import new_form_id, text_of
from opentill import orders
from opentill.core.notes import MOST_NOTES
from opentill.db.database import Tx
from opentill.gateways.model import Card
from opentill.people import MERCHANT_ROLES, MerchantRole
from support import world
from support.api_server import Shop
from support.epay_shop import EpayShop, Inbox
from support.people import create_person


def test_a_note_is_added_once_to_the_timeline_of_a_payment(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "support")
    order = shop.create_order()["id"]
    path = f"/dashboard/{shop.id}/payments/{order}"
    form = {"note": " Rang:\r\n<b>Monday</b> ", "form_id": new_form_id(ada, path)}
    for _ in range(2):  # a double click submits the form twice
        response = ada.post(f"{path}/notes", form)
        assert (response.status_code, response.headers["location"]) == (
            303,
            f"{path}?noted=1#timeline",
        )
    refusal = ada.post(f"{path}/notes", form | {"note": "More"})  # the form was used already
    assert refusal.status_code == 422
    assert ">\nMore</textarea>" in refusal.text
    shop.api_server.tx(
        lambda tx: orders.add_note(tx, shop.id, order, "Seen", "bo@example.com (per_1)", 1)
    )
    page = ada.get(f"{path}?noted=1#timeline")
    assert page.text.count("Rang:\n&lt;b&gt;Monday&lt;/b&gt;</p>") == 1
    assert "Note added" in text_of(page)
    assert f'Note by <bdi title="{ada.email}">Ada Example</bdi>' in page.text
    assert "Note by the operator" in text_of(page)
    assert "bo@example.com" not in page.text
    rows = shop.api_server.sql(
        "select who, subject from audit_log where merchant_id = $1 and action = 'orders note'",
        shop.id,
    )
    assert rows == [{"who": f"{ada.email} ({ada.person_id})", "subject": order}]


@pytest.mark.parametrize("text", ["", " \r\n ", "x" * 5001, "bell\a"])
def test_a_note_that_is_not_plain_text_is_refused(shop: Shop, text: str) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    order = shop.create_order()["id"]
    refusal = ada.post(f"/dashboard/{shop.id}/payments/{order}/notes", {"note": text})
    assert refusal.status_code == 400
    error = "Enter plain text of at most 5,000" if text.strip() else "Write a note first"
    assert error in refusal.text
    assert 'id="note-error"' in refusal.text


@pytest.mark.parametrize("role", MERCHANT_ROLES)
def test_every_role_reads_notes_and_roles_that_may_refund_add_them(
    shop: Shop, role: MerchantRole
) -> None:
    member, order = create_person(shop.api_server, shop.id, role), shop.create_order()["id"]
    shop.api_server.tx(lambda tx: orders.add_note(tx, shop.id, order, "Seen twice", "bo", 1))
    page = member.get(f"/dashboard/{shop.id}/payments/{order}")
    assert "Seen twice" in page.text
    assert ("Add a note" in page.text) == (role in {"owner", "finance", "support"})


def test_a_payment_has_at_most_100_notes(shop: Shop) -> None:
    ada, order = create_person(shop.api_server, shop.id, "owner"), shop.create_order()["id"]
    shop.api_server.sql(
        "insert into order_notes select $1, $2, n, 1, 'ann', 'x', true"
        " from generate_series(1, $3) n",
        shop.id,
        order,
        MOST_NOTES,
    )
    path = f"/dashboard/{shop.id}/payments/{order}"
    page = ada.get(path)
    assert "There are 100 notes, which is the most." in text_of(page)
    assert f'action="{path}/notes"' not in page.text
    refusal = ada.post(f"{path}/notes", {"note": "One more"})
    assert refusal.status_code == 409
    assert ">\nOne more</textarea>" in refusal.text


def test_the_card_is_shown_on_the_payment_its_receipt_and_the_order(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "viewer")
    order_id = shop.create_order()["id"]

    async def pay(tx: Tx) -> None:
        attempt = await world.submit_attempt(tx, await orders.find(tx, shop.id, order_id))
        await world.report_payment(tx, attempt, "SUCCEEDED", card=Card(brand="amex", last4="0005"))

    order = shop.read_order(order_id)
    assert (order["cardBrand"], order["cardLast4"]) == (None, None)
    shop.api_server.tx(pay)
    paid_order = shop.read_order(order_id)
    assert (paid_order["cardBrand"], paid_order["cardLast4"]) == ("amex", "0005")
    for subpage in ("", "/receipt"):
        page = ada.get(f"/dashboard/{shop.id}/payments/{order_id}{subpage}")
        assert "American Express ••••\N{NO-BREAK SPACE}0005" in page.text
    assert order_id in ada.get(f"/dashboard/{shop.id}/payments?query=0005").text
    matches = shop.data("GET", "/v1/orders?query=0005")["items"]
    assert [match["id"] for match in matches] == [order_id]


def test_the_timeline_shows_the_notification_of_an_epay_shop(shop: Shop) -> None:
    with contextlib.closing(Inbox()) as inbox:
        epay_shop = EpayShop(shop.api_server, inbox)
        order = epay_shop.place_paid_order(money_type="USD", notify_url="https://127.0.0.1/notify")
    server, order_id = shop.api_server, epay_shop.order_id(order)
    ada = create_person(server, epay_shop.id, "support")
    path = f"/dashboard/{epay_shop.id}/payments/{order_id}"
    assert "Epay notification is being sent" in text_of(ada.get(path))
    epay_shop.send_notices()
    page = text_of(ada.get(path))
    assert "Attempts 1" in page
    assert "Next attempt" in page
    server.sql(
        "update epay_notifications set state = 'FAILED', due_at = null where order_id = $1",
        order_id,
    )
    assert "The shop did not take the Epay notification" in text_of(ada.get(path))
    finance = create_person(server, epay_shop.id, "finance")  # the role finance may not read events
    assert "Epay notification" not in text_of(finance.get(path))
    response = ada.post(f"/dashboard/{epay_shop.id}/developers/epay/resend", {"order": order_id})
    assert response.status_code == 303
    rows = server.sql(
        "select who, subject from audit_log where merchant_id = $1 and action = 'epay resend'",
        epay_shop.id,
    )
    assert rows == [{"who": f"{ada.email} ({ada.person_id})", "subject": order_id}]
