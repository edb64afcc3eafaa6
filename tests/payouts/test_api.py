"""``/v1/payouts``: what a merchant sees of its payouts, and of nobody else's."""

from typing import Any

import pytest

from opentill import adjustments, payouts
from opentill.payouts import PayoutRequest
from support.api_server import ApiServer, Shop, error_of, refused
from support.world import fresh

NOW = 1_750_000_000_000


def _payout(shop: Shop, amount: int, event: str | None = None) -> str:
    """Create a payout of a merchant, and perhaps end it; its id."""
    wanted = PayoutRequest(
        amount_minor=amount, fee_minor=150, reference=fresh(), reason="weekly", by="ann"
    )
    made = shop.api_server.tx(lambda tx: payouts.create(tx, shop.id, wanted, None, NOW))
    if event == "paid":
        shop.api_server.tx(lambda tx: payouts.pay(tx, made.id, "TRN-1", "sent", "ann", NOW + 1))
    elif event == "failed":
        shop.api_server.tx(lambda tx: payouts.fail(tx, made.id, "account closed", "ann", NOW + 1))
    return made.id


@pytest.fixture
def shop(api_server: ApiServer) -> Shop:
    """A merchant with 100.00 available."""
    made = api_server.shop()
    asked = adjustments.AdjustmentRequest(
        kind="recharge", amount_minor=10_000, reference=fresh(), reason="start", by="ann"
    )
    api_server.tx(lambda tx: adjustments.request(tx, made.id, asked, None, NOW))
    return made


LIVES: tuple[tuple[str | None, dict[str, Any]], ...] = (
    (None, {"status": "PENDING", "updatedAt": NOW}),
    ("paid", {"status": "PAID", "bankReference": "TRN-1", "paidAt": NOW + 1}),
    ("failed", {"status": "FAILED", "failureReason": "account closed", "failedAt": NOW + 1}),
)


@pytest.mark.parametrize(("event", "shown"), LIVES)
def test_a_payout_is_shown(shop: Shop, event, shown) -> None:
    payout_id = _payout(shop, 2_500, event)
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
        **shown,
    }


def test_lists_are_newest_first_by_page_and_status(shop: Shop) -> None:
    ids = [_payout(shop, 100 + n, "paid" if n % 2 else None) for n in range(5)]
    listed = shop.data("GET", "/v1/payouts", params={"size": 2})
    assert [item["id"] for item in listed["items"]] == [ids[4], ids[3]]
    assert listed["pagination"] == {"page": 1, "size": 2, "total": 5, "totalPages": 3}
    last = shop.data("GET", "/v1/payouts", params={"size": 2, "page": 3})
    assert [item["id"] for item in last["items"]] == [ids[0]]
    paid = shop.data("GET", "/v1/payouts", params={"status": "PAID"})
    assert [item["id"] for item in paid["items"]] == [ids[3], ids[1]]
    assert paid["pagination"]["total"] == 2
    assert shop.data("GET", "/v1/payouts", params={"status": "FAILED"})["items"] == []


def test_an_unknown_status_is_refused(shop: Shop) -> None:
    assert "PENDING, PAID or FAILED" in refused(shop.get("/v1/payouts", status="paid"), "status")


def test_another_merchants_payouts_are_not_there(shop: Shop, api_server: ApiServer) -> None:
    payout_id = _payout(shop, 100)
    stranger = api_server.shop()
    answer = stranger.get(f"/v1/payouts/{payout_id}")
    assert (answer.status_code, error_of(answer)["code"]) == (404, 40401)
    assert stranger.data("GET", "/v1/payouts")["items"] == []


def test_no_payouts_without_a_key(shop: Shop) -> None:
    for path in ("/v1/payouts", f"/v1/payouts/{_payout(shop, 100)}"):
        answer = shop.call("GET", path, headers={"x-api-key": None})
        assert (answer.status_code, answer.json()) == (
            401,
            {"code": 401, "message": "Unauthorized"},
        )


def test_movements_are_listed_with_their_cause(shop: Shop) -> None:
    payout_id = _payout(shop, 2_500, "failed")
    listed = shop.data("GET", "/v1/balance/transactions")["items"]
    rows = [(item["type"], item["amount"], item["availableAfter"]) for item in listed[:4]]
    assert rows == [
        ("BALANCE_CORRECTION", "1.50", "100.00"),
        ("PAYOUT", "25.00", "98.50"),
        ("FEE", "-1.50", "73.50"),
        ("PAYOUT", "-25.00", "75.00"),
    ]
    assert {(item["sourceType"], item["sourceId"]) for item in listed[:4]} == {
        ("payout", payout_id)
    }
