"""Orders and sessions can be searched and filtered (contract.md#order-filters, #order-search)."""

import csv
import io
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

import pytest

from opentill.orders.search import jobs as indexing
from support import world
from support.api_server import ApiServer, Shop, assert_refused
from support.epay_shop import EpayShop, Inbox

NOW: Final = world.NOW
EMAIL: Final = "ada.lovelace@example.com"


@pytest.fixture(scope="module")
def inbox() -> Iterator[Inbox]:
    """A receiver of Epay notifications that returns success."""
    receiver = Inbox()
    yield receiver
    receiver.close()


def find_orders(shop: Shop, **query: Any) -> list[str]:
    """Return the ids of the orders that a query finds, and check the total."""
    data = shop.data("GET", "/v1/orders", params=query)
    assert data["pagination"]["total"] == len(data["items"])
    return [order["id"] for order in data["items"]]


def export_orders(shop: Shop, **query: Any) -> list[str]:
    """Return the ids of the orders that a query exports."""
    response = shop.get("/v1/orders/export", **query)
    assert response.status_code == 200
    return [row["id"] for row in csv.DictReader(io.StringIO(response.text))]


def create_searchable_orders(shop: Shop) -> dict[str, tuple[str, str]]:
    """Create two orders; return the texts that find them: what it is → (text, order id)."""
    order = shop.create_paid_order(customerEmail=EMAIL, metadata={"cart": "Cart-77", "seats": 3})
    dispute = shop.open_dispute(shop.create_paid_order(customerEmail="bob@example.com")["id"])
    refund = shop.refund(order["id"], amount="1.00", refundNo="RMA 7")
    texts = {
        "order": order["id"],
        "session": order["checkoutSessionId"],
        "refund": refund["id"],
        "refundNo": "RMA 7",
        "product": order["productId"],
        "email": "Ada.Lovelace@EXAMPLE.com",
        "beginning of email": "ada.love",
        "metadata": "cart-77",
        "number in metadata": "3",
    }
    sql = shop.api_server.sql
    queries = {
        "attempt": "select id from payment_attempts where merchant_id = $1 and order_id = $2",
        "event": "select id from events where merchant_id = $1 and body like '%' || $2 || '%'",
        "entry": "select id from entries where merchant_id = $1 and source_id = $2",
    }
    texts |= {name: sql(query, shop.id, order["id"])[0]["id"] for name, query in queries.items()}
    refund_entry = "select id from entries where merchant_id = $1 and source_id = $2"
    texts["refund's entry"] = sql(refund_entry, shop.id, refund["id"])[0]["id"]
    return {
        **{name: (query, order["id"]) for name, query in texts.items()},
        "dispute": (dispute.id, dispute.order_id),
    }


def test_the_query_finds_an_order_by_every_identifying_text(api_server: ApiServer) -> None:
    shop, other_shop = api_server.create_shop(), api_server.create_shop()
    other_shop.create_paid_order(customerEmail="eve@example.com", metadata={"cart": "Cart-78"})
    not_unique = {"email", "beginning of email", "metadata", "refundNo", "number in metadata"}
    for is_indexed in (False, True):
        if is_indexed:
            shop, other_shop = api_server.create_shop(), shop
        texts_by_name = create_searchable_orders(shop)
        if is_indexed:
            assert api_server.run(indexing.index_merchant(api_server.app.db, shop.id)) == 2
        for name, (text, order_id) in texts_by_name.items():
            assert find_orders(shop, query=f" {text} ") == [order_id], name
            assert export_orders(shop, query=text) == [order_id], name
            assert find_orders(shop, query=text, status="PENDING") == [], name
            if name not in not_unique:
                assert find_orders(other_shop, query=text) == [], name
        all_order_ids = sorted({order_id for _, order_id in texts_by_name.values()})
        assert sorted(find_orders(shop, query="9.99")) == all_order_ids
        assert find_orders(shop, query=other_shop.id) == find_orders(shop, query="nobody") == []


def test_an_epay_order_is_found_by_its_numbers(api_server: ApiServer, inbox: Inbox) -> None:
    api_server.set_rate("CNY", "USD", Decimal("0.14"))
    shop = EpayShop(api_server, inbox)
    shop.place_order(out_trade_no="A-1")
    (row,) = api_server.sql("select order_id from epay_orders where merchant_id = $1", shop.id)
    number = row["order_id"].replace("_", "")
    for text in ("A-1", number, row["order_id"]):
        assert find_orders(shop.shop, query=text) == [row["order_id"]], text


def test_filters_find_exactly_the_matching_orders(shop: Shop) -> None:
    tea = shop.create_product(price="42.00")["id"]
    ada_order = shop.create_order(tea, customerEmail=EMAIL, metadata={"plan": "Pro", "n": "42"})[
        "id"
    ]
    bob_order = shop.create_order(
        tea, customerEmail="bob@example.com", metadata={"plan": "pro", "n": "42.0"}
    )["id"]
    cases: tuple[tuple[dict[str, Any], list[str]], ...] = (
        ({"customerEmail": EMAIL.upper()}, [ada_order]),
        ({"customerEmail": "ada.love@example.com"}, []),
        ({"amount": "42"}, [bob_order, ada_order]),
        ({"amount": "042.00"}, [bob_order, ada_order]),
        ({"amount": "42.01"}, []),
        ({"metadata[plan]": "Pro"}, [ada_order]),
        ({"metadata[plan]": "PRO"}, []),
        ({"metadata[n]": "42.0", "amount": "42"}, [bob_order]),
        ({"metadata[n]": "42", "metadata[plan]": "pro"}, []),
        ({"query": "PRO"}, [bob_order, ada_order]),
        ({"query": "42", "productId": tea, "status": "PENDING"}, [bob_order, ada_order]),
        ({"query": tea, "customerEmail": EMAIL}, [ada_order]),
        ({"query": "42", "startDate": 2**45}, []),
        ({"query": "  "}, [bob_order, ada_order]),
    )
    for query, expected in cases:
        assert find_orders(shop, **query) == expected, query
        assert export_orders(shop, **query) == expected[::-1], query


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"customerEmail": "ada"}, "customerEmail"),
        ({"amount": "1,00"}, "amount"),
        ({"amount": "-1"}, "amount"),
        ({"metadata": "x"}, "metadata"),
        ({"metadata[]": "x"}, "metadata"),
        ({"metadata[a": "x"}, "metadata[a"),
        ({"metadata[a]": ["x", "y"]}, "metadata"),
        ({"metadata[a]": "x\0"}, "metadata"),
        ({f"metadata[{'k' * 65}]": "x"}, "metadata"),
        ({f"metadata[{n}]": "x" for n in range(11)}, "metadata"),
        ({"query": "x" * 201}, "query"),
        ({"query": "a\0"}, "query"),
        ({"query": "x", "endDate": 1, "startDate": 2}, "endDate"),
    ],
)
def test_an_invalid_search_is_refused(shop: Shop, query: dict[str, Any], field: str) -> None:
    for path in ("/v1/orders", "/v1/orders/export"):
        assert_refused(shop.get(path, **query), field)


# ── lists of sessions ──────────────────────────────────────────────────────────────────────────


def test_sessions_are_listed_and_filtered(shop: Shop, clock: Callable[[int], None]) -> None:
    tea, mug = shop.create_product()["id"], shop.create_product()["id"]
    session_ids = []
    for n, product in enumerate((tea, mug, tea, mug, tea, tea)):
        clock(NOW + n * 1000)
        session_ids.append(
            shop.create_session(product, customerEmail=f"c{n % 2}@example.com")["id"]
        )
    orders = [
        shop.data("GET", f"/v1/checkouts/{session_id}")["orderId"] for session_id in session_ids
    ]
    shop.confirm(orders[0])
    shop.revoke(orders[1])
    for n in (2, 3):
        shop.data("POST", f"/v1/checkouts/{session_ids[n]}/expire")
    # This session has expired before it is paid, and stays EXPIRED.
    shop.confirm(orders[2])

    def list_positions(**query: Any) -> list[int]:
        data = shop.data("GET", "/v1/checkouts", params=query)
        if "size" not in query:
            assert data["pagination"]["total"] == len(data["items"])
        for item in data["items"]:
            assert item == shop.data("GET", f"/v1/checkouts/{item['id']}")
        return [session_ids.index(item["id"]) for item in data["items"]]

    cases: tuple[tuple[dict[str, Any], list[int]], ...] = (
        ({}, [5, 4, 3, 2, 1, 0]),
        ({"status": "OPEN"}, [5, 4]),
        ({"status": "COMPLETE"}, [0]),
        ({"status": "EXPIRED"}, [3, 2, 1]),
        ({"productId": tea}, [5, 4, 2, 0]),
        ({"productId": tea, "status": "EXPIRED"}, [2]),
        ({"productId": mug, "status": "EXPIRED"}, [3, 1]),
        ({"startDate": NOW + 2000, "status": "EXPIRED"}, [3, 2]),
        ({"endDate": NOW + 1000}, [1, 0]),
        ({"size": 2, "page": 2}, [3, 2]),
        ({"size": 2, "page": 2, "status": "EXPIRED"}, [1]),
        ({"customerEmail": "C1@example.com"}, [5, 3, 1]),
        ({"customerEmail": "c0@example.com", "status": "EXPIRED"}, [2]),
        ({"customerEmail": "c1@example.com", "productId": mug, "endDate": NOW + 2000}, [1]),
        ({"productId": "prod_01m7y0m0jzefzv5n8efcf1hqw1"}, []),
    )
    for query, expected in cases:
        assert list_positions(**query) == expected, query
    assert_refused(shop.get("/v1/checkouts", status="open"), "status")
    assert_refused(shop.get("/v1/checkouts", customerEmail="x"), "customerEmail")
    assert_refused(shop.get("/v1/checkouts", endDate=1, startDate=2), "endDate")
