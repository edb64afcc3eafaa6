"""PayPal's webhooks: who signed them, and the events that they report."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec
import pytest

from gateways.paypal_events import create_dispute, create_event
from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.gateways import BadCallback
from opentill.gateways.model import (
    DisputeStatus,
    GatewayDisputeEvent,
    GatewayPaymentEvent,
    GatewayRefundEvent,
)
from opentill.gateways.paypal import PayPalGateway
from opentill.sandbox import paypal
from opentill.sandbox.paypal.views import time_of
from support.paypal_shop import EUR, Notice, PayPalShop, type_of

DAY_MS: Final = 86_400_000


@pytest.fixture
async def gateway(paypal_shop: PayPalShop) -> AsyncIterator[PayPalGateway]:
    """A gateway that downloads certificates without a pause."""
    gateway = paypal_shop.gateway(pause_s=0)
    yield gateway
    await gateway.close()


def now_ms() -> int:
    """Return real time."""
    return time.time_ns() // 1_000_000


async def read_notice(gateway: PayPalGateway, notice: Notice, age_ms: int = 0) -> tuple[Any, ...]:
    """Read a webhook as the server does."""
    await gateway.fetch_keys(notice[0])
    return gateway.read_callback(*notice, now_ms() + age_ms)


async def take_notice(shop: PayPalShop, gateway: PayPalGateway) -> tuple[str, Notice]:
    """Pay, and return the attempt's id and the webhook about its capture."""
    request, order_id = await shop.start(gateway)
    start = len(shop.receiver.received)
    await gateway.find_payment(request.attempt_id, order_id)
    (notice,) = await asyncio.to_thread(shop.wait_for_notices, start)
    return request.attempt_id, notice


# ── events ──


async def test_an_approval_and_a_capture_are_reported(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    start = len(paypal_shop.receiver.received)
    request, order_id = await paypal_shop.start(gateway)
    (approved,) = await asyncio.to_thread(paypal_shop.wait_for_notices, start)
    assert type_of(approved) == "CHECKOUT.ORDER.APPROVED"
    for _ in range(2):  # a repeated webhook is read again; applying it is idempotent
        (event,) = await read_notice(gateway, approved)
        assert isinstance(event, GatewayPaymentEvent)
        assert event.attempt_id == request.attempt_id
        # The worker then queries the order, which captures it.
        assert (event.outcome.status, event.outcome.provider_ref) == ("PENDING", order_id)
    paid = await gateway.find_payment(request.attempt_id, order_id)
    notices = await asyncio.to_thread(paypal_shop.wait_for_notices, start, 2)
    assert type_of(notices[1]) == "PAYMENT.CAPTURE.COMPLETED"
    (event,) = await read_notice(gateway, notices[1])
    assert isinstance(event, GatewayPaymentEvent)
    assert (event.attempt_id, event.outcome) == (request.attempt_id, paid)


async def test_webhooks_arrive_twice_and_in_any_order(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    start = len(paypal_shop.receiver.received)
    request = paypal_shop.request()
    for kind in ("out_of_order", "duplicate"):
        paypal_shop.inject_fault("callback", kind, match=request.attempt_id)
    outcome = await gateway.pay(request)
    await asyncio.to_thread(paypal_shop.approve, outcome.action_url)
    paid = await gateway.find_payment(request.attempt_id, outcome.provider_ref)
    notices = await asyncio.to_thread(paypal_shop.wait_for_notices, start, 3)
    assert type_of(notices[0]) == "PAYMENT.CAPTURE.COMPLETED"
    assert sorted(map(type_of, notices[1:])) == [
        "CHECKOUT.ORDER.APPROVED",
        "PAYMENT.CAPTURE.COMPLETED",
    ]
    events = [event for notice in notices for event in await read_notice(gateway, notice)]
    assert [event.outcome for event in events].count(paid) == 2


async def test_refunds_are_reported_with_those_made_at_paypal(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    attempt_id, capture_id = await paypal_shop.pay(gateway)
    start = len(paypal_shop.receiver.received)
    refund = paypal_shop.refund_request(attempt_id, capture_id, 400)
    await gateway.refund(refund)
    duplicate = paypal_shop.refund_request(attempt_id, capture_id, 99, refund_id=attempt_id)
    await gateway.refund(duplicate)
    made_there = await asyncio.to_thread(
        paypal_shop.api.post, f"/payments/{attempt_id}/refunds", json={"amount_minor": 500}
    )
    assert made_there.status_code == 201
    await asyncio.to_thread(paypal_shop.api.post, f"/refunds/{refund.refund_id}/reverse")
    notices = await asyncio.to_thread(paypal_shop.wait_for_notices, start, 4)
    events = [event for notice in notices for event in await read_notice(gateway, notice)]
    assert {
        (event.attempt_id, event.refund_id, event.outcome.status, event.amount)
        for event in events
        if isinstance(event, GatewayRefundEvent)
    } == {
        (attempt_id, refund.refund_id, "SUCCEEDED", Money(400, EUR)),
        (attempt_id, attempt_id, "SUCCEEDED", Money(99, EUR)),
        (attempt_id, "", "SUCCEEDED", Money(500, EUR)),
        (attempt_id, refund.refund_id, "REFUSED", Money(400, EUR)),
    }


DISPUTES: Final = (
    (("won",), "WON"),
    (("lost",), "LOST"),
    (("lost", "recovered"), "RECOVERED"),
)


@pytest.mark.parametrize(("steps", "expected"), DISPUTES)
async def test_a_dispute_is_reported_until_its_end(
    paypal_shop: PayPalShop,
    gateway: PayPalGateway,
    steps: tuple[str, ...],
    expected: DisputeStatus,
) -> None:
    attempt_id, capture_id = await paypal_shop.pay(gateway)
    start = len(paypal_shop.receiver.received)

    def dispute() -> list[Notice]:
        opened = paypal_shop.api.post(f"/payments/{attempt_id}/disputes").json()
        for step in steps:
            assert paypal_shop.api.post(f"/disputes/{opened['id']}/{step}").status_code == 200
        return paypal_shop.wait_for_notices(start, 1 + len(steps))

    notices = await asyncio.to_thread(dispute)
    events = [event for notice in notices for event in await read_notice(gateway, notice)]
    assert all(isinstance(event, GatewayDisputeEvent) for event in events)
    statuses = [event.status for event in events]
    assert set(statuses) == {"OPENED", *(("LOST",) if "lost" in steps else ()), expected}
    for event in events:
        assert (event.attempt_id, event.payment_ref) == (attempt_id, capture_id)
        assert (event.amount, event.reason) == (Money(999, EUR), "unauthorised")
        assert event.dispute_ref.startswith("PP-D-")
    opened = next(event for event in events if event.status == "OPENED")
    assert abs(opened.respond_by - now_ms() - 14 * DAY_MS) < 60_000
    assert await gateway.trace(capture_id) == attempt_id
    for other in ("5O190127TN364715T", "", "?"):
        assert await gateway.trace(other) == ""


# ── faults ──


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("wrong_signature", "its signature does not fit"),
        ("expired_certificate", r"its certificate is valid from 20\d\d-\d\d-\d\d to 20\d\d-"),
        ("other_account", "the payment is one of another account"),
    ],
)
async def test_a_webhook_that_is_not_genuine_is_refused(
    paypal_shop: PayPalShop, gateway: PayPalGateway, kind: str, expected: str
) -> None:
    request, order_id = await paypal_shop.start(gateway)
    paypal_shop.inject_fault("callback", kind, match=request.attempt_id)
    start = len(paypal_shop.receiver.received)
    await gateway.find_payment(request.attempt_id, order_id)
    (notice,) = await asyncio.to_thread(paypal_shop.wait_for_notices, start)
    with pytest.raises(BadCallback, match=expected):
        await read_notice(gateway, notice)


async def test_a_wrong_amount_is_reported_as_it_is(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    request, order_id = await paypal_shop.start(gateway)
    paypal_shop.inject_fault("callback", "wrong_amount", match=request.attempt_id)
    start = len(paypal_shop.receiver.received)
    await gateway.find_payment(request.attempt_id, order_id)
    (notice,) = await asyncio.to_thread(paypal_shop.wait_for_notices, start)
    (event,) = await read_notice(gateway, notice)
    assert event.outcome.amount == Money(1000, EUR)  # which OpenTill compares with the order


async def test_a_webhook_with_wrong_headers_is_refused(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    _, notice = await take_notice(paypal_shop, gateway)
    headers, body = notice
    own = headers["paypal-cert-url"]
    cases: tuple[tuple[dict[str, str], int, str], ...] = (
        ({}, 5 * DAY_MS, "more than four days ago"),
        ({}, -DAY_MS, "in the future"),
        ({"paypal-transmission-time": "2026-01-01T00:00:00Z"}, 0, "signature does not fit"),
        ({"paypal-transmission-id": "x"}, 0, "signature does not fit"),
        ({"paypal-transmission-id": "x" * 5000}, 0, "too long"),
        ({"paypal-transmission-sig": ""}, 0, "no signature"),
        ({"paypal-transmission-sig": "?"}, 0, "signature does not fit"),
        ({"paypal-auth-algo": "SHA1withRSA"}, 0, "is not SHA256withRSA"),
        ({"paypal-auth-algo": ""}, 0, "is not SHA256withRSA"),
        ({"paypal-cert-url": f"{own}0"}, 0, "cannot be downloaded: HTTP 404"),
        ({"paypal-cert-url": f"{own}?x=1"}, 0, "none of PayPal's for this account"),
        ({"paypal-cert-url": f"{own}/../x"}, 0, "none of PayPal's for this account"),
        ({"paypal-cert-url": "https://evil.example/CERT-1"}, 0, "none of PayPal's"),
        (
            {"paypal-cert-url": "https://api.paypal.com/v1/notifications/certs/CERT-1"},
            0,
            "none of PayPal's",
        ),
    )
    for changes, age_ms, expected in cases:
        with pytest.raises(BadCallback, match=expected):
            await read_notice(gateway, (headers | changes, body), age_ms)
    with pytest.raises(BadCallback, match="does not fit"):
        await read_notice(gateway, (headers, body + b" "))
    other = paypal_shop.gateway(webhook_id="0OTHER")
    with pytest.raises(BadCallback, match="for another webhook"):
        await read_notice(other, notice)
    await other.close()


async def test_bodies_that_cannot_be_read_are_refused(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    account = paypal.load(paypal_shop.folder.parent)
    assert account is not None
    capture = {"id": "2GG279541U471931P", "status": "COMPLETED", "custom_id": new_id("att")}
    bodies: tuple[tuple[Any, str], ...] = (
        ("[" * 5000, "format"),
        ({}, "format"),
        ({"event_type": "PAYMENT.CAPTURE.COMPLETED"}, "resource is not in PayPal's format"),
        ({"event_type": "CHECKOUT.ORDER.APPROVED", "resource": []}, "resource is not"),
        (
            create_event("CUSTOMER.DISPUTE.CREATED", create_dispute(dispute_amount={})),
            "no id or no amount",
        ),
        (
            create_event(
                "PAYMENT.CAPTURE.COMPLETED", capture | {"payee": {"merchant_id": "OTHER"}}
            ),
            "another account",
        ),
    )
    for content, expected in bodies:
        body = content.encode() if isinstance(content, str) else msgspec.json.encode(content)
        with pytest.raises(BadCallback, match=expected):
            await read_notice(gateway, _sign(paypal_shop, account, body))
    foreign = capture | {"custom_id": "order 7 of another shop"}
    for content in (
        {"event_type": "BILLING.PLAN.CREATED"},
        {"event_type": "PAYMENT.CAPTURE.REVERSED", "resource": {"id": 7}},
        create_event("PAYMENT.CAPTURE.COMPLETED", foreign),
        create_event("PAYMENT.CAPTURE.REFUNDED", {"id": "1", "status": "COMPLETED"}),
        create_event("CUSTOMER.DISPUTE.UPDATED", create_dispute(status="OTHER")),
        create_event("CHECKOUT.PAYMENT-APPROVAL.REVERSED", {"order_id": "5O190127TN364715T"}),
    ):
        notice = _sign(paypal_shop, account, msgspec.json.encode(content))
        assert await read_notice(gateway, notice) == ()


def _sign(shop: PayPalShop, account: paypal.Account, body: bytes) -> Notice:
    sent_at = time_of(now_ms())
    signature = account.current.sign("t", sent_at, shop.webhook_id, body)
    headers = {
        "paypal-transmission-id": "t",
        "paypal-transmission-time": sent_at,
        "paypal-transmission-sig": signature,
        "paypal-auth-algo": "SHA256withRSA",
        "paypal-cert-url": f"{shop.bank_url}/v1/notifications/certs/{account.current.name}",
    }
    return headers, body


async def test_forged_addresses_cause_few_downloads(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    _, (headers, body) = await take_notice(paypal_shop, gateway)
    patient = paypal_shop.gateway(pause_s=60)
    own = headers["paypal-cert-url"]
    forged = (headers | {"paypal-cert-url": f"{own}0"}, body)
    with pytest.raises(BadCallback, match="HTTP 404"):
        await read_notice(patient, forged)
    with pytest.raises(BadCallback, match="another download was just tried"):
        await read_notice(patient, (headers, body))
    patient._certificates._tried_at = float("-inf")
    assert await read_notice(patient, (headers, body))
    for number in range(20):
        patient._certificates._tried_at = float("-inf")
        await patient.fetch_keys({"paypal-cert-url": f"{own}{number}"})
    assert len(patient._certificates._failures) == 8
    assert await read_notice(patient, (headers, body))  # it is cached
    await patient.close()
