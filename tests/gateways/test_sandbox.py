"""The sandbox gateway, with a running sandbox bank and with misbehaving servers."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import msgspec
import pytest

from opentill.core.money import EXPONENTS, Money
from opentill.gateways import (
    BadCallback,
    GatewayDisputeEvent,
    GatewayPaymentEvent,
    GatewayRefundEvent,
    PaymentRequest,
    RefundRequest,
)
from opentill.gateways.model import Card
from opentill.gateways.sandbox import SandboxGateway
from opentill.sandbox.callbacks import DISPUTE_RESPONSE_MS, sign
from support.ports import free_socket, url_of
from support.sandbox_bank import SECRET, Shop, serving

NOW = 1_795_000_000_000
ANOTHER_PAYMENT = msgspec.json.encode(
    {
        "id": "other",
        "status": "succeeded",
        "decline_code": None,
        "amount_minor": 1,
        "currency": "EUR",
        "method": "ALIPAY",
        "action_url": "",
        "qr_text": None,
    }
)


@pytest.fixture
async def gateway(bank_url: str) -> AsyncIterator[SandboxGateway]:
    """The gateway of the running bank."""
    gateway = SandboxGateway(bank_url + "/", SECRET)
    yield gateway
    await gateway.close()


def payment_request(shop: Shop, **changes: Any) -> PaymentRequest:
    """Return a request to pay 9.99 euros by card, with a new id."""
    order = shop.payment_request()
    request = PaymentRequest(
        attempt_id=order["id"],
        method="CREDIT_CARD",
        amount=Money(999, "EUR"),
        description="A mug",
        merchant_name="Mugs",
        customer_email="ann@example.com",
        customer_name=None,
        payer_ip="203.0.113.9",
        return_url=order["return_url"],
        callback_url=order["callback_url"],
        locale="en",
    )
    return msgspec.structs.replace(request, **changes)


def refund_request(shop: Shop, payment_id: str, minor: int, refund_id: str) -> RefundRequest:
    """Return a request to refund an amount of a payment."""
    return RefundRequest(
        refund_id=refund_id,
        attempt_id=payment_id,
        provider_ref=payment_id,
        amount=Money(minor, "EUR"),
        reason="",
        callback_url=f"{shop.receiver.url}/callback",
    )


async def test_a_new_attempt_requires_action(shop: Shop, gateway: SandboxGateway) -> None:
    request = payment_request(shop)
    outcome = await gateway.pay(request)
    assert outcome.status == "ACTION_REQUIRED"
    assert outcome.action_url == f"{shop.bank_url}/pay/{request.attempt_id}"
    assert (outcome.qr_text, outcome.amount) == ("", None)
    assert await gateway.pay(request) == outcome
    assert await gateway.find_payment(request.attempt_id) == outcome


async def test_a_wallet_returns_a_qr_text(shop: Shop, gateway: SandboxGateway) -> None:
    request = payment_request(shop, method="ALIPAY")
    outcome = await gateway.pay(request)
    assert outcome.qr_text == f"{shop.bank_url}/phone/{request.attempt_id}"


@pytest.mark.parametrize(
    ("number", "status", "reason"),
    [
        ("4242424242424242", "SUCCEEDED", ""),
        ("4000000000009995", "DECLINED", "insufficient_funds"),
        ("4000000000009987", "REFUSED", "lost_card"),
        ("4000002500003155", "ACTION_REQUIRED", ""),
    ],
)
async def test_each_status_of_a_payment_has_its_outcome(
    shop: Shop, gateway: SandboxGateway, number: str, status: str, reason: str
) -> None:
    payment_id = shop.start_payment()
    shop.type_card(payment_id, number)
    outcome = await gateway.find_payment(payment_id)
    assert (outcome.status, outcome.reason) == (status, reason)
    assert outcome.provider_ref == payment_id
    assert outcome.amount == (Money(999, "EUR") if status == "SUCCEEDED" else None)
    assert outcome.clearing_currency == ("EUR" if status == "SUCCEEDED" else None)


async def test_a_processing_payment_is_pending(slow_bank_shop: Shop) -> None:
    gateway = SandboxGateway(slow_bank_shop.bank_url, SECRET)
    payment_id = slow_bank_shop.start_payment()
    slow_bank_shop.type_card(payment_id, "4000000000000119")
    assert (await gateway.find_payment(payment_id)).status == "PENDING"
    await gateway.close()


async def test_a_voided_payment_is_voided(shop: Shop, gateway: SandboxGateway) -> None:
    payment_id = shop.start_payment()
    shop.api.post(f"/payments/{payment_id}/void")
    assert (await gateway.find_payment(payment_id)).status == "VOIDED"


async def test_each_refund_has_its_outcome(shop: Shop, gateway: SandboxGateway) -> None:
    payment_id, payment_with_slow_refunds = (
        shop.create_paid_payment(),
        shop.create_paid_payment("4000000000005126"),
    )
    succeeded = await gateway.refund(refund_request(shop, payment_id, 900, "re_gw_done"))
    assert (succeeded.status, succeeded.provider_ref) == ("SUCCEEDED", "re_gw_done")
    assert await gateway.find_refund("re_gw_done") == succeeded
    too_much = await gateway.refund(refund_request(shop, payment_id, 100, "re_gw_over"))
    assert too_much.status == "REFUSED"
    assert "99 minor units" in too_much.reason
    pending = await gateway.refund(
        refund_request(shop, payment_with_slow_refunds, 999, "re_gw_pending")
    )
    assert pending.status == "PENDING"
    unknown_payment = await gateway.refund(refund_request(shop, "none", 1, "re_gw_none"))
    assert unknown_payment.status == "REFUSED"


async def test_unknown_ids_are_not_found(gateway: SandboxGateway) -> None:
    assert (await gateway.find_payment("att_none")).status == "NOT_FOUND"
    assert (await gateway.find_payment("a/../b?c")).status == "UNKNOWN"
    assert (await gateway.find_refund("re_none")).status == "NOT_FOUND"


async def test_other_values_under_an_id_are_refused(shop: Shop, gateway: SandboxGateway) -> None:
    request = payment_request(shop)
    await gateway.pay(request)
    outcome = await gateway.pay(msgspec.structs.replace(request, amount=Money(1, "EUR")))
    assert outcome.status == "REFUSED"
    assert outcome.reason.startswith("HTTP 409 id_reused")


@pytest.mark.parametrize("kind", ["error_500", "error_500_after", "reset", "reset_after"])
async def test_a_lost_response_is_unknown_until_the_next_query(
    shop: Shop, gateway: SandboxGateway, kind: str
) -> None:
    request = payment_request(shop)
    for operation in ("pay", "find"):
        shop.inject_fault(operation, kind, match=request.attempt_id)
    assert (await gateway.pay(request)).status == "UNKNOWN"
    assert (await gateway.find_payment(request.attempt_id)).status == "UNKNOWN"
    expected = "ACTION_REQUIRED" if kind.endswith("after") else "NOT_FOUND"
    assert (await gateway.find_payment(request.attempt_id)).status == expected
    assert (await gateway.pay(request)).status == "ACTION_REQUIRED"


async def test_a_timeout_after_sending_is_unknown(shop: Shop) -> None:
    impatient_gateway, gateway = (
        SandboxGateway(shop.bank_url, SECRET, timeout_s=s) for s in (0.5, 60)
    )
    # This opens the connection, so that only the response can time out.
    await wait_for_payment_status(impatient_gateway, "att_none", "NOT_FOUND")
    request = payment_request(shop)
    shop.inject_fault("pay", "timeout_after", match=request.attempt_id)
    assert (await impatient_gateway.pay(request)).status == "UNKNOWN"
    await wait_for_payment_status(gateway, request.attempt_id, "ACTION_REQUIRED")
    for opened_gateway in (impatient_gateway, gateway):
        await opened_gateway.close()


async def wait_for_payment_status(gateway: SandboxGateway, attempt_id: str, status: str) -> None:
    """Query the bank until the payment has a status."""
    async with asyncio.timeout(60):
        while (await gateway.find_payment(attempt_id)).status != status:
            await asyncio.sleep(0.02)


async def test_a_bank_that_refuses_connections_is_unreachable(shop: Shop) -> None:
    sock = free_socket()
    gateway = SandboxGateway(url_of(sock), SECRET)
    assert (await gateway.pay(payment_request(shop))).status == "UNREACHABLE"
    assert (await gateway.find_payment("x")).status == "UNREACHABLE"
    assert (await gateway.refund(refund_request(shop, "x", 1, "y"))).status == "UNREACHABLE"
    await gateway.close()
    sock.close()


async def test_with_a_wrong_secret_everything_is_unknown(shop: Shop) -> None:
    gateway = SandboxGateway(shop.bank_url, "wrong")
    assert (await gateway.pay(payment_request(shop))).status == "UNKNOWN"
    assert (await gateway.refund(refund_request(shop, "x", 1, "y"))).status == "UNKNOWN"
    assert (await gateway.find_payment("att_none")).status == "UNKNOWN"
    await gateway.close()


# Each row: status and body of a response.
INVALID_RESPONSES: Final = [
    (200, b"not json"),
    (200, b"{}"),
    (200, b"\xff"),
    (200, b'{"x":' + b"[" * 50_000),
    (404, b'{"x":' + b"[" * 50_000),
    (201, ANOTHER_PAYMENT),
    (302, b""),
    (404, b"<html>a proxy's page</html>"),
    (429, b""),
    (503, b""),
]


@pytest.fixture(scope="module")
def invalid_server() -> Iterator[str]:
    """A server that sends row ``n`` of INVALID_RESPONSES for paths below ``/n``; its URL."""

    async def respond(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            status, body = INVALID_RESPONSES[int(scope["path"].split("/")[1])]
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": body})

    sock = free_socket()
    with serving(respond, sock):
        yield url_of(sock)


@pytest.mark.parametrize(
    "row", range(len(INVALID_RESPONSES)), ids=lambda row: str(INVALID_RESPONSES[row])
)
async def test_an_invalid_response_is_unknown(invalid_server: str, row: int) -> None:
    gateway = SandboxGateway(f"{invalid_server}/{row}", SECRET)
    assert (await gateway.find_payment("x")).status == "UNKNOWN"
    await gateway.close()


def wait_for_callback(shop: Shop, payment_id: str, event_type: str) -> tuple[dict[str, str], bytes]:
    """Wait for the bank's callback about an event of a payment; return its headers and body."""
    event = shop.receiver.wait_for(payment_id, event_type)
    return next(
        (headers, body) for headers, body in shop.receiver.received if event["id"].encode() in body
    )


async def test_each_genuine_callback_is_read_as_an_event(
    shop: Shop, gateway: SandboxGateway
) -> None:
    now = int(time.time() * 1000)
    payment_id = shop.create_paid_payment()
    refund_id = shop.refund(payment_id, 99).json()["id"]
    dispute = shop.api.post(f"/payments/{payment_id}/disputes").json()
    (payment,) = gateway.read_callback(
        *wait_for_callback(shop, payment_id, "payment.succeeded"), now
    )
    (refund,) = gateway.read_callback(*wait_for_callback(shop, payment_id, "refund.succeeded"), now)
    (dispute_event,) = gateway.read_callback(
        *wait_for_callback(shop, payment_id, "dispute.opened"), now
    )
    assert isinstance(payment, GatewayPaymentEvent)
    assert (payment.attempt_id, payment.outcome.status) == (payment_id, "SUCCEEDED")
    assert payment.outcome.amount == Money(999, "EUR")
    assert payment.outcome.card == Card(brand="visa", last4="4242")
    assert isinstance(refund, GatewayRefundEvent)
    assert (refund.attempt_id, refund.refund_id) == (payment_id, refund_id)
    assert refund.outcome.status == "SUCCEEDED"
    assert dispute_event == GatewayDisputeEvent(
        attempt_id=payment_id,
        dispute_ref=dispute["id"],
        status="OPENED",
        amount=Money(900, "EUR"),
        reason="fraudulent",
        respond_by=dispute["created_at"] + DISPUTE_RESPONSE_MS,
    )


UNKNOWN_EVENT = b'{"type":"something.new"}'


@pytest.mark.parametrize(
    "tamper",
    [
        lambda signature: {},
        lambda signature: {"sandbox-signature": ""},
        lambda signature: {"sandbox-signature": signature.replace("v1=", "v0=")},
        lambda signature: {"sandbox-signature": signature[:-1] + "g"},
        lambda signature: {"sandbox-signature": signature.split(",")[0]},
        lambda signature: {"sandbox-signature": signature.split(",")[1]},
        lambda signature: {"sandbox-signature": signature.replace("t=17", "t=18")},
        lambda signature: {"sandbox-signature": sign("other", UNKNOWN_EVENT, NOW // 1000)},
        lambda signature: {"sandbox-signature": sign(SECRET, UNKNOWN_EVENT + b" ", NOW // 1000)},
        lambda signature: {"sandbox-signature": sign(SECRET, UNKNOWN_EVENT, NOW // 1000 - 301)},
        lambda signature: {"sandbox-signature": sign(SECRET, UNKNOWN_EVENT, NOW // 1000 + 301)},
        lambda signature: {"sandbox-signature": signature.replace("t=", "t=١")},
    ],
)
def test_a_forged_or_old_callback_is_refused(
    tamper: Callable[[str], dict[str, str]],
) -> None:
    gateway = SandboxGateway("http://127.0.0.1:1", SECRET)
    headers = tamper(sign(SECRET, UNKNOWN_EVENT, NOW // 1000))
    with pytest.raises(BadCallback):
        gateway.read_callback(headers, UNKNOWN_EVENT, NOW)


@pytest.mark.parametrize("age_s", [-300, 0, 300])
def test_a_genuine_callback_of_an_unknown_type_has_no_events(age_s: int) -> None:
    gateway = SandboxGateway("http://127.0.0.1:1", SECRET)
    headers = {"sandbox-signature": sign(SECRET, UNKNOWN_EVENT, NOW // 1000 - age_s)}
    assert gateway.read_callback(headers, UNKNOWN_EVENT, NOW) == ()


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"\xff", b'{"type":"payment.succeeded","data":{"payment":{}}}']
)
def test_a_signed_but_malformed_body_is_refused(body: bytes) -> None:
    gateway = SandboxGateway("http://127.0.0.1:1", SECRET)
    headers = {"sandbox-signature": sign(SECRET, body, NOW // 1000)}
    with pytest.raises(BadCallback):
        gateway.read_callback(headers, body, NOW)


@pytest.mark.parametrize(
    ("currency", "methods"),
    [
        ("EUR", ("CREDIT_CARD", "ALIPAY", "WECHAT_PAY", "BANK_TRANSFER")),
        ("SGD", ("CREDIT_CARD", "ALIPAY", "WECHAT_PAY", "PAYNOW", "BANK_TRANSFER")),
        ("USD", ("CREDIT_CARD", "ALIPAY", "WECHAT_PAY", "CRYPTO", "BANK_TRANSFER")),
        ("KWD", ("CREDIT_CARD", "BANK_TRANSFER")),
        ("XXX", ()),
    ],
)
def test_each_currency_has_its_methods(currency: str, methods: tuple[str, ...]) -> None:
    assert SandboxGateway("http://127.0.0.1:1", SECRET).methods(currency) == methods


def test_every_currency_can_be_paid_by_card() -> None:
    gateway = SandboxGateway("http://127.0.0.1:1", SECRET)
    assert all("CREDIT_CARD" in gateway.methods(currency) for currency in EXPONENTS)
