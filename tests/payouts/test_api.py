"""A merchant reads its own payouts by the API."""

from typing import Any

import pytest

from opentill import adjustments, payouts
from opentill.payouts import PayoutRequest
from support.api_server import ApiServer, Shop, assert_refused, error_of
from support.world import new_reference

NOW = 1_750_000_000_000


def _create_payout(shop: Shop, amount: int, event: str | None = None) -> str:
    """Create a payout, which ``event`` may end, and return its id."""
    request = PayoutRequest(
        amount_minor=amount, fee_minor=150, reference=new_reference(), reason="weekly", by="ann"
    )
    payout_id = shop.api_server.tx(lambda tx: payouts.create(tx, shop.id, request, None, NOW)).id
    if event == "paid":
        shop.api_server.tx(lambda tx: payouts.pay(tx, payout_id, "TRN-1", "sent", "ann", NOW + 1))
    elif event == "failed":
        shop.api_server.tx(lambda tx: payouts.fail(tx, payout_id, "account closed", "ann", NOW + 1))
    return payout_id


@pytest.fixture
def shop(api_server: ApiServer) -> Shop:
    """A merchant with 100.00 available."""
    shop = api_server.create_shop()
    recharge = adjustments.AdjustmentRequest(
        kind="recharge", amount_minor=10_000, reference=new_reference(), reason="start", by="ann"
    )
    api_server.tx(lambda tx: adjustments.request(tx, shop.id, recharge, None, NOW))
    return shop


ENDS: tuple[tuple[str | None, dict[str, Any]], ...] = (
    (None, {"status": "PENDING", "updatedAt": NOW}),
    ("paid", {"status": "PAID", "bankReference": "TRN-1", "paidAt": NOW + 1}),
    ("failed", {"status": "FAILED", "failureReason": "account closed", "failedAt": NOW + 1}),
)


@pytest.mark.parametrize(("event", "fields"), ENDS)
def test_a_payout_has_the_fields_of_its_status(shop: Shop, event, fields) -> None:
    payout_id = _create_payout(shop, 2_500, event)
    assert shop.data("GET", f"/v1/payouts/{payout_id}") == {
        "id": payout_id,
        "amount": "25.00",
        "fee": "1.50",
        "currency": "USD",
        "bankReference": None,
        "failureReason": None,
        "createdAt": NOW,
        "updatedAt": NOW + 1,
        "paidAt": None,
        "failedAt": None,
        **fields,
    }


def test_lists_are_newest_first_by_page_and_status(shop: Shop) -> None:
    ids = [_create_payout(shop, 100 + n, "paid" if n % 2 else None) for n in range(5)]
    page = shop.data("GET", "/v1/payouts", params={"size": 2})
    assert [item["id"] for item in page["items"]] == [ids[4], ids[3]]
    assert page["pagination"] == {"page": 1, "size": 2, "total": 5, "totalPages": 3}
    last_page = shop.data("GET", "/v1/payouts", params={"size": 2, "page": 3})
    assert [item["id"] for item in last_page["items"]] == [ids[0]]
    paid = shop.data("GET", "/v1/payouts", params={"status": "PAID"})
    assert [item["id"] for item in paid["items"]] == [ids[3], ids[1]]
    assert paid["pagination"]["total"] == 2
    assert shop.data("GET", "/v1/payouts", params={"status": "FAILED"})["items"] == []


def test_an_unknown_status_is_refused(shop: Shop) -> None:
    assert "PENDING, PAID or FAILED" in assert_refused(
        shop.get("/v1/payouts", status="paid"), "status"
    )


def test_another_merchants_payouts_are_not_found(shop: Shop, api_server: ApiServer) -> None:
    payout_id = _create_payout(shop, 100)
    other_shop = api_server.create_shop()
    response = other_shop.get(f"/v1/payouts/{payout_id}")
    assert (response.status_code, error_of(response)["code"]) == (404, 40401)
    assert other_shop.data("GET", "/v1/payouts")["items"] == []


def test_payouts_require_an_api_key(shop: Shop) -> None:
    for path in ("/v1/payouts", f"/v1/payouts/{_create_payout(shop, 100)}"):
        response = shop.call("GET", path, headers={"x-api-key": None})
        assert response.status_code == 401
        assert response.json() == {"code": 401, "message": "Unauthorized"}


def test_balance_transactions_name_their_payout(shop: Shop) -> None:
    payout_id = _create_payout(shop, 2_500, "failed")
    transactions = shop.data("GET", "/v1/balance/transactions")["items"]
    rows = [(item["type"], item["amount"], item["availableAfter"]) for item in transactions[:4]]
    assert rows == [
        ("BALANCE_CORRECTION", "1.50", "100.00"),
        ("PAYOUT", "25.00", "98.50"),
        ("FEE", "-1.50", "73.50"),
        ("PAYOUT", "-25.00", "75.00"),
    ]
    assert {(item["sourceType"], item["sourceId"]) for item in transactions[:4]} == {
        ("payout", payout_id)
    }
