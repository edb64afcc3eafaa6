"""Searches by the API (contract.md#order-filters, contract.md#order-search), and sessions' list."""

import csv
import io
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

import pytest

from opentill.orders.search import jobs as indexing
from support import world
from support.api_server import ApiServer, Shop, refused
from support.epay_shop import EpayShop, Inbox

NOW: Final = world.NOW
EMAIL: Final = "ada.lovelace@example.com"


@pytest.fixture(scope="module")
def inbox() -> Iterator[Inbox]:
    """A notify_url that says success."""
    made = Inbox()
    yield made
    made.close()


def ids(shop: Shop, **query: Any) -> list[str]:
    """Return the orders that a query finds; their number is the total."""
    data = shop.data("GET", "/v1/orders", params=query)
    assert data["pagination"]["total"] == len(data["items"])
    return [order["id"] for order in data["items"]]


def exported(shop: Shop, **query: Any) -> list[str]:
    """Return the orders that a query exports."""
    answer = shop.get("/v1/orders/export", **query)
    assert answer.status_code == 200
    return [row["id"] for row in csv.DictReader(io.StringIO(answer.text))]


def forms(shop: Shop) -> dict[str, tuple[str, str]]:
    """Return what leads to an order, and to which one."""
    order = shop.paid(customerEmail=EMAIL, metadata={"cart": "Cart-77", "seats": 3})
    dispute = shop.dispute(shop.paid(customerEmail="bob@example.com")["id"])
    made = shop.refund(order["id"], amount="1.00", refundNo="RMA 7")
    found = {
        "order": order["id"],
        "session": order["checkoutSessionId"],
        "refund": made["id"],
        "refundNo": "RMA 7",
        "product": order["productId"],
        "e-mail": "Ada.Lovelace@EXAMPLE.com",
        "beginning of it": "ada.love",
        "metadata": "cart-77",
        "number in it": "3",
    }
    sql = shop.api_server.sql
    rows = {
        "attempt": "select id from payment_attempts where merchant_id = $1 and order_id = $2",
        "event": "select id from events where merchant_id = $1 and body like '%' || $2 || '%'",
        "entry": "select id from entries where merchant_id = $1 and source_id = $2",
    }
    found |= {name: sql(text, shop.id, order["id"])[0]["id"] for name, text in rows.items()}
    held = "select id from entries where merchant_id = $1 and source_id = $2"
    found["refund's entry"] = sql(held, shop.id, made["id"])[0]["id"]
    return {
        **{name: (text, order["id"]) for name, text in found.items()},
        "dispute": (dispute.id, dispute.order_id),
    }


def test_one_box_takes_whatever_leads_to_an_order(api_server: ApiServer) -> None:
    shop, other = api_server.shop(), api_server.shop()
    other.paid(customerEmail="eve@example.com", metadata={"cart": "Cart-78"})
    for indexed in (False, True):
        if indexed:
            shop, other = api_server.shop(), shop
        leading = forms(shop)
        if indexed:
            assert api_server.run(indexing.index_merchant(api_server.app.db, shop.id)) == 2
        for name, (text, order_id) in leading.items():
            assert ids(shop, query=f" {text} ") == [order_id], name
            assert exported(shop, query=text) == [order_id], name
            assert ids(shop, query=text, status="PENDING") == [], name
            if name not in {"e-mail", "beginning of it", "metadata", "refundNo", "number in it"}:
                assert ids(other, query=text) == [], name
        both = sorted({order_id for _, order_id in leading.values()})
        assert sorted(ids(shop, query="9.99")) == both
        assert ids(shop, query=other.id) == ids(shop, query="nobody") == []


def test_an_epay_order_is_found_by_its_numbers(api_server: ApiServer, inbox: Inbox) -> None:
    api_server.rate("CNY", "USD", Decimal("0.14"))
    shop = EpayShop(api_server, inbox)
    shop.place_order(out_trade_no="A-1")
    (row,) = api_server.sql("select order_id from epay_orders where merchant_id = $1", shop.id)
    number = row["order_id"].replace("_", "")
    for text in ("A-1", number, row["order_id"]):
        assert ids(shop.shop, query=text) == [row["order_id"]], text


def test_filters_find_exactly_what_they_say(shop: Shop) -> None:
    tea = shop.product(price="42.00")["id"]
    one = shop.order(tea, customerEmail=EMAIL, metadata={"plan": "Pro", "n": "42"})["id"]
    two = shop.order(tea, customerEmail="bob@example.com", metadata={"plan": "pro", "n": "42.0"})[
        "id"
    ]
    cases: tuple[tuple[dict[str, Any], list[str]], ...] = (
        ({"customerEmail": EMAIL.upper()}, [one]),
        ({"customerEmail": "ada.love@example.com"}, []),
        ({"amount": "42"}, [two, one]),
        ({"amount": "042.00"}, [two, one]),
        ({"amount": "42.01"}, []),
        ({"metadata[plan]": "Pro"}, [one]),
        ({"metadata[plan]": "PRO"}, []),
        ({"metadata[n]": "42.0", "amount": "42"}, [two]),
        ({"metadata[n]": "42", "metadata[plan]": "pro"}, []),
        ({"query": "PRO"}, [two, one]),
        ({"query": "42", "productId": tea, "status": "PENDING"}, [two, one]),
        ({"query": tea, "customerEmail": EMAIL}, [one]),
        ({"query": "42", "startDate": 2**45}, []),
        ({"query": "  "}, [two, one]),
    )
    for query, wanted in cases:
        assert ids(shop, **query) == wanted, query
        assert exported(shop, **query) == wanted[::-1], query


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
def test_what_cannot_be_searched_is_refused(shop: Shop, query: dict[str, Any], field: str) -> None:
    for path in ("/v1/orders", "/v1/orders/export"):
        refused(shop.get(path, **query), field)


# ── lists of sessions ──────────────────────────────────────────────────────────────────────────


def test_sessions_are_listed_and_filtered(shop: Shop, clock: Callable[[int], None]) -> None:
    one, two = shop.product()["id"], shop.product()["id"]
    made = []
    for n, product in enumerate((one, two, one, two, one, one)):
        clock(NOW + n * 1000)
        made.append(shop.session(product, customerEmail=f"c{n % 2}@example.com")["id"])
    orders = [shop.data("GET", f"/v1/checkouts/{each}")["orderId"] for each in made]
    shop.confirm(orders[0])
    shop.revoke(orders[1])
    for n in (2, 3):
        shop.data("POST", f"/v1/checkouts/{made[n]}/expire")
    shop.confirm(orders[2])  # late: its session stays EXPIRED

    def found(**query: Any) -> list[int]:
        data = shop.data("GET", "/v1/checkouts", params=query)
        whole = len(data["items"]) if "size" not in query else data["pagination"]["total"]
        assert data["pagination"]["total"] == whole
        for item in data["items"]:
            assert item == shop.data("GET", f"/v1/checkouts/{item['id']}")
        return [made.index(item["id"]) for item in data["items"]]

    rows: tuple[tuple[dict[str, Any], list[int]], ...] = (
        ({}, [5, 4, 3, 2, 1, 0]),
        ({"status": "OPEN"}, [5, 4]),
        ({"status": "COMPLETE"}, [0]),
        ({"status": "EXPIRED"}, [3, 2, 1]),
        ({"productId": one}, [5, 4, 2, 0]),
        ({"productId": one, "status": "EXPIRED"}, [2]),
        ({"productId": two, "status": "EXPIRED"}, [3, 1]),
        ({"startDate": NOW + 2000, "status": "EXPIRED"}, [3, 2]),
        ({"endDate": NOW + 1000}, [1, 0]),
        ({"size": 2, "page": 2}, [3, 2]),
        ({"size": 2, "page": 2, "status": "EXPIRED"}, [1]),
        ({"customerEmail": "C1@example.com"}, [5, 3, 1]),
        ({"customerEmail": "c0@example.com", "status": "EXPIRED"}, [2]),
        ({"customerEmail": "c1@example.com", "productId": two, "endDate": NOW + 2000}, [1]),
        ({"productId": "prod_01m7y0m0jzefzv5n8efcf1hqw1"}, []),
    )
    for query, wanted in rows:
        assert found(**query) == wanted, query
    refused(shop.get("/v1/checkouts", status="open"), "status")
    refused(shop.get("/v1/checkouts", customerEmail="x"), "customerEmail")
    refused(shop.get("/v1/checkouts", endDate=1, startDate=2), "endDate")
