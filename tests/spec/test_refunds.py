"""Paid orders are refunded (contract.md#refunds, contract.md#refund-transitions)."""

from decimal import Decimal
from typing import Any, Final

import pytest

from support.api_server import ApiServer, Shop, assert_refused


def _path(order: dict[str, Any]) -> str:
    return f"/v1/orders/{order['id']}/refunds"


def test_a_refund_without_a_body_is_for_the_whole_remaining_amount(shop: Shop) -> None:
    order = shop.create_paid_order()
    shop.refund(order["id"], amount="0.99")
    response = shop.post(_path(order))
    assert response.status_code == 201
    refund = response.json()["data"]
    assert refund["amount"] == "9.00"
    assert refund["status"] == "PROCESSING"
    assert refund["merchantId"] == shop.id
    assert refund["orderId"] == order["id"]
    assert refund["currency"] == "USD"
    assert refund["reason"] == ""
    for field in ("refundNo", "errorMessage", "succeededAt", "failedAt"):
        assert refund[field] is None


VALID_BODIES: Final[tuple[tuple[dict[str, Any], dict[str, Any]], ...]] = (
    ({}, {"amount": "9.99"}),
    ({"amount": None}, {"amount": "9.99"}),
    ({"amount": "0.01"}, {"amount": "0.01"}),
    ({"amount": "5"}, {"amount": "5.00"}),
    ({"amount": "9.99"}, {"amount": "9.99"}),
    ({"amount": "0009.9"}, {"amount": "9.90"}),
    ({"reason": None}, {"reason": ""}),
    ({"reason": "r" * 255}, {"reason": "r" * 255}),
    ({"refundNo": "n"}, {"refundNo": "n"}),
    ({"refundNo": "n" * 64}, {"refundNo": "n" * 64}),
    ({"unknown": 1}, {}),
)
INVALID_FIELDS: Final[tuple[tuple[str, Any], ...]] = (
    ("amount", "0"),
    ("amount", "0.00"),
    ("amount", "10.00"),
    ("amount", "9.995"),
    ("amount", "-1"),
    ("amount", "1\n"),
    ("amount", ""),
    ("amount", " 1"),
    ("amount", "1e1"),
    ("amount", "9" * 15),
    ("amount", "9" * 16),
    ("amount", "٣"),
    ("amount", 1),
    ("amount", 1.5),
    ("reason", "r" * 256),
    ("reason", 1),
    ("refundNo", ""),
    ("refundNo", "n" * 65),
    ("refundNo", 1),
)


@pytest.mark.parametrize(("body", "expected"), VALID_BODIES)
def test_a_valid_body_creates_a_refund(
    shop: Shop, body: dict[str, Any], expected: dict[str, Any]
) -> None:
    refund = shop.refund(shop.create_paid_order()["id"], **body)
    assert refund | expected == refund
    assert shop.data("GET", f"/v1/refunds/{refund['id']}") == refund


@pytest.mark.parametrize(("field", "value"), INVALID_FIELDS)
def test_a_refund_with_an_invalid_field_is_refused(shop: Shop, field: str, value: Any) -> None:
    order = shop.create_paid_order()
    assert field in assert_refused(shop.post(_path(order), {field: value}), field)
    assert shop.data("GET", _path(order))["items"] == []
    assert shop.data("GET", "/v1/balance")["frozen"] == "0.00"


def _create_pending_order(shop: Shop) -> dict[str, Any]:
    return shop.create_order()


def _create_closed_order(shop: Shop) -> dict[str, Any]:
    order = shop.create_order()
    shop.post(f"/v1/checkouts/{order['checkoutSessionId']}/expire")
    return order


def _create_revoked_order(shop: Shop) -> dict[str, Any]:
    order = shop.create_order()
    shop.revoke(order["id"])
    return order


def _create_refunded_order(shop: Shop) -> dict[str, Any]:
    order = shop.create_paid_order()
    shop.report_refund(shop.refund(order["id"])["id"])
    return order


@pytest.mark.parametrize(
    ("create_order", "status"),
    [
        (_create_pending_order, "PENDING"),
        (_create_closed_order, "CLOSED"),
        (_create_revoked_order, "REVOKED"),
        (_create_refunded_order, "REFUNDED"),
    ],
)
def test_only_a_paid_order_can_be_refunded(shop: Shop, create_order: Any, status: str) -> None:
    order = create_order(shop)
    assert shop.read_order(order["id"])["status"] == status
    assert status in assert_refused(shop.post(_path(order), {}), "orderId")


def test_an_order_with_a_full_refund_in_progress_cannot_be_refunded_again(shop: Shop) -> None:
    order = shop.create_paid_order()
    shop.refund(order["id"])
    assert_refused(shop.post(_path(order), {}), "amount")
    assert_refused(shop.post(_path(order), {"amount": "0.01"}), "amount")
    assert shop.read_order(order["id"])["refundStatus"] == "NONE"  # no refund has succeeded


def test_partial_refunds_add_up_to_a_full_refund(shop: Shop) -> None:
    order = shop.create_paid_order()
    refunds = (("2.00", "PARTIAL", "2.00", "PAID"), ("7.99", "FULL", "9.99", "REFUNDED"))
    for amount, refund_status, refunded, status in refunds:
        shop.report_refund(shop.refund(order["id"], amount=amount)["id"])
        order = shop.read_order(order["id"])
        assert (order["refundStatus"], order["refundedAmount"], order["status"]) == (
            refund_status,
            refunded,
            status,
        )


def test_a_failed_refund_restores_balance_and_order(shop: Shop) -> None:
    order = shop.create_paid_order()
    before = shop.data("GET", "/v1/balance")
    refund = shop.refund(order["id"], amount="3.00")
    balance_during_refund = shop.data("GET", "/v1/balance")
    assert (balance_during_refund["pending"], balance_during_refund["frozen"]) == ("6.59", "3.00")
    shop.report_refund(refund["id"], "REFUSED", "account closed")
    failed = shop.data("GET", f"/v1/refunds/{refund['id']}")
    assert (failed["status"], failed["errorMessage"]) == ("FAILED", "account closed")
    assert failed["failedAt"]
    assert failed["succeededAt"] is None
    after = shop.data("GET", "/v1/balance")
    assert after | {"updatedAt": 0} == before | {"updatedAt": 0}
    # A late report of success has no effect.
    shop.report_refund(refund["id"])
    assert shop.data("GET", f"/v1/refunds/{refund['id']}") == failed
    assert shop.refund(order["id"])["amount"] == "9.99"


def test_a_succeeded_refund_has_its_time(shop: Shop) -> None:
    refund = shop.refund(shop.create_paid_order()["id"], amount="3.00")
    shop.report_refund(refund["id"])
    succeeded = shop.data("GET", f"/v1/refunds/{refund['id']}")
    assert succeeded["status"] == "SUCCEEDED"
    assert succeeded["succeededAt"] >= succeeded["createdAt"]
    assert succeeded["failedAt"] is None


def test_an_equal_refund_with_the_same_number_returns_the_first(shop: Shop) -> None:
    order = shop.create_paid_order()
    refund = shop.refund(order["id"], amount="2.00", refundNo="RMA-7")
    assert shop.refund(order["id"], amount="2", refundNo="RMA-7") == refund
    assert shop.refund(order["id"], refundNo="RMA-7") == refund
    shop.report_refund(refund["id"])
    assert shop.refund(order["id"], amount="2.00", refundNo="RMA-7")["status"] == "SUCCEEDED"
    assert shop.data("GET", _path(order))["pagination"]["total"] == 1


def test_another_refund_with_the_same_number_is_refused(shop: Shop, api_server: ApiServer) -> None:
    order, other_order = shop.create_paid_order(), shop.create_paid_order()
    shop.refund(order["id"], amount="2.00", refundNo="RMA-7")
    assert_refused(shop.post(_path(order), {"amount": "3.00", "refundNo": "RMA-7"}), "refundNo")
    assert_refused(
        shop.post(_path(other_order), {"amount": "2.00", "refundNo": "RMA-7"}), "refundNo"
    )
    other_shop = api_server.create_shop()
    assert (
        other_shop.refund(other_shop.create_paid_order()["id"], refundNo="RMA-7")["refundNo"]
        == "RMA-7"
    )


# Each row: fee policy, amounts of the partial refunds, the merchant's debit for each.
POLICIES: Final = (
    ("KEPT", ("9.99",), ("9.99",)),
    ("KEPT", ("3.33", "3.33", "3.33"), ("3.33", "3.33", "3.33")),
    ("RETURNED", ("9.99",), ("9.59",)),
    ("RETURNED", ("3.33", "3.33", "3.33"), ("3.20", "3.19", "3.20")),
    ("RETURNED", ("0.01",) * 3, ("0.01", "0.01", "0.01")),
)


@pytest.mark.parametrize(("policy", "amounts", "debits"), POLICIES)
def test_the_fee_is_kept_or_returned_in_proportion(
    api_server: ApiServer, policy: str, amounts: tuple[str, ...], debits: tuple[str, ...]
) -> None:
    shop = api_server.create_shop(refund_fee_policy=policy)
    order = shop.create_paid_order()
    partial_refunds = [shop.refund(order["id"], amount=amount) for amount in amounts]
    assert [refund["merchantDebitUsd"] for refund in partial_refunds] == list(debits)
    assert [refund["userRefundAmountUsd"] for refund in partial_refunds] == list(amounts)


def test_amounts_in_usd_use_the_rates_of_the_order(api_server: ApiServer) -> None:
    api_server.set_rate("EUR", "USD", Decimal("1.1"))
    api_server.set_rate("EUR", "CNY", Decimal("7.7"))
    shop = api_server.create_shop(settlement_currency="CNY")
    order = shop.create_paid_order(shop.create_product(currency="EUR", price="10.00")["id"])
    refund = shop.refund(order["id"], amount="2.00")
    assert refund["currency"] == "EUR"
    assert refund["userRefundAmountUsd"] == refund["merchantDebitUsd"] == "2.20"
    assert shop.data("GET", "/v1/balance")["frozen"] == "15.40"


@pytest.mark.parametrize(
    ("overdraft", "amount", "is_accepted"),
    [(0, "9.59", True), (0, "9.60", False), (39, "9.99", False), (40, "9.99", True)],
)
def test_the_balance_goes_below_zero_down_to_the_overdraft_limit(
    api_server: ApiServer, overdraft: int, amount: str, is_accepted: bool
) -> None:
    shop = api_server.create_shop(overdraft_minor=overdraft)
    order = shop.create_paid_order()
    response = shop.post(_path(order), {"amount": amount})
    if is_accepted:
        assert response.status_code == 201
    else:
        assert_refused(response, "amount")
        assert shop.data("GET", _path(order))["items"] == []
        assert shop.data("GET", "/v1/balance")["pending"] == "9.59"


@pytest.mark.parametrize("order_id", ["order_01m7y0m0jzefzv5n8efcf1hqw2", "x", "%00"])
def test_refunds_of_an_unknown_order_are_not_found(shop: Shop, order_id: str) -> None:
    for method in ("GET", "POST"):
        body = {"json": {}} if method == "POST" else {}
        response = shop.call(method, f"/v1/orders/{order_id}/refunds", **body)
        assert (response.status_code, response.json()) == (
            404,
            {"code": 40401, "message": "Not Found"},
        )


def test_an_unknown_refund_is_not_found(shop: Shop) -> None:
    assert shop.get("/v1/refunds/re_01m7y0m0jzefzv5n8efcf1hqw3").status_code == 404
    assert shop.get(f"/v1/refunds/{shop.create_paid_order()['id']}").status_code == 404
