"""The page of a payment: notes, the card, and the notification of an Epay shop."""

import re

import httpx2
import pytest

from opentill import orders
from opentill.core.notes import MOST_NOTES
from opentill.db.database import Tx
from opentill.gateways.model import Card
from opentill.people import MERCHANT_ROLES, MerchantRole
from support import world
from support.api_server import Shop
from support.epay_shop import EpayShop, Inbox
from support.people import Visitor, person


def words(response: httpx2.Response) -> str:
    text = re.sub(r"<[^>]+>", " ", response.text)
    return " ".join(re.sub(r"[\u2066-\u2069]", "", text).split())


def form_id(visitor: Visitor, path: str) -> str:
    (found,) = re.findall(r'name="form_id" value="(\w+)"', visitor.get(path).text)
    return str(found)


def test_a_note_stands_in_the_timeline_of_any_payment_once(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "support")
    order = shop.order()["id"]  # that nobody has paid
    here = f"/dashboard/{shop.id}/payments/{order}"
    form = {"note": " Rang:\r\n<b>Monday</b> ", "form_id": form_id(ada, here)}
    for _ in range(2):  # a double click
        sent = ada.post(f"{here}/notes", form)
        assert (sent.status_code, sent.headers["location"]) == (303, f"{here}?noted=1")
    other = ada.post(f"{here}/notes", form | {"note": "More"})  # back, with another text
    assert other.status_code == 422
    assert ">\nMore</textarea>" in other.text
    shop.api_server.tx(
        lambda tx: orders.add_note(tx, shop.id, order, "Seen", "bo@example.com (per_1)", 1)
    )
    page = ada.get(f"{here}?noted=1")
    assert page.text.count("Rang:\n&lt;b&gt;Monday&lt;/b&gt;</p>") == 1
    assert "Your note is added." in words(page)
    assert f"Note of {ada.email}" in words(page)
    assert "Note of the operator" in words(page)
    assert "bo@example.com" not in page.text
    rows = shop.api_server.sql(
        "select who, subject from audit_log where merchant_id = $1 and action = 'orders note'",
        shop.id,
    )
    assert rows == [{"who": f"{ada.email} ({ada.person_id})", "subject": order}]


@pytest.mark.parametrize("text", ["", " \r\n ", "x" * 5001, "bell\a"])
def test_a_note_that_is_no_plain_text_stays_in_its_field(shop: Shop, text: str) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    order = shop.order()["id"]
    refused = ada.post(f"/dashboard/{shop.id}/payments/{order}/notes", {"note": text})
    assert refused.status_code == 400
    assert "Enter plain text of 1 to 5,000 characters" in words(refused)
    assert 'id="note-error"' in refused.text


@pytest.mark.parametrize("role", MERCHANT_ROLES)
def test_notes_are_read_by_all_and_written_by_those_who_refund(
    shop: Shop, role: MerchantRole
) -> None:
    member, order = person(shop.api_server, shop.id, role), shop.order()["id"]
    shop.api_server.tx(lambda tx: orders.add_note(tx, shop.id, order, "Seen twice", "bo", 1))
    page = member.get(f"/dashboard/{shop.id}/payments/{order}")
    assert "Seen twice" in page.text
    assert ("Add a note" in page.text) == (role in {"owner", "finance", "support"})


def test_a_payment_with_all_notes_takes_no_more(shop: Shop) -> None:
    ada, order = person(shop.api_server, shop.id, "owner"), shop.order()["id"]
    shop.api_server.sql(
        "insert into order_notes select $1, $2, n, 1, 'ann', 'x', true"
        " from generate_series(1, $3) n",
        shop.id,
        order,
        MOST_NOTES,
    )
    here = f"/dashboard/{shop.id}/payments/{order}"
    page = ada.get(here)
    assert "There are 100 notes, which is the most." in words(page)
    assert f'action="{here}/notes"' not in page.text
    late = ada.post(f"{here}/notes", {"note": "One more"})
    assert late.status_code == 409
    assert ">\nOne more</textarea>" in late.text


def test_the_card_stands_on_the_payment_its_receipt_and_the_order(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "viewer")
    made = shop.order()["id"]

    async def pay(tx: Tx) -> None:
        attempt = await world.submitted(tx, await orders.find(tx, shop.id, made))
        await world.said(tx, attempt, "SUCCEEDED", card=Card(brand="amex", last4="0005"))

    before = shop.read_order(made)
    shop.api_server.tx(pay)
    assert (before["cardBrand"], before["cardLast4"]) == (None, None)
    after = shop.read_order(made)
    assert (after["cardBrand"], after["cardLast4"]) == ("amex", "0005")
    for below in ("", "/receipt"):
        page = ada.get(f"/dashboard/{shop.id}/payments/{made}{below}")
        assert "American Express •••• 0005" in page.text
    searched = ada.get(f"/dashboard/{shop.id}/payments?query=0005")
    assert made in searched.text
    assert [one["id"] for one in shop.data("GET", "/v1/orders?query=0005")["items"]] == [made]


def test_the_notification_of_an_epay_shop_stands_in_the_timeline(shop: Shop) -> None:
    inbox = Inbox()
    try:
        epay_shop = EpayShop(shop.api_server, inbox)
        placed = epay_shop.place_paid_order(money_type="USD", notify_url="https://127.0.0.1/notify")
    finally:
        inbox.close()
    server, order_id = shop.api_server, epay_shop.order_id(placed)
    ada = person(server, epay_shop.id, "support")
    here = f"/dashboard/{epay_shop.id}/payments/{order_id}"
    assert "Epay notification is being sent" in words(ada.get(here))
    epay_shop.send_notices()
    page = words(ada.get(here))
    assert "Attempts 1" in page
    assert "Next attempt" in page
    server.sql(
        "update epay_notifications set state = 'FAILED', due_at = null where order_id = $1",
        order_id,
    )
    assert "The shop did not take the Epay notification" in words(ada.get(here))
    finance = person(server, epay_shop.id, "finance")  # who reads no events
    assert "Epay notification" not in words(finance.get(here))
    sent = ada.post(f"/dashboard/{epay_shop.id}/developers/epay/resend", {"order": order_id})
    assert sent.status_code == 303
    rows = server.sql(
        "select who, subject from audit_log where merchant_id = $1 and action = 'epay resend'",
        epay_shop.id,
    )
    assert rows == [{"who": f"{ada.email} ({ada.person_id})", "subject": order_id}]
