"""What a row of the list says of a payment: its status, method, reason and refund."""

from typing import Any

from dashboard.listed_payments import PaymentsList, tab_numbers
from dashboard.pages import text_of
from opentill import orders
from opentill.db.clock import now_ms
from support import world
from support.api_server import Shop


def test_a_payment_whose_last_attempt_failed_is_under_declined_until_it_is_paid(shop: Shop) -> None:
    shop.create_order()
    declined = shop.create_order()
    order = shop.api_server.tx(lambda tx: orders.find(tx, shop.id, declined["id"]))

    async def decline(tx: Any) -> None:
        attempt = await world.submit_attempt(tx, order, now_ms())
        await world.report_payment(tx, attempt, "DECLINED", now_ms())

    shop.api_server.tx(decline)
    payments = PaymentsList(shop)
    numbers = tab_numbers(payments.page())
    assert (numbers["All"], numbers["Declined"], numbers["Not paid yet"]) == ("2", "1", "1")
    for query in ({"tab": "failed"}, {"status": "ATTEMPT_FAILED"}):
        (row,) = payments.rows(**query, with_order="1", with_status="1")
        assert f"order_…{declined['id'][-6:]}" in row
        assert "Attempt failed" in row
        (line,) = payments.export(**query)
        assert (line["id"], line["paymentStatus"]) == (declined["id"], "ATTEMPT_FAILED")
    assert payments.rows(tab="failed", status="FAILED") == []
    page = payments.visitor.get(f"{payments.path}/{declined['id']}").text
    badges = text_of(page.partition('<p class="badges">')[2].partition("</p>")[0])
    assert "Attempt failed" in badges
