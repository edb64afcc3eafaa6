"""Verification of webhook signatures by the Python client."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any, Final, get_args

import msgspec
import pytest
import standardwebhooks

from opentill.app import PAYLOADS
from opentill.client import Event, OrderPaid, WebhookInvalid, verify_webhook
from opentill.client.events import EVENTS
from opentill.client.signatures import _svc_signature

# The test vector of contract.md#event-signatures.
SECRET: Final = "whsec_example"
NOW_MS: Final = 1736932500000
BODY: Final = b'{"id":"evt_abc123","type":"order.paid","created_at":1736932500000,"data":{}}'
HEADERS: Final = {
    "X-Svc-Signature": "sha256=a9f76dda17e571c1828f1e4b343018464aa4c35331e3353bccf80e63a1c10413",
    "X-Svc-Timestamp": str(NOW_MS),
}
STANDARD_SECRET: Final = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ORDER_PAID: Final[dict[str, Any]] = {
    "order_id": "order_1",
    "product_id": "prod_1",
    "customer_email": "ada@example.com",
    "amount": "9.99",
    "currency": "USD",
    "net_amount": "9.59",
    "paid_at": NOW_MS,
    "metadata": {"cart": "42"},
    "added_later": True,
}


def build_body(event_type: str = "order.paid", data: Any = ORDER_PAID) -> bytes:
    event = {"id": "evt_1", "type": event_type, "created_at": NOW_MS, "data": data}
    return json.dumps(event).encode()


def sign(raw: bytes, secret: str = STANDARD_SECRET) -> dict[str, str]:
    """Return the headers with which the Standard Webhooks library signs a body."""
    moment = dt.datetime.fromtimestamp(NOW_MS / 1000, dt.UTC)
    signature = standardwebhooks.Webhook(secret).sign("evt_1", moment, raw.decode())
    stamp = str(NOW_MS // 1000)
    return {"webhook-id": "evt_1", "webhook-timestamp": stamp, "webhook-signature": signature}


def verify(raw: bytes | str, headers: dict[str, str], secret: Any, **options: Any) -> Event:
    return verify_webhook(raw, headers, secret, **({"now": NOW_MS / 1000} | options))


def test_the_contracts_test_vector_is_verified() -> None:
    event = verify(BODY, HEADERS, SECRET)
    assert (type(event), event.id, event.created_at) == (OrderPaid, "evt_abc123", NOW_MS)
    assert verify(BODY.decode(), HEADERS, [STANDARD_SECRET, SECRET]) == event
    with pytest.raises(WebhookInvalid, match="form"):
        event.data  # noqa: B018 - it has none


@pytest.mark.parametrize("prefix", ["X-Acme-", "x-acme-", "X-ACME-"])
def test_another_header_prefix_is_verified(prefix: str) -> None:
    headers = {name.replace("X-Svc-", "X-Acme-"): value for name, value in HEADERS.items()}
    assert verify(BODY, headers, SECRET, header_prefix=prefix).id == "evt_abc123"
    for headers_of_another_prefix, options in ((headers, {}), (HEADERS, {"header_prefix": prefix})):
        with pytest.raises(WebhookInvalid, match="no signature"):
            verify(BODY, headers_of_another_prefix, SECRET, **options)


def test_a_delivery_with_lone_surrogates_is_refused() -> None:
    """WSGI and ASGI servers may decode bytes that are not UTF-8 to lone surrogates."""
    surrogate = "\udc80"
    signed_headers = sign(build_body())
    for raw, headers in (
        (BODY.decode() + surrogate, HEADERS),
        (BODY, HEADERS | {"X-Svc-Signature": surrogate}),
        (BODY, HEADERS | {"X-Svc-Signature": "", "X-Svc-Signature-Old": surrogate}),
        (build_body(), signed_headers | {"webhook-id": surrogate}),
        (build_body(), signed_headers | {"webhook-signature": f"v1,{surrogate}"}),
        (build_body(), signed_headers | {"webhook-timestamp": surrogate}),
    ):
        with pytest.raises(WebhookInvalid, match="no signature"):
            verify(raw, headers, [SECRET, STANDARD_SECRET])


def test_a_delivery_signed_by_standard_webhooks_is_verified_and_typed() -> None:
    event = verify(build_body(), sign(build_body()), STANDARD_SECRET)
    assert isinstance(event, OrderPaid)
    assert event.data.amount == Decimal("9.99")
    assert event.data.metadata == {"cart": "42"}


def test_an_event_of_an_unknown_type_is_a_plain_event() -> None:
    raw = build_body("order.teleported", {"a": 1})
    event = verify(raw, sign(raw), STANDARD_SECRET)
    assert (type(event), event.type, event.data) == (Event, "order.teleported", {"a": 1})


FORGED: Final = [
    ("another body", BODY + b" ", HEADERS, SECRET),
    ("another secret", BODY, HEADERS, "whsec_another"),
    ("no header", BODY, {}, SECRET),
    ("another timestamp", BODY, HEADERS | {"X-Svc-Timestamp": str(NOW_MS + 1)}, SECRET),
    ("a timestamp that is no number", BODY, HEADERS | {"X-Svc-Timestamp": "²"}, SECRET),
    ("a truncated signature", BODY,
     HEADERS | {"X-Svc-Signature": HEADERS["X-Svc-Signature"][:-1]}, SECRET),
    ("a signature that is no ASCII", BODY, HEADERS | {"X-Svc-Signature": "sha256=é"}, SECRET),
    ("another id", build_body(), sign(build_body()) | {"webhook-id": "evt_2"}, STANDARD_SECRET),
    ("another signature version", build_body(), {
        name: value.replace("v1,", "v2,") for name, value in sign(build_body()).items()
    }, STANDARD_SECRET),
]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "headers", "secret"), [case[1:] for case in FORGED], ids=[case[0] for case in FORGED]
)
def test_a_forged_delivery_is_refused(raw: bytes, headers: Any, secret: str) -> None:
    with pytest.raises(WebhookInvalid, match="no signature"):
        verify(raw, headers, secret)


@pytest.mark.parametrize("age_s", [-301, 301])
def test_an_old_or_future_delivery_is_refused(age_s: int) -> None:
    now = NOW_MS / 1000 + age_s
    for raw, headers, secret in (
        (BODY, HEADERS, SECRET),
        (build_body(), sign(build_body()), STANDARD_SECRET),
    ):
        with pytest.raises(WebhookInvalid, match="last 300 seconds"):
            verify(raw, headers, secret, now=now)
        assert verify(raw, headers, secret, now=now, tolerance_s=302)
    with pytest.raises(WebhookInvalid, match="last"):
        verify_webhook(BODY, HEADERS, SECRET)


def test_the_old_secret_is_accepted_during_a_rotation() -> None:
    new_secret, old_secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx", STANDARD_SECRET
    raw = build_body()
    headers = sign(raw, new_secret)
    headers["webhook-signature"] += " " + sign(raw, old_secret)["webhook-signature"]
    headers |= {
        "X-Svc-Signature": _svc_signature(new_secret, str(NOW_MS), raw),
        "X-Svc-Timestamp": str(NOW_MS),
    }
    for secret in (new_secret, old_secret, [old_secret, new_secret]):
        assert verify(raw, headers, secret).id == "evt_1"


DEEP = b'{"more":' + b"[" * 100_000


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b'{"id":1}', b"\xff", DEEP], ids=lambda raw: repr(raw[:9])
)
def test_a_signed_body_that_is_not_an_event_is_refused(raw: bytes) -> None:
    headers = {
        "x-svc-signature": _svc_signature(STANDARD_SECRET, str(NOW_MS), raw),
        "x-svc-timestamp": str(NOW_MS),
    }
    with pytest.raises(WebhookInvalid, match="not an event"):
        verify(raw, headers, STANDARD_SECRET)


@pytest.mark.parametrize("secret", ["", [], [""]])
def test_an_empty_secret_is_refused(secret: Any) -> None:
    with pytest.raises(ValueError, match="secret"):
        verify(BODY, HEADERS, secret)


def _field_names(struct: Any) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)}


def test_the_client_reads_every_field_of_an_event() -> None:
    """A struct of the client that several event types share has the fields of all of them."""
    assert set(EVENTS) == set(PAYLOADS)
    fields_by_struct: dict[Any, set[str]] = {}
    for type_, event in EVENTS.items():
        (data,) = get_args(event.__orig_bases__[0])
        assert data is event.form
        fields_by_struct.setdefault(data, set()).update(_field_names(PAYLOADS[type_]))
    assert {data: _field_names(data) for data in fields_by_struct} == fields_by_struct
