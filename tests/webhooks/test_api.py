"""Webhook endpoints, events and deliveries are managed by the API."""

from typing import Any

import pytest

from opentill.webhooks.service import MAX_ENDPOINTS
from support.api_server import ApiServer, Shop, assert_refused

DAY = 86_400_000

INVALID_ENDPOINTS: Any = (
    ({}, "url"),
    ({"url": "http://shop.example.com/"}, "url"),
    ({"url": "https://127.0.0.1/"}, "url"),
    ({"url": "https://[::1]/"}, "url"),
    ({"url": "https://169.254.169.254/latest"}, "url"),
    ({"url": "https://me:secret@shop.example.com/"}, "url"),
    ({"url": "ftp://shop.example.com/"}, "url"),
    ({"url": "https://shop.example.com/#part"}, "url"),
    ({"url": "https://shop.example.com/", "events": ["order.lost"]}, "events"),
    ({"url": "https://shop.example.com/", "events": "order.paid"}, "events"),
    ({"url": "https://shop.example.com/", "description": "x" * 256}, "description"),
)


@pytest.mark.parametrize(("body", "field"), INVALID_ENDPOINTS)
def test_an_invalid_endpoint_is_refused_with_its_field(shop: Shop, body: Any, field: str) -> None:
    assert_refused(shop.post("/v1/webhook-endpoints", body), field)
    endpoint = shop.create_endpoint()
    if body:
        assert_refused(
            shop.call("PATCH", f"/v1/webhook-endpoints/{endpoint['id']}", json=body),
            field,
        )


def test_a_refused_type_names_the_valid_types(shop: Shop) -> None:
    body = {"url": "https://shop.example.com/", "events": ["order.lost"]}
    assert "order.paid" in assert_refused(shop.post("/v1/webhook-endpoints", body), "events")


def test_a_merchant_has_at_most_16_endpoints(api_server: ApiServer) -> None:
    shop = api_server.create_shop()
    for _ in range(MAX_ENDPOINTS):
        endpoint = shop.create_endpoint()
    body = {"url": "https://shop.example.com/"}
    assert "16" in assert_refused(shop.post("/v1/webhook-endpoints", body), "url")
    assert shop.call("DELETE", f"/v1/webhook-endpoints/{endpoint['id']}").status_code == 200
    shop.create_endpoint()


def test_an_endpoint_is_created_changed_and_deleted(shop: Shop) -> None:
    endpoint = shop.create_endpoint(
        events=["order.refunded", "order.paid", "order.paid"], description=" x "
    )
    assert endpoint["events"] == ["order.paid", "order.refunded"]
    assert (endpoint["description"], endpoint["status"]) == ("x", "ENABLED")
    assert endpoint["secret"].startswith("whsec_")
    path = f"/v1/webhook-endpoints/{endpoint['id']}"
    retrieved = shop.data("GET", path)
    assert retrieved == {name: endpoint[name] for name in endpoint if name != "secret"}
    disabled = shop.data("PATCH", path, json={"status": "DISABLED"})
    assert (disabled["status"], disabled["disabledReason"]) == ("DISABLED", "switched off")
    assert disabled["events"] == endpoint["events"]
    enabled = shop.data("PATCH", path, json={"status": "ENABLED", "events": []})
    assert (enabled["disabledReason"], enabled["events"]) == (None, [])
    rotated = shop.data("POST", f"{path}/rotate-secret")
    assert rotated["secret"] not in (endpoint["secret"], "")
    assert rotated["oldSecretUntil"] - rotated["updatedAt"] == DAY
    assert shop.call("DELETE", path).json() == {"code": 0, "message": "success"}
    for method, suffix in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/deliveries")):
        body = {} if method == "PATCH" else None
        assert shop.call(method, path + suffix, json=body).status_code == 404
    assert endpoint["id"] not in shop.get("/v1/webhook-endpoints").text


def test_a_secret_is_replayed_under_its_idempotency_key_and_stored_encrypted(shop: Shop) -> None:
    body = {"url": "https://shop.example.com/"}
    original = shop.post("/v1/webhook-endpoints", body, key="one")
    replayed = shop.post("/v1/webhook-endpoints", body, key="one")
    assert original.content == replayed.content
    assert replayed.headers["idempotent-replayed"] == "true"
    secret = original.json()["data"]["secret"].encode()
    rows = shop.api_server.sql("select body from idempotency_keys where merchant_id = $1", shop.id)
    assert rows
    assert all(secret not in row["body"] for row in rows)
    rows = shop.api_server.sql(
        "select secret from webhook_endpoints where merchant_id = $1", shop.id
    )
    assert all(secret not in row["secret"] for row in rows)


def test_deliveries_are_listed_and_filtered(shop: Shop) -> None:
    endpoint = shop.create_endpoint(events=["order.paid", "order.closed"])["id"]
    path = f"/v1/webhook-endpoints/{endpoint}/deliveries"
    shop.create_paid_order()
    shop.revoke(shop.create_order()["id"])
    items = shop.data("GET", path)["items"]
    assert [item["type"] for item in items] == ["order.closed", "order.paid"]
    assert {item["status"] for item in items} == {"PENDING"}
    page = shop.data("GET", path, params={"type": "order.paid", "status": "PENDING"})
    assert page["items"] == items[1:]
    assert page["pagination"]["total"] == 1
    assert shop.data("GET", path, params={"eventId": items[0]["eventId"]})["items"] == items[:1]
    assert shop.data("GET", path, params={"status": "FAILED"})["items"] == []
    assert_refused(shop.get(path, status="LOST"), "status")
    assert shop.data("GET", path, params={"eventId": "evt_x"})["items"] == []


def test_each_endpoint_lists_and_counts_its_own_deliveries(shop: Shop) -> None:
    counts = {(): 3, ("order.paid",): 2, ("order.closed",): 1}
    paths = {
        types: f"/v1/webhook-endpoints/{shop.create_endpoint(events=list(types))['id']}/deliveries"
        for types in counts
    }
    shop.create_paid_order()
    shop.create_paid_order()
    shop.revoke(shop.create_order()["id"])
    for types, path in paths.items():
        expected_types = [*types] or ["order.paid", "order.closed"]
        pages = [shop.data("GET", path, params={"type": type_}) for type_ in expected_types]
        assert sum(page["pagination"]["total"] for page in pages) == counts[types]
        assert sum(len(page["items"]) for page in pages) == counts[types]


def test_one_event_or_a_range_of_events_can_be_resent(shop: Shop) -> None:
    orders = [shop.create_paid_order() for _ in range(3)]
    # The endpoint is created after the events.
    endpoint = shop.create_endpoint(events=["order.paid"])["id"]
    path = f"/v1/webhook-endpoints/{endpoint}"
    events = shop.data("GET", "/v1/events", params={"type": "order.paid"})["items"]
    assert [event["data"]["order_id"] for event in events] == [order["id"] for order in orders]
    assert shop.data("POST", f"{path}/resend", json={"eventId": events[1]["id"]}) == {
        "resent": 1,
        "next": None,
    }
    (delivery,) = shop.data("GET", f"{path}/deliveries")["items"]
    assert (delivery["eventId"], delivery["status"]) == (events[1]["id"], "PENDING")
    since = events[0]["created_at"]
    result = shop.data("POST", f"{path}/resend", json={"since": since, "failedOnly": True})
    assert result["resent"] == 0
    later_events = {"since": since, "after": events[1]["id"]}
    assert shop.data("POST", f"{path}/resend", json=later_events)["resent"] == 1
    assert shop.data("POST", f"{path}/resend", json={"since": since})["resent"] == 3
    assert shop.data("GET", f"{path}/deliveries")["pagination"]["total"] == 3
    assert_refused(shop.post(f"{path}/resend", {}), "since")
    assert_refused(shop.post(f"{path}/resend", {"eventId": "evt_0"}), "eventId")
    shop.data("PATCH", path, json={"status": "DISABLED"})
    assert_refused(shop.post(f"{path}/resend", {"since": since}), "id")


def test_events_are_read_with_a_cursor(api_server: ApiServer) -> None:
    shop = api_server.create_shop()
    shop.create_paid_order()
    page = shop.data("GET", "/v1/events", params={"size": 1})
    assert [item["type"] for item in page["items"]] == ["order.paid"]
    assert page["hasMore"] is True
    last_page = shop.data("GET", "/v1/events", params={"cursor": page["cursor"]})
    assert [item["type"] for item in last_page["items"]] == ["checkout.completed"]
    assert last_page["hasMore"] is False
    assert shop.data("GET", "/v1/events", params={"cursor": last_page["cursor"]})["items"] == []
    event = last_page["items"][0]
    assert shop.data("GET", f"/v1/events/{event['id']}") == event
    latest = {"items": [], "cursor": last_page["cursor"], "hasMore": False}
    assert shop.data("GET", "/v1/events", params={"cursor": "latest"}) == latest
    hook = shop.create_endpoint(url="https://shop.example.com/")["id"]
    shop.data("POST", f"/v1/webhook-endpoints/{hook}/resend", json={"eventId": event["id"]})
    resent = {"cursor": last_page["cursor"], "resent": "true"}
    assert shop.data("GET", "/v1/events", params=resent)["items"] == [event]
    for cursor in ("x", "-1", "01", "9" * 18, "9" * 19):
        assert_refused(shop.get("/v1/events", cursor=cursor), "cursor")


def test_an_order_emits_the_events_of_the_contract(api_server: ApiServer) -> None:
    shop = api_server.create_shop()
    metadata = {"cart": "17", "n": {"deep": [1, 2.5]}}
    order = shop.create_paid_order(metadata=metadata, customerEmail="ada@example.com")
    refund = shop.refund(order["id"], amount="4.00", reason="broken")
    shop.report_refund(refund["id"])
    failed_refund = shop.refund(order["id"], amount="1.00")
    shop.report_refund(failed_refund["id"], "REFUSED", "account closed")
    last_refund = shop.refund(order["id"])
    shop.report_refund(last_refund["id"])
    revoked_order = shop.create_order(metadata=metadata)
    shop.revoke(revoked_order["id"])
    items = shop.data("GET", "/v1/events", params={"size": 100})["items"]
    events = [(item["type"], item["data"]) for item in items]
    assert all(set(item) == {"id", "type", "created_at", "data"} for item in items)
    order_ids = {"order_id": order["id"], "product_id": order["productId"]}
    session = {"checkout_session_id": order["checkoutSessionId"], **order_ids}
    money = {"amount": "9.99", "currency": "USD"}
    paid_at = order["paidAt"]
    refund_fields = {"original_amount": "9.99", "currency": "USD", "metadata": metadata}
    assert events[:5] == [
        (
            "order.paid",
            order_ids
            | {"customer_email": "ada@example.com", **money, "net_amount": "9.59"}
            | {"paid_at": paid_at, "metadata": metadata},
        ),
        ("checkout.completed", session | money | {"completed_at": paid_at, "metadata": metadata}),
        (
            "order.refunded",
            {"refund_id": refund["id"], "refund_status": "PARTIAL", **order_ids}
            | {"amount": "4.00", "refunded_amount": "4.00", "reason": "broken", "source": "REQUEST"}
            | refund_fields,
        ),
        (
            "refund.failed",
            {"refund_id": failed_refund["id"], "amount": "1.00", **order_ids}
            | {"currency": "USD", "reason": "", "error_message": "account closed"}
            | {"reversed": False}
            | {"metadata": metadata},
        ),
        (
            "order.refunded",
            {"refund_id": last_refund["id"], "refund_status": "FULL", **order_ids}
            | {"amount": "5.99", "refunded_amount": "9.99", "reason": "", "source": "REQUEST"}
            | refund_fields,
        ),
    ]
    assert [type_ for type_, _ in events[5:]] == ["order.closed", "checkout.expired"]
    closed = events[5][1]
    assert closed == {
        "order_id": revoked_order["id"],
        "product_id": revoked_order["productId"],
        **money,
        "status": "REVOKED",
        "reason": "fraud",  # the event does not contain the operator's name
        "closed_at": items[5]["created_at"],
        "metadata": metadata,
    }


def test_every_event_type_is_emitted_by_a_transition() -> None:
    from opentill import orders
    from opentill.disputes.model import TRANSITIONS as DISPUTES
    from opentill.payouts.model import TRANSITIONS as PAYOUTS
    from opentill.refunds.model import EMITS
    from opentill.webhooks import TYPES

    emitted = {type_ for row in orders.TRANSITIONS for type_ in row.emits} | set(EMITS.values())
    emitted |= {row.emits for row in DISPUTES} | {row.emits for row in PAYOUTS if row.emits}
    assert emitted == set(TYPES)


def test_the_metrics_contain_number_and_age_of_pending_deliveries(shop: Shop) -> None:
    from opentill import health

    shop.create_endpoint()
    shop.create_paid_order()
    app = shop.api_server.app
    readings = shop.api_server.run(health.readings(app.db, app.clock))
    values = {reading.name: value for reading in readings for _, value in reading.samples}
    assert values["opentill_webhook_deliveries_waiting"] >= 2
    assert values["opentill_webhook_queue_age_seconds"] >= 0


def test_an_international_host_is_stored_in_ascii(shop: Shop) -> None:
    endpoint = shop.create_endpoint(url="https://fa\u00df.de/hook")
    assert endpoint["url"] == "https://xn--fa-hia.de/hook"
    path = f"/v1/webhook-endpoints/{endpoint['id']}"
    body = {"url": "https://\uff11\uff12\uff17.0.0.1/hook"}
    assert "127.0.0.1" in assert_refused(shop.call("PATCH", path, json=body), "url")
