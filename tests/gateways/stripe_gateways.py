"""Gateways of Stripe in tests, and their payments and refunds."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.gateways import (
    PaymentRequest,
    RefundRequest,
)
from opentill.gateways.stripe.client import StripeGateway
from opentill.outgoing.client import Outgoing, Policy
from support.stripe_server import KEY, SECRET, StripeServer


def create_gateway(url: str, key: str = KEY, timeout_s: float = 5.0) -> StripeGateway:
    """Create a gateway that calls the server at a URL."""
    outgoing = Outgoing(Policy.only(url))
    return StripeGateway(key, (SECRET, "whsec_before"), url, outgoing, timeout_s)


@pytest.fixture
async def stripe_bank() -> AsyncIterator[StripeServer]:
    """A running server that simulates Stripe."""
    bank = StripeServer()
    await bank.start()
    yield bank
    await bank.stop()


@pytest.fixture
async def stripe_gateway(stripe_bank: StripeServer) -> AsyncIterator[StripeGateway]:
    """The gateway of the running server."""
    gateway = create_gateway(stripe_bank.url)
    yield gateway
    await gateway.close()


def payment_request(**changes: Any) -> PaymentRequest:
    """Return a request to pay 9.99 euros by card, with a new id."""
    request = PaymentRequest(
        attempt_id=new_id("att"),
        method="CREDIT_CARD",
        amount=Money(999, "EUR"),
        description="A mug",
        merchant_name="Mugs & <b>More</b>",
        customer_email="ann@example.com",
        customer_name=None,
        payer_ip="203.0.113.9",
        return_url="https://till.example/checkout/cs_x/return/att_y?lang=en",
        callback_url="https://till.example/gateways/stripe/callback",
        locale="zh-Hant",
    )
    return msgspec.structs.replace(request, **changes)


async def create_payment(gateway: StripeGateway, bank: StripeServer) -> tuple[str, str]:
    """Pay a new attempt; return its id and Stripe's id of the payment."""
    request = payment_request()
    await gateway.pay(request)
    return request.attempt_id, bank.pay(request.attempt_id)


def refund_request(attempt_id: str, provider_ref: str, minor: int, **changes: Any) -> RefundRequest:
    """Return a request to refund an amount of a payment."""
    request = RefundRequest(
        refund_id=new_id("re"),
        attempt_id=attempt_id,
        provider_ref=provider_ref,
        amount=Money(minor, "EUR"),
        reason="",
        callback_url="https://till.example/gateways/stripe/callback",
    )
    return msgspec.structs.replace(request, **changes)
