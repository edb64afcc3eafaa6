"""``/v1/disputes`` shows merchants their own disputes only."""

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
    opened_at = now or shop.api_server.app.clock()
    dispute: disputes.Dispute = shop.api_server.tx(
        lambda tx: disputes.open_manually(
            tx, shop.id, order_id, who="ann", reason="letter", now=opened_at
        )
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


def test_a_dispute_is_returned_with_its_notes(shop: Shop, clock: Callable[[int], None]) -> None:
    order = shop.create_paid_order()
    clock(1_795_000_000_000)
    dispute = open_dispute(shop, order["id"])
    for text in ("Delivered", "Signed"):
        note = (shop.id, dispute.id, text, "ann", 1_795_000_000_001)
        shop.api_server.tx(lambda tx, note=note: disputes.add_note(tx, *note))
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


def test_the_list_is_newest_first_and_filtered_by_page_status_and_order(shop: Shop) -> None:
    order_ids = [shop.create_paid_order()["id"] for _ in range(3)]
    now = shop.api_server.app.clock()
    first_dispute, second_dispute, third_dispute = [
        open_dispute(shop, order_id, now + number) for number, order_id in enumerate(order_ids)
    ]
    decide(shop, first_dispute, "won")
    fourth_dispute = open_dispute(shop, order_ids[0], now + 9)
    decide(shop, second_dispute, "lost")

    def list_ids(**query: Any) -> list[str]:
        return [item["id"] for item in shop.get("/v1/disputes", **query).json()["data"]["items"]]

    assert list_ids() == [fourth_dispute.id, third_dispute.id, second_dispute.id, first_dispute.id]
    assert list_ids(page=2, size=3) == [first_dispute.id]
    assert list_ids(page=9) == []
    assert list_ids(status="OPEN") == [fourth_dispute.id, third_dispute.id]
    assert list_ids(status="RECOVERED") == []
    assert list_ids(orderId=order_ids[0]) == [fourth_dispute.id, first_dispute.id]
    assert list_ids(orderId=order_ids[0], status="WON") == [first_dispute.id]
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
    other_shop = api_server.create_shop()
    assert other_shop.get(f"/v1/disputes/{dispute.id}").status_code == 404
    assert other_shop.get("/v1/disputes/dp_01m7y0m0jzefzv5n8efcf1hqw5").status_code == 404
    assert other_shop.data("GET", "/v1/disputes")["items"] == []
    assert other_shop.data("GET", f"/v1/disputes?orderId={order['id']}")["items"] == []
    assert other_shop.call("GET", "/v1/disputes", headers={"x-api-key": None}).status_code == 401
    assert shop.post("/v1/disputes").status_code == 405
