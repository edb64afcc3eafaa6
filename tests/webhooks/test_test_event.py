"""A test event is signed and sent like any other, to one endpoint, and is in no list of events."""

import msgspec
from standardwebhooks.webhooks import Webhook

from opentill import webhooks
from opentill.client import WebhookTest, verify_webhook
from support.api_server import Shop, assert_refused
from support.people import create_person
from support.webhook_harness import WebhookHarness, wait_until
from support.webhook_receiver import receiving


async def test_a_test_event_arrives_signed_at_its_endpoint_only(harness: WebhookHarness) -> None:
    async with receiving() as receiver, harness.dispatching():
        merchant_id = await harness.create_merchant()
        await harness.create_endpoint(merchant_id, f"{receiver.url}/all")
        endpoint, secret = await harness.create_endpoint(
            merchant_id, f"{receiver.url}/payouts", types=["payout.paid"]
        )
        now = harness.now()
        delivery = await harness.db.run(
            lambda tx: webhooks.send_test(tx, merchant_id, endpoint.id, now)
        )
        await harness.emit(merchant_id)  # this event is for the other endpoint
        await wait_until(lambda: len(receiver.accepted) == 2)
        (request,) = [row for row in receiver.accepted if row.event_id == delivery.event_id]
        assert request.path == "/payouts"
        assert Webhook(secret).verify(request.body, request.headers) == {
            "id": delivery.event_id,
            "type": "webhook.test",
            "created_at": now,
            "data": {
                "test": True,
                "endpoint_id": endpoint.id,
                "message": "This is a test of your webhook endpoint: nothing has happened.",
                "livemode": False,
            },
        }
        event = verify_webhook(request.body, request.headers, secret)
        assert isinstance(event, WebhookTest)
        assert event.data.endpoint_id == endpoint.id
        rows = await harness.rows("select type from events")
        assert rows == [{"type": "order.paid"}]
        assert len((await webhooks.read(harness.db, merchant_id, 0, None, 10)).events) == 1


async def test_a_test_event_is_attempted_once(harness: WebhookHarness) -> None:
    async with receiving(lambda _: 500) as receiver, harness.dispatching():
        merchant_id = await harness.create_merchant()
        endpoint, _ = await harness.create_endpoint(merchant_id, receiver.url)
        await harness.db.run(
            lambda tx: webhooks.send_test(tx, merchant_id, endpoint.id, harness.now())
        )

        async def has_failed() -> bool:
            return await harness.count_statuses() == {"FAILED": 1}

        await wait_until(has_failed, 20)
        (delivery,) = await harness.rows("select attempts, try_at from webhook_deliveries")
        assert delivery == {"attempts": 1, "try_at": None}
        assert len(receiver.received) == 1


def test_a_test_event_overtakes_what_waits_for_the_endpoint(shop: Shop) -> None:
    endpoint = f"/v1/webhook-endpoints/{shop.create_endpoint()['id']}"
    shop.create_paid_order()
    delivery = shop.data("POST", f"{endpoint}/test")
    rows = shop.api_server.sql(
        "select event_id from webhook_deliveries where merchant_id = $1 order by try_at limit 1",
        shop.id,
    )
    assert [row["event_id"] for row in rows] == [delivery["eventId"]]


def test_a_test_event_over_http_is_in_no_list_of_events(shop: Shop) -> None:
    order = shop.create_paid_order()
    endpoint, other_endpoint = (
        f"/v1/webhook-endpoints/{shop.create_endpoint()['id']}" for _ in range(2)
    )
    delivery = shop.post(f"{endpoint}/test", key="once").json()["data"]
    assert (delivery["type"], delivery["status"], delivery["attempts"]) == (
        "webhook.test",
        "PENDING",
        [],
    )
    assert shop.post(f"{endpoint}/test", key="once").json()["data"] == delivery
    page = shop.data("GET", f"{endpoint}/deliveries", params={"type": "webhook.test"})
    assert page["items"] == [delivery]
    events = shop.data("GET", "/v1/events", params={"size": 100})["items"]
    assert {event["data"]["order_id"] for event in events} == {order["id"]}
    assert shop.get(f"/v1/events/{delivery['eventId']}").status_code == 404
    for path in (endpoint, other_endpoint):
        assert_refused(shop.post(f"{path}/resend", {"eventId": delivery["eventId"]}), "eventId")
    shop.data("POST", f"{other_endpoint}/resend", json={"since": 0})
    deliveries = shop.data("GET", f"{other_endpoint}/deliveries")["items"]
    assert {row["eventId"] for row in deliveries} == {event["id"] for event in events}
    assert_refused(shop.get("/v1/events", type="webhook.test"), "type")
    body = {"url": "https://shop.example.com/", "events": ["webhook.test"]}
    assert_refused(shop.post("/v1/webhook-endpoints", body), "events")


def test_disabled_endpoints_and_those_of_other_merchants_get_no_test_event(shop: Shop) -> None:
    path = f"/v1/webhook-endpoints/{shop.create_endpoint()['id']}"
    shop.data("PATCH", path, json={"status": "DISABLED"})
    assert_refused(shop.post(f"{path}/test"), "id")
    assert shop.data("GET", f"{path}/deliveries")["items"] == []
    foreign_id = shop.api_server.create_shop().create_endpoint()["id"]
    assert shop.post(f"/v1/webhook-endpoints/{foreign_id}/test").status_code == 404


def test_developers_may_send_a_test_event_and_support_may_not(shop: Shop) -> None:
    path = f"/v1/merchant/webhook-endpoints/{shop.create_endpoint()['id']}/test"
    responses = {}
    for role in ("developer", "support"):
        member = create_person(shop.api_server, shop.id, role)  # type: ignore[arg-type] # two of the roles
        login = {"email": member.email, "password": "nine purple lanterns hum"}
        tokens = shop.api_server.http.post("/v1/merchant/sessions", json=login).json()["data"]
        headers = {"authorization": f"Bearer {tokens['accessToken']}"}
        responses[role] = shop.api_server.http.post(path, headers=headers)
    assert responses["support"].status_code == 403
    assert responses["developer"].status_code == 201
    assert msgspec.json.decode(responses["developer"].content)["data"]["type"] == "webhook.test"
