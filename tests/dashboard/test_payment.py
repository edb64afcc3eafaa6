"""The page of a payment: its parts for each role, its receipt, and forms other than refunds."""

import re
from typing import Any

import pytest

from dashboard.pages import text_of
from dashboard.payment_pages import (
    EventfulOrder,
    event_types,
    find_order,
    ledger_rows,
    list_refunds,
    page_path,
    timeline_titles,
)
from opentill import orders
from opentill.core.ids import new_id
from opentill.people import MERCHANT_ROLES, MerchantRole, member_may
from support.api_server import Shop
from support.people import create_person


@pytest.mark.parametrize("role", MERCHANT_ROLES)
def test_each_role_sees_the_parts_of_a_payment_that_it_may_read(
    shop: Shop, clock: Any, role: MerchantRole
) -> None:
    eventful_order = EventfulOrder(shop, clock)
    member = create_person(shop.api_server, shop.id, role)
    page = member.get(page_path(shop, eventful_order.id))
    timeline = timeline_titles(page)
    assert any("Settlement" in row for row in ledger_rows(page)) == member_may(role, "balance.read")
    assert ("order.paid" in event_types(page)) == member_may(role, "events.read")
    assert ("Dispute won: $15.00" in timeline) == member_may(role, "disputes.read")
    may_refund = member_may(role, "payments.refund")
    assert (f'href="{page_path(shop, eventful_order.id, "refund")}"' in page.text) == may_refund
    confirmation = member.get(page_path(shop, eventful_order.id, "refund"), params={"amount": "1"})
    assert confirmation.status_code == (200 if may_refund else 403)
    if may_refund:
        assert ("Available balance" in confirmation.text) == member_may(role, "balance.read")
    assert member.get(page_path(shop, eventful_order.id, "receipt")).status_code == 200


def test_another_merchants_payment_is_not_found(shop: Shop) -> None:
    other_shop = shop.api_server.create_shop()
    other_order = other_shop.create_paid_order()["id"]
    owner = create_person(shop.api_server, shop.id, "owner")
    for order_id in (other_order, new_id("order"), shop.create_session()["id"]):
        for parts in ((), ("receipt",), ("refund",)):
            assert owner.get(page_path(shop, order_id, *parts)).status_code == 404, parts
        for action in ("refund", "expire", "resend"):
            assert (
                owner.post(page_path(shop, order_id, action), {"amount": "1"}).status_code == 404
            ), action
    assert list_refunds(other_shop, other_order) == []


def test_a_payment_lists_the_other_payments_of_its_customer(shop: Shop) -> None:
    first, second = (
        shop.create_paid_order(customerEmail="ada@example.com")["id"] for _ in range(2)
    )
    stranger = shop.create_paid_order(customerEmail="eve@example.com")["id"]
    owner = create_person(shop.api_server, shop.id, "owner")
    page = owner.get(page_path(shop, first)).text
    table = page.partition("Other payments of this customer")[2].partition("</table>")[0]
    assert re.findall(r"/payments/(order_[0-9a-z]+)", table) == [second]
    assert "Other payments of this customer" not in owner.get(page_path(shop, stranger)).text


def test_the_receipt_shows_what_was_paid_less_the_refunds(shop: Shop, clock: Any) -> None:
    eventful_order = EventfulOrder(shop, clock)
    page = create_person(shop.api_server, shop.id, "support").get(
        page_path(shop, eventful_order.id, "receipt")
    )
    page_text = text_of(page)
    number = orders.receipt_number(eventful_order.id)
    # The headline is the amount that was paid at the date below it.
    for text in ("Harbour Books", number, "$20.00 Paid on", "Blue &lt;teapot&gt; $20.00", "-$5.00",
                 "Paid after refunds $15.00", "Test payment"):  # fmt: skip
        assert text in page_text, text
    assert "-$1.00" not in page_text


def test_an_unpaid_payment_has_no_fee_and_no_net(shop: Shop) -> None:
    owner, order = create_person(shop.api_server, shop.id, "owner"), shop.create_order()
    page = text_of(owner.get(page_path(shop, order["id"])))
    assert "Payment breakdown" not in page
    owner.post(page_path(shop, order["id"], "expire"))
    page = text_of(owner.get(page_path(shop, order["id"])))
    assert "Payment breakdown" not in page


def test_a_payment_and_its_session_lead_to_the_customer(shop: Shop) -> None:
    order = shop.create_order(customerEmail="ada@example.com")
    session = f"/dashboard/{shop.id}/sessions/{find_order(shop, order['id']).checkout_id}"
    customer = f'href="/dashboard/{shop.id}/customers/one?email=ada%40example.com"'
    for role in ("support", "developer"):
        member = create_person(shop.api_server, shop.id, role)
        may_read = role == "support"
        for path in (page_path(shop, order["id"]), session):
            assert (customer in member.get(path).text) == may_read, (role, path)


def test_an_unpaid_payment_is_canceled_once(shop: Shop) -> None:
    server, owner = shop.api_server, create_person(shop.api_server, shop.id, "support")
    order = shop.create_order()
    page = owner.get(page_path(shop, order["id"]))
    assert "Cancel this payment?" in text_of(page)
    assert "Receipt" not in text_of(page)
    for _ in range(2):
        response = owner.post(page_path(shop, order["id"], "expire"))
        assert response.status_code == 303
        assert "Nobody can pay it any more." in text_of(owner.get(response.headers["location"]))
    assert shop.read_order(order["id"])["status"] == "CLOSED"
    page = owner.get(page_path(shop, order["id"]))
    assert timeline_titles(page)[0] == "Canceled: it can no longer be paid"
    assert event_types(page) == ["checkout.expired", "order.closed"]
    rows = server.sql("select reason from audit_log where action = 'sessions end'"
                      " and merchant_id = $1", shop.id)  # fmt: skip
    assert len(rows) == 1
    paid_order_id = shop.create_paid_order()["id"]
    refusal = owner.post(page_path(shop, paid_order_id, "expire"))
    assert refusal.status_code == 409
    assert "This payment cannot be canceled" in text_of(refusal)
    assert shop.read_order(paid_order_id)["status"] == "PAID"


def test_the_id_of_a_payment_is_short_and_offers_its_whole_text_to_the_copy_button(
    shop: Shop,
) -> None:
    order_id = shop.create_order()["id"]
    page = create_person(shop.api_server, shop.id, "owner").get(page_path(shop, order_id)).text
    assert (
        f'<span class="object-id" data-copy="Copy the ID" data-copied="Copied" '
        f'data-value="{order_id}"><code class="id" title="{order_id}">order_…{order_id[-6:]}</code>'
    ) in page
    assert re.search(r'<script src="[^"]*/copy\.js[^"]*" defer>', page)
    assert 'class="copy"' not in page  # only the script adds the button


def test_the_receipt_says_why_it_cannot_be_mailed(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    order = shop.create_paid_order()
    assert not shop.api_server.app.settings.sends_mail
    page = owner.get(page_path(shop, order["id"], "receipt")).text
    assert "Email is not set up" in page
    assert "Send to customer" not in page
    text = text_of(owner.get(page_path(shop, order["id"], "receipt")))
    assert "Receipt from Harbour Books $9.99 Paid on" in text
