"""What events say, as the OpenAPI document describes it, for every type there is."""

from typing import Any, Final

import jsonschema_rs
import pytest

from opentill import disputes, orders, payouts
from opentill.app import PAYLOADS, openapi_document
from opentill.core.settings import Settings
from opentill.webhooks import SENT_TYPES, TYPES
from support.api_server import Shop

DOCUMENT: Final = openapi_document(Settings())
SCHEMAS: Final = DOCUMENT["components"]["schemas"]


def _schema(type_: str) -> dict[str, Any]:
    content = DOCUMENT["webhooks"][type_]["post"]["requestBody"]["content"]
    schema: dict[str, Any] = content["application/json"]["schema"]
    return schema


def _named(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = SCHEMAS[schema["$ref"].rsplit("/", 1)[-1]]
    return found


def test_every_type_has_its_payload_in_the_events_file_of_its_feature() -> None:
    assert set(PAYLOADS) == set(SENT_TYPES)
    for payload in PAYLOADS.values():
        assert payload.__module__.endswith(".events"), payload


def test_every_type_stands_in_the_document_with_every_field_described() -> None:
    assert list(DOCUMENT["webhooks"]) == list(SENT_TYPES)
    for type_ in SENT_TYPES:
        event = _named(_schema(type_))
        assert event["properties"]["type"]["const"] == type_
        data = _named(event["properties"]["data"])
        for part in (event, data):
            assert part["description"]
            assert part["required"]
            for name, field in part["properties"].items():
                if field is event["properties"]["data"]:
                    continue  # described where it is
                assert field.get("description"), f"{type_}: {name}"
                if name.endswith("_at"):
                    assert "int64" in str(field), f"{type_}: {name}"


def test_operation_ids_are_unique_beside_those_of_the_api() -> None:
    ids = [
        operation["operationId"]
        for part in (DOCUMENT["paths"], DOCUMENT["webhooks"])
        for path in part.values()
        for operation in path.values()
    ]
    assert len(set(ids)) == len(ids)


def test_the_headers_are_those_that_the_deployment_signs_by() -> None:
    made = openapi_document(Settings(webhook_header_prefix="X-Acme-"))
    names = [one["name"] for one in made["webhooks"]["order.paid"]["post"]["parameters"]]
    assert names == [
        "X-Acme-Signature", "X-Acme-Timestamp", "X-Acme-Signature-Old",
        "webhook-id", "webhook-timestamp", "webhook-signature",
    ]  # fmt: skip


@pytest.fixture
def told(shop: Shop) -> dict[str, list[dict[str, Any]]]:
    """The events of a merchant to whom everything has happened."""
    order = shop.paid(metadata={"cart": 7})
    shop.end_refund(shop.refund(order["id"], amount="1.00")["id"])
    shop.end_refund(shop.refund(order["id"], amount="1.00")["id"], "REFUSED", "closed")
    shop.revoke(shop.order()["id"])
    api_server, now = shop.api_server, shop.api_server.app.clock()
    dispute = shop.dispute(shop.paid()["id"])
    api_server.tx(
        lambda tx: disputes.decide(
            tx, shop.id, dispute.id, "won", who="tester", reason="letter", now=now
        )
    )
    api_server.tx(lambda tx: orders.settle_one(tx, shop.id, order["id"], now, "early"))
    paid, failed = shop.payout(), shop.payout()
    api_server.tx(lambda tx: payouts.pay(tx, paid.id, "B1", "sent", "tester", now))
    api_server.tx(lambda tx: payouts.fail(tx, failed.id, "account closed", "tester", now))
    found: dict[str, list[dict[str, Any]]] = {}
    for event in shop.data("GET", "/v1/events?size=100")["items"]:
        found.setdefault(event["type"], []).append(event)
    return found


def test_every_event_is_as_its_schema_says_and_says_nothing_else(
    told: dict[str, list[dict[str, Any]]],
) -> None:
    assert set(told) == set(TYPES)
    for type_, events in told.items():
        schema = _schema(type_) | {"components": DOCUMENT["components"]}
        fields = _named(_named(_schema(type_))["properties"]["data"])["properties"]
        for event in events:
            jsonschema_rs.validate(schema, event)
            # Whether its money is real is said once a gateway has taken the payment; the others are
            # there where they are used: tests/spec/test_session_extensions.py.
            seldom = {"livemode", "quantity", "client_reference", "payment_link_id"}
            assert {*event["data"]} | seldom == {*fields} | seldom


def test_refunds_say_what_was_refunded(told: dict[str, list[dict[str, Any]]]) -> None:
    (order,) = [event for event in told["order.paid"] if event["data"]["metadata"]]
    for type_ in ("order.refunded", "refund.failed"):
        (event,) = told[type_]
        assert event["data"]["product_id"] == order["data"]["product_id"]
        assert event["data"]["metadata"] == {"cart": 7}
