"""A customer's last payment is the last paid one: in the list, in the search and on the page."""

import re
from collections.abc import Callable

from dashboard.pages import text_of
from opentill import disputes
from opentill.orders.search import jobs as indexing
from support.api_server import Shop
from support.people import create_person
from support.world import DAY

_PLACE = "/dashboard/{}/customers"


def _index(shop: Shop) -> None:
    shop.api_server.run(indexing.index_merchant(shop.api_server.app.db, shop.id, many=2))


def _emails(html: str) -> list[str]:
    rows = re.findall(r'<tr role="row"><td.*?</tr>', html, re.DOTALL)
    return [text_of(row).split()[0] for row in rows]


def test_the_last_payment_is_the_last_paid_one_on_all_pages(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    start = 1_795_000_000_000  # 2026-11-18T11:06:40Z
    owner, path = create_person(shop.api_server, shop.id, "owner"), _PLACE.format(shop.id)
    clock(start)
    shop.create_paid_order(customerEmail="ada@example.com")
    clock(start + DAY)
    shop.create_paid_order(customerEmail="bob@example.com")
    clock(start + 2 * DAY)
    shop.create_order(customerEmail="ada@example.com")  # not paid
    clock(start + 3 * DAY)
    shop.create_order(customerEmail="cyd@example.com")  # never paid
    for _ in range(2):  # the second time, all orders are indexed
        html = owner.get(path).text
        assert _emails(html) == ["bob@example.com", "ada@example.com", "cyd@example.com"]
        rows = [text_of(row) for row in re.findall(r'<tr role="row"><td.*?</tr>', html, re.DOTALL)]
        assert ["Nov 19" in rows[0], "Nov 18" in rows[1]] == [True, True]
        assert "cyd@example.com – " in rows[2]
        assert _emails(owner.get(path, params={"email": "example"}).text) == _emails(html)
        search = f"/dashboard/{shop.id}/search"
        result = text_of(owner.get(search, params={"q": "ada@"}))
        assert "Last payment: Nov 18" in result
        assert "Last payment:" not in text_of(owner.get(search, params={"q": "cyd@"}))
        page = text_of(owner.get(f"{path}/one", params={"email": "ada@example.com"}))
        assert "Last payment Nov 18" in page
        _index(shop)


def test_the_total_spent_is_net_of_refunds(shop: Shop) -> None:
    order = shop.create_paid_order(customerEmail="ada@example.com")
    shop.report_refund(shop.refund(order["id"])["id"])
    _index(shop)
    owner, path = create_person(shop.api_server, shop.id, "owner"), _PLACE.format(shop.id)
    assert "1 payment 1 $0.00" in text_of(owner.get(path))
    page = text_of(owner.get(f"{path}/one", params={"email": "ada@example.com"}))
    assert "Total spent $0.00 after refunds Refunded $9.99 Paid payments 1" in page


def test_the_total_spent_is_net_of_lost_disputes(shop: Shop) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    lost, _ = (shop.create_paid_order(customerEmail="ada@example.com") for _ in range(2))
    shop.report_refund(shop.refund(lost["id"], amount="2.00")["id"])
    dispute = shop.open_dispute(lost["id"])
    server.tx(
        lambda tx: disputes.decide(tx, shop.id, dispute.id, "lost", who="bo", reason="x", now=now)
    )
    owner, path = create_person(server, shop.id, "owner"), _PLACE.format(shop.id)
    rows = []
    for text in ("", "ada@"):  # the totals of the newest orders, and of the index
        rows.append(text_of(owner.get(path, params={"email": text})))
        _index(shop)
    assert ["2 payments 2 $9.99" in row for row in rows] == [True, True]
    page = text_of(owner.get(f"{path}/one", params={"email": "ada@example.com"}))
    assert "Total spent $9.99 after refunds and lost disputes Refunded or lost $9.99" in page
