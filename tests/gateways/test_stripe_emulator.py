"""The Stripe gateway works with ``localstripe``, an independent emulator of Stripe, as a process.

The emulator has payments, refunds and their signed events. It lacks Checkout Sessions, disputes and
idempotency keys, which ``stripe_server`` simulates.
"""

import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import httpx2
import pytest

from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.gateways import GatewayPaymentEvent, PaymentOutcome, PaymentRequest, RefundRequest
from opentill.gateways.stripe.client import StripeGateway
from opentill.outgoing.client import Outgoing, Policy
from support.ports import free_port
from support.sandbox_bank import Receiver, wait_until

KEY: Final = "sk_test_emulator"
SECRET: Final = "whsec_emulator"


@pytest.fixture(scope="module")
def emulator() -> Iterator[httpx2.Client]:
    """An API client of the running emulator."""
    port = free_port()
    program = "from localstripe.server import start; start()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "--from-scratch", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    client = httpx2.Client(
        base_url=f"http://127.0.0.1:{port}",
        headers={"Authorization": f"Bearer {KEY}"},
        trust_env=False,
        timeout=20,
    )

    def responds() -> bool:
        try:
            return client.get("/v1/refunds").status_code == 200
        except httpx2.TransportError:
            return False

    try:
        wait_until(responds)
        yield client
    finally:
        client.close()
        process.terminate()
        process.wait(20)


@pytest.fixture
async def gateway(emulator: httpx2.Client) -> AsyncIterator[StripeGateway]:
    """The gateway of the running emulator."""
    url = str(emulator.base_url).rstrip("/")
    gateway = StripeGateway(KEY, (SECRET,), url, Outgoing(Policy.only(url)))
    yield gateway
    await gateway.close()


def take_card(emulator: httpx2.Client, attempt_id: str, number: str = "4242424242424242") -> Any:
    """Pay 9.99 dollars by card, with the metadata that Checkout sets; return the payment intent."""
    card = {"number": number, "exp_month": "12", "exp_year": "2034", "cvc": "123"}
    form = {"type": "card"} | {f"card[{name}]": value for name, value in card.items()}
    method = emulator.post("/v1/payment_methods", data=form).json()
    intent = {
        "amount": "999",
        "currency": "usd",
        "payment_method": method["id"],
        "metadata[attempt_id]": attempt_id,
        "confirm": "true",
    }
    return emulator.post("/v1/payment_intents", data=intent).json()


async def test_a_payment_is_found_traced_and_refunded_in_parts(
    emulator: httpx2.Client, gateway: StripeGateway
) -> None:
    attempt_id = new_id("att")
    intent = take_card(emulator, attempt_id)["id"]
    outcome = await gateway.find_payment(attempt_id, intent)
    assert (outcome.status, outcome.amount) == ("SUCCEEDED", Money(999, "USD"))
    assert await gateway.trace(intent) == attempt_id
    refund_requests = [
        RefundRequest(
            refund_id=new_id("re"), attempt_id=attempt_id, provider_ref=intent,
            amount=Money(minor, "USD"), reason="", callback_url="",
        )
        for minor in (400, 599)
    ]  # fmt: skip
    for request in refund_requests:
        assert (await gateway.find_refund(request.refund_id, intent)).status == "NOT_FOUND"
        refund = await gateway.refund(request)
        assert refund.status == "SUCCEEDED"
        # The emulator ignores idempotency keys, so the gateway must search for the refund first.
        assert await gateway.refund(request) == refund
        assert await gateway.find_refund(request.refund_id, intent) == refund
    stripe_refunds = emulator.get("/v1/refunds", params={"payment_intent": intent}).json()["data"]
    assert sorted(refund["amount"] for refund in stripe_refunds) == [400, 599]


async def test_signed_events_of_the_emulator_are_read(
    emulator: httpx2.Client, gateway: StripeGateway, receiver: Receiver
) -> None:
    webhook = {"url": f"{receiver.url}/callback", "secret": SECRET}
    assert emulator.post("/_config/webhooks/ours", json=webhook).status_code == 200
    attempt_id = new_id("att")
    intent = take_card(emulator, attempt_id)["id"]

    def find_callbacks() -> Any:
        return [callback for callback in list(receiver.received) if intent.encode() in callback[1]]

    headers, body = wait_until(find_callbacks)[0]
    (gateway_event,) = gateway.read_callback(headers, body, int(time.time() * 1000))
    assert gateway_event == GatewayPaymentEvent(
        attempt_id=attempt_id,
        outcome=PaymentOutcome(
            status="SUCCEEDED", provider_ref=intent, amount=Money(999, "USD")
        ),
    )  # fmt: skip


async def test_requests_that_the_emulator_does_not_support_are_unknown(
    gateway: StripeGateway,
) -> None:
    request = PaymentRequest(
        attempt_id=new_id("att"), method="CREDIT_CARD", amount=Money(999, "USD"),
        description="A mug", merchant_name="Mugs", customer_email="", customer_name=None,
        payer_ip="", return_url="https://till.example/x", callback_url="", locale="en",
    )  # fmt: skip
    assert (await gateway.pay(request)).status == "UNKNOWN"
    assert (await gateway.find_payment(request.attempt_id)).status == "UNKNOWN"
    assert (await gateway.find_payment(request.attempt_id, "pi_never")).status == "UNKNOWN"
