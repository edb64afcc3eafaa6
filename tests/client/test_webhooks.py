"""Webhooks as a merchant verifies them."""

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

# contract.md#event-signatures
SECRET: Final = "whsec_example"
NOW_MS: Final = 1736932500000
BODY: Final = b'{"id":"evt_abc123","type":"order.paid","created_at":1736932500000,"data":{}}'
OWN: Final = {
    "X-Svc-Signature": "sha256=a9f76dda17e571c1828f1e4b343018464aa4c35331e3353bccf80e63a1c10413",
    "X-Svc-Timestamp": str(NOW_MS),
}
REAL: Final = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PAID: Final[dict[str, Any]] = {
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


def body(kind: str = "order.paid", data: Any = PAID) -> bytes:
    event = {"id": "evt_1", "type": kind, "created_at": NOW_MS, "data": data}
    return json.dumps(event).encode()


def standard(raw: bytes, secret: str = REAL) -> dict[str, str]:
    """Sign as the library of Standard Webhooks does."""
    moment = dt.datetime.fromtimestamp(NOW_MS / 1000, dt.UTC)
    signature = standardwebhooks.Webhook(secret).sign("evt_1", moment, raw.decode())
    stamp = str(NOW_MS // 1000)
    return {"webhook-id": "evt_1", "webhook-timestamp": stamp, "webhook-signature": signature}


def check(raw: bytes | str, headers: dict[str, str], secret: Any, **options: Any) -> Event:
    return verify_webhook(raw, headers, secret, **({"now": NOW_MS / 1000} | options))


def test_the_servers_test_vector_is_verified() -> None:
    event = check(BODY, OWN, SECRET)
    assert (type(event), event.id, event.created_at) == (OrderPaid, "evt_abc123", NOW_MS)
    assert check(BODY.decode(), OWN, [REAL, SECRET]) == event
    with pytest.raises(WebhookInvalid, match="form"):
        event.data  # noqa: B018 - it has none


@pytest.mark.parametrize("prefix", ["X-Acme-", "x-acme-", "X-ACME-"])
def test_another_header_prefix_is_verified(prefix: str) -> None:
    headers = {name.replace("X-Svc-", "X-Acme-"): value for name, value in OWN.items()}
    assert check(BODY, headers, SECRET, header_prefix=prefix).id == "evt_abc123"
    for wrong, options in ((headers, {}), (OWN, {"header_prefix": prefix})):
        with pytest.raises(WebhookInvalid, match="no signature"):
            check(BODY, wrong, SECRET, **options)


def test_halves_of_surrogates_are_no_genuine_delivery() -> None:
    """What a server made of bytes that are no UTF-8, as WSGI and ASGI servers may."""
    half = "\udc80"
    signed = standard(body())
    for raw, headers in (
        (BODY.decode() + half, OWN),
        (BODY, OWN | {"X-Svc-Signature": half}),
        (BODY, OWN | {"X-Svc-Signature": "", "X-Svc-Signature-Old": half}),
        (body(), signed | {"webhook-id": half}),
        (body(), signed | {"webhook-signature": f"v1,{half}"}),
        (body(), signed | {"webhook-timestamp": half}),
    ):
        with pytest.raises(WebhookInvalid, match="no signature"):
            check(raw, headers, [SECRET, REAL])


def test_a_delivery_signed_by_standard_webhooks_is_verified_and_typed() -> None:
    event = check(body(), standard(body()), REAL)
    assert isinstance(event, OrderPaid)
    assert event.data.amount == Decimal("9.99")
    assert event.data.metadata == {"cart": "42"}


def test_an_unknown_type_is_a_plain_event() -> None:
    raw = body("order.teleported", {"a": 1})
    event = check(raw, standard(raw), REAL)
    assert (type(event), event.type, event.data) == (Event, "order.teleported", {"a": 1})


FORGED: Final = [
    ("another body", BODY + b" ", OWN, SECRET),
    ("another secret", BODY, OWN, "whsec_another"),
    ("no header", BODY, {}, SECRET),
    ("another time", BODY, OWN | {"X-Svc-Timestamp": str(NOW_MS + 1)}, SECRET),
    ("no number", BODY, OWN | {"X-Svc-Timestamp": "²"}, SECRET),
    ("half of it", BODY, OWN | {"X-Svc-Signature": OWN["X-Svc-Signature"][:-1]}, SECRET),
    ("no ASCII", BODY, OWN | {"X-Svc-Signature": "sha256=é"}, SECRET),
    ("another id", body(), standard(body()) | {"webhook-id": "evt_2"}, REAL),
    ("another version", body(), {
        name: value.replace("v1,", "v2,") for name, value in standard(body()).items()
    }, REAL),
]  # fmt: skip


@pytest.mark.parametrize(("what", "raw", "headers", "secret"), FORGED, ids=lambda x: str(x)[:16])
def test_a_forged_delivery_is_refused(what: str, raw: bytes, headers: Any, secret: str) -> None:
    with pytest.raises(WebhookInvalid, match="no signature"):
        check(raw, headers, secret)


@pytest.mark.parametrize("late_s", [-301, 301])
def test_an_old_or_future_delivery_is_refused(late_s: int) -> None:
    now = NOW_MS / 1000 + late_s
    for raw, headers, secret in ((BODY, OWN, SECRET), (body(), standard(body()), REAL)):
        with pytest.raises(WebhookInvalid, match="last 300 seconds"):
            check(raw, headers, secret, now=now)
        assert check(raw, headers, secret, now=now, tolerance_s=302)
    with pytest.raises(WebhookInvalid, match="last"):
        verify_webhook(BODY, OWN, SECRET)


def test_the_old_secret_is_accepted_during_a_rotation() -> None:
    new, old = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx", REAL
    raw = body()
    both = standard(raw, new)
    both["webhook-signature"] += " " + standard(raw, old)["webhook-signature"]
    both |= {
        "X-Svc-Signature": _svc_signature(new, str(NOW_MS), raw),
        "X-Svc-Timestamp": str(NOW_MS),
    }
    for secret in (new, old, [old, new]):
        assert check(raw, both, secret).id == "evt_1"


DEEP = b'{"more":' + b"[" * 100_000


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b'{"id":1}', b"\xff", DEEP], ids=lambda raw: repr(raw[:9])
)
def test_a_signed_body_that_is_no_event_is_refused(raw: bytes) -> None:
    headers = {
        "x-svc-signature": _svc_signature(REAL, str(NOW_MS), raw),
        "x-svc-timestamp": str(NOW_MS),
    }
    with pytest.raises(WebhookInvalid, match="not an event"):
        check(raw, headers, REAL)


@pytest.mark.parametrize("secret", ["", [], [""]])
def test_an_empty_secret_is_refused(secret: Any) -> None:
    with pytest.raises(ValueError, match="secret"):
        check(BODY, OWN, secret)


def _fields(struct: Any) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)}


def test_what_is_read_of_an_event_is_what_is_sent() -> None:
    """One struct of the client may be of several types, and has the fields of all of them."""
    assert set(EVENTS) == set(PAYLOADS)
    sent: dict[Any, set[str]] = {}
    for type_, event in EVENTS.items():
        (data,) = get_args(event.__orig_bases__[0])
        assert data is event.form
        sent.setdefault(data, set()).update(_fields(PAYLOADS[type_]))
    assert {data: _fields(data) for data in sent} == sent
