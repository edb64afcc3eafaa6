"""``/v1/disputes``: merchants see their own disputes only."""

from collections.abc import Callable
from typing import Any

import pytest

from opentill import disputes
from support.api_server import ApiServer, Shop, assert_refused

FIELDS = {
    "id", "orderId", "status", "amount", "currency", "debit", "fee", "debitCurrency", "reason",
    "respondBy", "createdAt", "updatedAt", "closedAt",
}  # fmt: skip


def open_dispute(shop: Shop, order_id: str, now: int | None = None) -> disputes.Dispute:
    """Open a dispute as the operator."""
    at = now or shop.api_server.app.clock()
    dispute: disputes.Dispute = shop.api_server.tx(
        lambda tx: disputes.open_manually(tx, shop.id, order_id, who="ann", reason="letter", now=at)
    )
    return dispute


def decide(shop: Shop, dispute: disputes.Dispute, event: Any) -> None:
    """Decide a dispute as the operator."""
    now = shop.api_server.app.clock()
    shop.api_server.tx(
        lambda tx: disputes.decide(
            tx, shop.id, dispute.id, event, who="ann", reason="letter", now=now
        )
    )


def test_a_dispute_has_its_notes(shop: Shop, clock: Callable[[int], None]) -> None:
    order = shop.create_paid_order()
    clock(1_795_000_000_000)
    dispute = open_dispute(shop, order["id"])
    for text in ("Delivered", "Signed"):
        note = (shop.id, dispute.id, text, "ann", 1_795_000_000_001)
        shop.api_server.tx(lambda tx, n=note: disputes.add_note(tx, *n))
    assert shop.data("GET", f"/v1/disputes/{dispute.id}") == {
        "id": dispute.id, "orderId": order["id"], "status": "OPEN", "amount": "9.99",
        "currency": "USD", "debit": "9.99", "fee": "15.00", "debitCurrency": "USD",
        "reason": "letter", "respondBy": None, "createdAt": 1_795_000_000_000,
        "updatedAt": 1_795_000_000_001, "closedAt": None,
        "notes": [
            {"at": 1_795_000_000_001, "note": "Delivered"},
            {"at": 1_795_000_000_001, "note": "Signed"},
        ],
    }  # fmt: skip
    assert shop.read_order(order["id"])["status"] == "DISPUTED"


def test_lists_are_newest_first_by_page_status_and_order(shop: Shop) -> None:
    order_ids = [shop.create_paid_order()["id"] for _ in range(3)]
    now = shop.api_server.app.clock()
    first, second, third = [
        open_dispute(shop, order_id, now + n) for n, order_id in enumerate(order_ids)
    ]
    decide(shop, first, "won")
    again = open_dispute(shop, order_ids[0], now + 9)
    decide(shop, second, "lost")

    def ids(**query: Any) -> list[str]:
        return [item["id"] for item in shop.get("/v1/disputes", **query).json()["data"]["items"]]

    assert ids() == [again.id, third.id, second.id, first.id]
    assert ids(page=2, size=3) == [first.id]
    assert ids(page=9) == []
    assert ids(status="OPEN") == [again.id, third.id]
    assert ids(status="RECOVERED") == []
    assert ids(orderId=order_ids[0]) == [again.id, first.id]
    assert ids(orderId=order_ids[0], status="WON") == [first.id]
    page = shop.data("GET", "/v1/disputes?size=3")
    assert page["pagination"] == {"page": 1, "size": 3, "total": 4, "totalPages": 2}
    assert all(set(item) == FIELDS for item in page["items"])


@pytest.mark.parametrize(("query", "field"), [
    ({"status": "PAID"}, "status"), ({"order_id": "order_nobodys"}, "order_id"),
    ({"size": "0"}, "size"), ({"page": "x"}, "page"),
])  # fmt: skip
def test_an_invalid_list_query_is_refused(shop: Shop, query: dict[str, str], field: str) -> None:
    assert_refused(shop.get("/v1/disputes", **query), field)


def test_another_merchants_disputes_are_not_found(shop: Shop, api_server: ApiServer) -> None:
    order = shop.create_paid_order()
    dispute = open_dispute(shop, order["id"])
    other = api_server.create_shop()
    assert other.get(f"/v1/disputes/{dispute.id}").status_code == 404
    assert other.get("/v1/disputes/dp_01m7y0m0jzefzv5n8efcf1hqw5").status_code == 404
    assert other.data("GET", "/v1/disputes")["items"] == []
    assert other.data("GET", f"/v1/disputes?orderId={order['id']}")["items"] == []
    assert other.call("GET", "/v1/disputes", headers={"x-api-key": None}).status_code == 401
    assert shop.post("/v1/disputes").status_code == 405
