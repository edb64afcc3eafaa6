"""What a row of the list says of a payment: its status, method, reason and refund."""

import re
from functools import partial
from typing import Any

import pytest

from dashboard.listed_payments import PaymentsList, tab_numbers
from dashboard.pages import text_of
from opentill import disputes, orders
from opentill.db.clock import now_ms
from opentill.gateways.model import Card, PaymentOutcome
from opentill.orders.payments import outcomes
from support import world
from support.api_server import Shop


def test_a_payment_whose_last_attempt_failed_is_not_paid_yet(shop: Shop) -> None:
    shop.create_order()
    declined = shop.create_order()
    order = shop.api_server.tx(lambda tx: orders.find(tx, shop.id, declined["id"]))

    async def decline(tx: Any) -> None:
        attempt = await world.submit_attempt(tx, order, now_ms())
        await world.report_payment(tx, attempt, "DECLINED", now_ms())

    shop.api_server.tx(decline)
    payments = PaymentsList(shop)
    numbers = tab_numbers(payments.page())
    assert (numbers["All"], numbers["Declined"], numbers["Not paid yet"]) == ("2", "0", "2")
    for query in ({"tab": "incomplete", "status": "ATTEMPT_FAILED"}, {"status": "ATTEMPT_FAILED"}):
        (row,) = payments.rows(**query, with_order="1", with_status="1")
        assert f"order_…{declined['id'][-6:]}" in row
        assert "Attempt failed" in row
        (line,) = payments.export(**query)
        assert (line["id"], line["paymentStatus"]) == (declined["id"], "ATTEMPT_FAILED")
    assert payments.rows(tab="failed") == []
    page = payments.visitor.get(f"{payments.path}/{declined['id']}").text
    badges = text_of(page.partition('<p class="badges">')[2].partition("</p>")[0])
    assert "Attempt failed" in badges


def decline(shop: Shop, order_id: str, reason: str, card: Card | None = None) -> None:
    """Report an attempt by card that failed."""
    server = shop.api_server
    order = server.tx(partial(orders.find, merchant_id=shop.id, order_id=order_id))

    async def work(tx: Any) -> None:
        attempt = await world.submit_attempt(tx, order, now_ms())
        outcome = PaymentOutcome(status="DECLINED", reason=reason, card=card)
        await outcomes.apply_to_attempt(tx, attempt, outcome, now_ms())

    server.tx(work)


@pytest.mark.parametrize(
    ("code", "name", "title", "advice"),
    [
        (
            "lost_card",
            "Lost card",
            "The last attempt was declined The card was reported lost.",
            "Ask the customer for another card or payment method. Do not say why",
        ),
        (
            "processing_error",
            "Processing error",
            "The last attempt failed The bank could not process it at that moment.",
            "Trying again in a few minutes usually helps.",
        ),
        (
            "unheard_of: because",
            "Declined by the bank",
            "The last attempt was declined The customer’s bank declined it.",
            "Ask the customer to contact the bank",
        ),
    ],
)
def test_an_attempt_that_failed_shows_its_card_and_what_to_do(
    shop: Shop, code: str, name: str, title: str, advice: str
) -> None:
    order = shop.create_order()
    decline(shop, order["id"], code, Card(brand="visa", last4="0002"))
    payments = PaymentsList(shop)
    (row,) = payments.rows(tab="incomplete")
    assert "Visa •••• 0002" in row
    assert name in row
    assert name not in payments.page()  # only the tab shows the reason by default
    text = text_of(payments.visitor.get(f"{payments.path}/{order['id']}").text)
    assert f"{title} {advice}" in text
    assert "Payment method Visa •••• 0002" in text


def test_the_tab_of_refunds_shows_what_was_refunded_or_why_it_was_not(shop: Shop) -> None:
    order = shop.create_paid_order()
    refund = shop.refund(order["id"], refundNo="R-1", amount="1")
    payments = PaymentsList(shop)
    (row,) = payments.rows(tab="refunded")
    assert row.endswith("$1.00 pending $9.99")  # the bank has not confirmed it
    shop.report_refund(refund["id"])
    failed = shop.create_paid_order()
    failed_refund = shop.refund(failed["id"], refundNo="R-2", amount="1")
    shop.report_refund(failed_refund["id"], "REFUSED")
    page = payments.page(tab="refunded")
    assert "Refunded on" in text_of(page)
    assert "Refunded on" not in text_of(
        payments.page().partition("<tbody")[0].partition("<thead")[2]
    )
    # The tab that has the status of a filter is marked.
    tabs = payments.page(status="PARTIALLY_REFUNDED").partition('class="tabs counted"')[2]
    assert re.findall(r'aria-current="true">(\w+)', tabs.partition("</nav>")[0]) == ["Refunds"]
    (row,) = payments.rows(tab="refunded", status="PARTIALLY_REFUNDED")
    assert row.endswith("-$1.00 $9.99")
    assert len(re.findall(r":\d\d\s[AP]M", row)) == 2
    (row,) = payments.rows(tab="refunded", status="REFUND_FAILED")
    assert row.endswith("$1.00 failed $9.99")
    assert len(re.findall(r":\d\d\s[AP]M", row)) == 1  # it was not refunded


@pytest.mark.parametrize(
    ("response", "chip"),
    [
        (None, "Dispute needs response"),
        ("CONTESTED", "Dispute contested"),
        ("ACCEPTED", "Dispute accepted"),
    ],
)
def test_a_disputed_payment_shows_the_state_of_its_dispute(
    shop: Shop, response: disputes.Response | None, chip: str
) -> None:
    order = shop.create_paid_order()
    dispute = shop.open_dispute(order["id"])
    if response is not None:
        shop.api_server.tx(
            lambda tx: disputes.respond(
                tx, shop.id, dispute.id, response, who="ann@example.com (per_1)", now=now_ms()
            )
        )
    payments = PaymentsList(shop)
    (row,) = payments.rows(tab="disputed")
    assert chip in row
    for place in ("", "/search?q=9.99", f"/sessions/{order['checkoutSessionId']}"):
        assert chip in text_of(payments.visitor.get(f"/dashboard/{shop.id}{place}")), place
    text = text_of(payments.visitor.get(f"{payments.path}/{order['id']}").text)
    assert chip in text
    assert ("Held for the dispute" in text) == (response != "ACCEPTED")
    assert ("To be taken -$" in text) == (response == "ACCEPTED")


def test_unknown_values_of_filters_are_ignored_and_shown_as_no_filter(shop: Shop) -> None:
    shop.create_order()
    payments = PaymentsList(shop)
    page = payments.page(status="refunded", method="card")
    assert "in-use" not in page
    assert "Remove the filter" not in page
    assert len(payments.rows(status="refunded", method="card")) == 1
    assert "Remove the filter: Status" in payments.page(status="PENDING")
