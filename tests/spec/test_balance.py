"""The balance has transactions (contract.md#balance); lists have pages (contract.md#lists)."""

from decimal import Decimal
from typing import Any, get_args

import pytest

from opentill.ledger.postings import Type
from support.api_server import Shop, assert_refused


def test_a_payment_and_a_refund_are_listed_as_transactions(shop: Shop) -> None:
    order = shop.create_paid_order()
    refund = shop.refund(order["id"], amount="2.00")
    shop.report_refund(refund["id"])
    transactions = shop.data("GET", "/v1/balance/transactions")["items"]
    rows = [
        (
            transaction["type"],
            transaction["amount"],
            transaction["pendingAfter"],
            transaction["availableAfter"],
            transaction["frozenAfter"],
        )
        for transaction in transactions
    ]
    assert rows == [
        ("REFUND", "-2.00", "7.59", "0.00", "0.00"),
        ("FREEZE", "-2.00", "7.59", "0.00", "2.00"),
        ("FEE", "-0.40", "9.59", "0.00", "0.00"),
        ("PAYMENT", "9.99", "9.99", "0.00", "0.00"),
    ]
    sources = [(transaction["sourceType"], transaction["sourceId"]) for transaction in transactions]
    assert sources == [("refund", refund["id"])] * 2 + [("order", order["id"])] * 2
    balance = shop.data("GET", "/v1/balance")
    assert (balance["pending"], balance["available"], balance["frozen"]) == ("7.59", "0.00", "0.00")


def test_an_empty_balance_is_zero_in_the_settlement_currency(shop: Shop) -> None:
    assert shop.data("GET", "/v1/balance") == {
        "available": "0.00",
        "pending": "0.00",
        "frozen": "0.00",
        "currency": "USD",
        "updatedAt": None,
    }


def test_a_fee_of_zero_is_not_posted(api_server: Any) -> None:
    shop = api_server.create_shop(platform_fee_rate=Decimal(0))
    shop.create_paid_order()
    assert [
        transaction["type"] for transaction in shop.data("GET", "/v1/balance/transactions")["items"]
    ] == ["PAYMENT"]


# tests/test_contract.py compares the types with the contract.
@pytest.mark.parametrize("type_", get_args(Type))
def test_the_list_can_be_filtered_by_every_type(shop: Shop, type_: str) -> None:
    shop.create_paid_order()
    items = shop.data("GET", "/v1/balance/transactions", params={"type": type_})["items"]
    assert [item["type"] for item in items] == ([type_] if type_ in {"PAYMENT", "FEE"} else [])


# ── every list ──

LIST_PATHS = ("/v1/products", "/v1/orders", "/v1/orders/{id}/refunds", "/v1/balance/transactions")


def _fill_lists(shop: Shop) -> str:
    """Create at least three objects for each list; return the id of the order with refunds."""
    order = shop.create_paid_order()
    for _ in range(3):
        shop.refund(order["id"], amount="0.01")
    shop.create_order(shop.create_product()["id"])
    shop.create_order(shop.create_product()["id"])
    return str(order["id"])


@pytest.mark.parametrize("path", LIST_PATHS)
def test_every_list_has_pages(shop: Shop, path: str) -> None:
    path = path.replace("{id}", _fill_lists(shop))
    full_list = shop.data("GET", path)
    total = full_list["pagination"]["total"]
    assert full_list["pagination"] == {"page": 1, "size": 20, "total": total, "totalPages": 1}
    assert len(full_list["items"]) == total >= 3
    times = [item["createdAt"] for item in full_list["items"]]
    assert times == sorted(times, reverse=True)
    for page in (*range(1, total + 1), total + 1, 1_000_000, 2**53 - 1):
        data = shop.data("GET", path, params={"page": page, "size": 1})
        assert data["pagination"] == {"page": page, "size": 1, "total": total, "totalPages": total}
        assert data["items"] == full_list["items"][page - 1 : page]
    page_of_two = shop.data("GET", path, params={"size": 2})
    assert page_of_two["pagination"]["totalPages"] == -(-total // 2)
    assert page_of_two["items"] == full_list["items"][:2]
    assert len(shop.data("GET", path, params={"size": 100})["items"]) == total


@pytest.mark.parametrize("path", ["/v1/products", "/v1/orders", "/v1/balance/transactions"])
def test_an_empty_list_has_no_pages(shop: Shop, path: str) -> None:
    assert shop.data("GET", path) == {
        "items": [],
        "pagination": {"page": 1, "size": 20, "total": 0, "totalPages": 0},
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("page", "0"),
        ("page", "-1"),
        ("page", "1.0"),
        ("page", "1e1"),
        ("page", "x"),
        ("page", "+1"),
        ("page", " 1"),
        ("page", "１"),
        ("page", "null"),
        ("page", "9007199254740992"),
        ("page", "9" * 5000),
        ("size", "0"),
        ("size", "101"),
        ("size", "-5"),
        ("size", "abc"),
        ("size", "true"),
    ],
)
@pytest.mark.parametrize("path", LIST_PATHS)
def test_page_and_size_must_be_integers_in_range(
    shop: Shop, path: str, field: str, value: str
) -> None:
    path = path.replace("{id}", shop.create_order()["id"])
    assert_refused(shop.get(path, **{field: value}), field)


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/products", "status"),
        ("/v1/orders", "status"),
        ("/v1/balance/transactions", "type"),
    ],
)
@pytest.mark.parametrize("value", ["null", "NULL", "unknown", "active", "PAID,PENDING", "\0", "=1"])
def test_an_unknown_filter_value_is_refused(shop: Shop, path: str, field: str, value: str) -> None:
    assert_refused(shop.get(path, **{field: value}), field)
