"""Payloads of every event type match their schemas in the OpenAPI document."""

from typing import Any, Final

import jsonschema_rs
import pytest

from opentill import disputes, orders, payouts
from opentill.app import PAYLOADS, openapi_document
from opentill.core.settings import Settings
from opentill.webhooks import SENT_TYPES, TEST, TYPES
from support.api_server import Shop

DOCUMENT: Final = openapi_document(Settings())
SCHEMAS: Final = DOCUMENT["components"]["schemas"]


def _schema(type_: str) -> dict[str, Any]:
    content = DOCUMENT["webhooks"][type_]["post"]["requestBody"]["content"]
    schema: dict[str, Any] = content["application/json"]["schema"]
    return schema


def _resolve(schema: dict[str, Any]) -> dict[str, Any]:
    named_schema: dict[str, Any] = SCHEMAS[schema["$ref"].rsplit("/", 1)[-1]]
    return named_schema


def test_the_payload_of_every_type_is_in_an_events_module() -> None:
    assert set(PAYLOADS) == set(SENT_TYPES)
    for type_, payload in PAYLOADS.items():
        module = ".endpoint_test" if type_ == TEST else ".events"
        assert payload.__module__.endswith(module), payload


def test_the_document_describes_every_field_of_every_type() -> None:
    assert list(DOCUMENT["webhooks"]) == list(SENT_TYPES)
    for type_ in SENT_TYPES:
        event = _resolve(_schema(type_))
        assert event["properties"]["type"]["const"] == type_
        data = _resolve(event["properties"]["data"])
        for schema in (event, data):
            assert schema["description"]
            assert schema["required"]
            for name, field in schema["properties"].items():
                if field is event["properties"]["data"]:
                    continue  # the fields of `data` are checked below
                assert field.get("description"), f"{type_}: {name}"
                if name.endswith("_at"):
                    assert "int64" in str(field), f"{type_}: {name}"


def test_operation_ids_are_unique_in_the_whole_document() -> None:
    ids = [
        operation["operationId"]
        for part in (DOCUMENT["paths"], DOCUMENT["webhooks"])
        for path in part.values()
        for operation in path.values()
    ]
    assert len(set(ids)) == len(ids)


def test_the_document_has_the_configured_header_names() -> None:
    document = openapi_document(Settings(webhook_header_prefix="X-Acme-"))
    parameters = document["webhooks"]["order.paid"]["post"]["parameters"]
    assert [parameter["name"] for parameter in parameters] == [
        "X-Acme-Signature", "X-Acme-Timestamp", "X-Acme-Signature-Old",
        "webhook-id", "webhook-timestamp", "webhook-signature",
    ]  # fmt: skip


@pytest.fixture
def events_by_type(shop: Shop) -> dict[str, list[dict[str, Any]]]:
    """Events of every type, by type, of one merchant."""
    order = shop.create_paid_order(metadata={"cart": 7})
    shop.report_refund(shop.refund(order["id"], amount="1.00")["id"])
    shop.report_refund(shop.refund(order["id"], amount="1.00")["id"], "REFUSED", "closed")
    shop.revoke(shop.create_order()["id"])
    api_server, now = shop.api_server, shop.api_server.app.clock()
    dispute = shop.open_dispute(shop.create_paid_order()["id"])
    api_server.tx(
        lambda tx: disputes.decide(
            tx, shop.id, dispute.id, "won", who="tester", reason="letter", now=now
        )
    )
    api_server.tx(lambda tx: orders.settle_one(tx, shop.id, order["id"], now, "early"))
    paid, failed = shop.create_payout(), shop.create_payout()
    api_server.tx(lambda tx: payouts.pay(tx, paid.id, "B1", "sent", "tester", now))
    api_server.tx(lambda tx: payouts.fail(tx, failed.id, "account closed", "tester", now))
    events: dict[str, list[dict[str, Any]]] = {}
    for event in shop.data("GET", "/v1/events?size=100")["items"]:
        events.setdefault(event["type"], []).append(event)
    return events


def test_every_event_has_exactly_the_fields_of_its_schema(
    events_by_type: dict[str, list[dict[str, Any]]],
) -> None:
    assert set(events_by_type) == set(TYPES)
    for type_, events in events_by_type.items():
        schema = _schema(type_) | {"components": DOCUMENT["components"]}
        fields = _resolve(_resolve(_schema(type_))["properties"]["data"])["properties"]
        for event in events:
            jsonschema_rs.validate(schema, event)
            # Only some events have these fields; see tests/spec/test_session_extensions.py.
            optional = {"livemode", "quantity", "client_reference", "payment_link_id"}
            assert {*event["data"]} | optional == {*fields} | optional


def test_refund_events_have_the_product_and_metadata(
    events_by_type: dict[str, list[dict[str, Any]]],
) -> None:
    (order,) = [event for event in events_by_type["order.paid"] if event["data"]["metadata"]]
    for type_ in ("order.refunded", "refund.failed"):
        (event,) = events_by_type[type_]
        assert event["data"]["product_id"] == order["data"]["product_id"]
        assert event["data"]["metadata"] == {"cart": 7}
