"""Faults of PayPal's own kinds, and captures; ``test_conformance`` has those of any provider."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec
import pytest

from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.gateways.model import PaymentStatus, RefundOutcome
from opentill.gateways.paypal import PayPalGateway
from support.paypal_shop import EUR, PayPalShop, id_of_age
from support.ports import free_socket, url_of


@pytest.fixture
async def gateway(paypal_shop: PayPalShop) -> AsyncIterator[PayPalGateway]:
    """A gateway."""
    gateway = paypal_shop.gateway()
    yield gateway
    await gateway.close()


@pytest.fixture
async def hasty_gateway(paypal_shop: PayPalShop) -> AsyncIterator[PayPalGateway]:
    """A gateway that waits for responses only for a short time."""
    gateway = paypal_shop.gateway(timeout_s=0.4)
    yield gateway
    await gateway.close()


PAY_FAULTS: Final = (
    # Each row: fault, times, and the outcome
    ("timeout_after", 1, "ACTION_REQUIRED"),
    ("reset_after", 1, "ACTION_REQUIRED"),
    ("slow", 1, "ACTION_REQUIRED"),
    ("other_account", 1, "UNKNOWN"),
)


@pytest.mark.parametrize(("kind", "times", "expected"), PAY_FAULTS)
async def test_an_order_without_a_usable_response_is_created_once(
    paypal_shop: PayPalShop,
    hasty_gateway: PayPalGateway,
    kind: str,
    times: int,
    expected: PaymentStatus,
) -> None:
    paypal_shop.inject_fault("pay", kind, times=times, **_delay(kind))
    request = paypal_shop.request()
    outcome = await hasty_gateway.pay(request)
    assert outcome.status == expected
    again = await hasty_gateway.pay(request)
    assert again.status == "ACTION_REQUIRED"
    if expected == "ACTION_REQUIRED":
        assert again == outcome


def _delay(kind: str) -> dict[str, float]:
    return {"delay_s": 1.0} if kind.startswith("timeout") else {"delay_s": 0.1}


CAPTURE_FAULTS: Final = (
    # Each row: fault, the outcome, and whether the money was taken
    ("timeout_before", "UNKNOWN", False),
    ("timeout_after", "UNKNOWN", True),
    ("error_500", "UNKNOWN", False),
    ("error_500_after", "UNKNOWN", True),
    ("reset", "UNKNOWN", False),
    ("reset_after", "UNKNOWN", True),
    ("slow", "SUCCEEDED", True),
    ("other_account", "UNKNOWN", True),
    ("wrong_amount", "SUCCEEDED", True),
)


@pytest.mark.parametrize(("kind", "expected", "is_taken"), CAPTURE_FAULTS)
async def test_a_capture_without_a_usable_response_is_done_once(
    paypal_shop: PayPalShop,
    hasty_gateway: PayPalGateway,
    kind: str,
    expected: PaymentStatus,
    is_taken: bool,
) -> None:
    request, order_id = await paypal_shop.start(hasty_gateway)
    paypal_shop.inject_fault("capture", kind, **_delay(kind))
    outcome = await hasty_gateway.find_payment(request.attempt_id, order_id)
    assert outcome.status == expected
    if kind == "wrong_amount":  # only OpenTill can compare it with the order
        assert outcome.amount == Money(1000, EUR)
    order = await asyncio.to_thread(paypal_shop.call, "GET", f"/v2/checkout/orders/{order_id}")
    assert order.json()["status"] == ("COMPLETED" if is_taken else "APPROVED")
    after = await hasty_gateway.find_payment(request.attempt_id, order_id)
    assert (after.status, after.amount) == ("SUCCEEDED", Money(999, EUR))
    # An order is not closed by mistake while its capture is unknown.
    assert await hasty_gateway.expire(request.attempt_id, order_id) == after


async def test_a_slow_capture_does_not_keep_the_customer_waiting(
    paypal_shop: PayPalShop, gateway: PayPalGateway
) -> None:
    request, order_id = await paypal_shop.start(gateway)
    paypal_shop.inject_fault("capture", "slow", delay_s=0.3)
    gateway._patience_s = 0.05
    outcome = await gateway.find_payment(request.attempt_id, order_id)
    assert (outcome.status, outcome.provider_ref, outcome.reason) == (
        "PENDING",
        order_id,
        "capturing",
    )
    (task,) = gateway._captures
    await task
    paid = await gateway.find_payment(request.attempt_id, order_id)
    assert (paid.status, gateway._captures) == ("SUCCEEDED", set())


QUERY_FAULTS: Final = ("error_500", "wrong_amount", "other_account")


@pytest.mark.parametrize("kind", QUERY_FAULTS)
async def test_a_query_without_a_usable_response_says_nothing(
    paypal_shop: PayPalShop, hasty_gateway: PayPalGateway, kind: str
) -> None:
    attempt_id, capture_id = await paypal_shop.pay(hasty_gateway)
    order_id = await asyncio.to_thread(paypal_shop.call_order, capture_id)
    for query in (hasty_gateway.find_payment, hasty_gateway.expire):
        paypal_shop.inject_fault("find", kind, **_delay(kind))
        outcome = await query(attempt_id, order_id)
        if kind == "wrong_amount":
            assert (outcome.status, outcome.amount) == ("SUCCEEDED", Money(1000, EUR))
        else:
            assert outcome.status == "UNKNOWN"
            assert outcome.reason


async def test_a_refund_reported_as_another_accounts_is_done_once(
    paypal_shop: PayPalShop, hasty_gateway: PayPalGateway
) -> None:
    attempt_id, capture_id = await paypal_shop.pay(hasty_gateway)
    refund = paypal_shop.refund_request(attempt_id, capture_id, 999)
    paypal_shop.inject_fault("refund", "other_account")
    assert (await hasty_gateway.refund(refund)).status == "UNKNOWN"
    assert (await hasty_gateway.find_refund(refund.refund_id, capture_id)).status == "SUCCEEDED"
    again = await hasty_gateway.refund(msgspec.structs.replace(refund, repeated=True))
    assert again.status == "SUCCEEDED"
    stored = await asyncio.to_thread(paypal_shop.bank_payment, attempt_id)
    assert stored["refunded_minor"] == 999


async def test_a_refund_of_an_unknown_capture_cannot_be_queried(
    hasty_gateway: PayPalGateway,
) -> None:
    assert (await hasty_gateway.find_refund(new_id("re"), "?")) == RefundOutcome(
        status="UNKNOWN", reason="no capture of PayPal's is known"
    )


async def test_nothing_is_sent_to_a_server_that_refuses_connections(
    paypal_shop: PayPalShop,
) -> None:
    sock = free_socket()
    url = url_of(sock)
    sock.close()
    gateway = paypal_shop.gateway(url=url)
    assert (await gateway.pay(paypal_shop.request())).status == "UNREACHABLE"
    refund = paypal_shop.refund_request(id_of_age(0), "ABC", 1)
    assert (await gateway.refund(refund)).status == "UNREACHABLE"
    assert (await gateway.find_refund(refund.refund_id, "ABC")).status == "UNREACHABLE"
    assert (await gateway.find_payment(id_of_age(0), "ABC")).status == "UNREACHABLE"
    assert await gateway.trace("ABC") is None
    assert "gave no usable response" in str(await gateway.check())
    await gateway.close()
