"""The dispute rate on the pages of merchants and of staff, and on the command line."""

from dashboard.pages import text_of
from opentill.figures import jobs
from support.api_server import Shop
from support.people import create_person


def test_the_rate_is_shown_by_month_and_card_brand(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "finance")
    agent = create_person(shop.api_server, None, staff_role="auditor")
    path = f"/dashboard/{shop.id}/disputes"
    assert "There were no payments or disputes" in text_of(ada.get(f"{path}/rate"))
    orders = [shop.create_paid_order()["id"] for _ in range(4)]
    shop.api_server.sql(
        "update payment_attempts set card_brand = 'visa', card_last4 = '4242',"
        " method = 'CREDIT_CARD' where merchant_id = $1",
        shop.id,
    )
    shop.open_dispute(orders[0])
    shop.api_server.run(jobs.count_all(shop.api_server.app.db))
    page = text_of(ada.get(f"{path}/rate"))
    for text in (
        "All payments 4 1 0 0 25.00% 25.00%",
        "Visa 4 1 0 0 25.00%",
        "Visa: 1.50%, from 1,500 disputes a month Within the limit",
    ):
        assert text in page, page
    assert "Disputes 1 Won 0 Lost 0 Dispute rate 25.00%" in text_of(ada.get(path))
    staff_page = text_of(agent.get("/console/disputes/rate", params={"merchant": shop.id}))
    assert "Visa 4 1 0 0 25.00%" in staff_page
    assert "All payments" in text_of(agent.get("/console/disputes/rate"))
    assert "This month" in text_of(agent.get("/console/disputes"))
    wrong = text_of(agent.get("/console/disputes/rate", params={"merchant": "mer_0"}))
    assert "No merchant has this ID or name" in wrong
    assert "There were no payments or disputes" not in wrong
