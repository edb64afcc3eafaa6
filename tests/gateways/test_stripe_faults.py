"""Stripe does not respond, refuses the key, or has expired the session."""

import time

import pytest

from gateways.stripe_gateways import create_gateway, create_payment, payment_request, refund_request
from opentill.core.ids import new_id
from opentill.gateways.stripe.client import StripeGateway
from opentill.outgoing.client import Outgoing, Policy
from support.ports import free_socket, url_of
from support.stripe_server import KEY, SECRET, StripeServer

FAULTS = ["409", "reset", "odd"]  # ``test_conformance`` has more


@pytest.mark.parametrize("fault", [*FAULTS, *(f"{fault}_after" for fault in FAULTS)])
async def test_a_lost_response_is_unknown_until_the_next_query(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer, fault: str
) -> None:
    request = payment_request()
    stripe_bank.inject_faults("open", fault)
    assert (await stripe_gateway.pay(request)).status == "UNKNOWN"
    stripe_bank.inject_faults(
        "list", *[fault.removesuffix("_after")] * (2 if "reset" in fault else 1)
    )
    assert (await stripe_gateway.find_payment(request.attempt_id)).status == "UNKNOWN"
    expected = "ACTION_REQUIRED" if fault.endswith("_after") else "NOT_FOUND"
    assert (await stripe_gateway.find_payment(request.attempt_id)).status == expected
    assert stripe_bank.count("open") == 1  # Stripe's library has not retried


@pytest.mark.parametrize("fault", [*FAULTS, *(f"{fault}_after" for fault in FAULTS)])
async def test_a_lost_response_to_a_refund_causes_no_second_refund(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer, fault: str
) -> None:
    attempt_id, intent = await create_payment(stripe_gateway, stripe_bank)
    request = refund_request(attempt_id, intent, 400)
    stripe_bank.inject_faults("refund", fault)
    assert (await stripe_gateway.refund(request)).status == "UNKNOWN"
    stripe_bank.forget_keys()  # Stripe forgets keys after a day
    repeated = await stripe_gateway.refund(request)
    assert repeated.status == "SUCCEEDED"
    assert [refund["amount"] for refund in stripe_bank.refunds.values()] == [400]
    assert await stripe_gateway.find_refund(request.refund_id, intent) == repeated
    stripe_bank.inject_faults("refunds", "500")
    assert (
        await stripe_gateway.refund(refund_request(attempt_id, intent, 100))
    ).status == "UNKNOWN"
    # No refund is created while the earlier ones cannot be listed.
    assert len(stripe_bank.refunds) == 1


async def test_a_timeout_after_sending_is_unknown(stripe_bank: StripeServer) -> None:
    stripe_gateway = create_gateway(stripe_bank.url, timeout_s=2.0)
    # This opens the connection, so that only the response can time out.
    await stripe_gateway.trace("pi_none")
    request = payment_request()
    stripe_bank.inject_faults("open", "hang_after")
    assert (await stripe_gateway.pay(request)).status == "UNKNOWN"
    assert stripe_bank.find_session(request.attempt_id)["status"] == "open"
    await stripe_gateway.close()


async def test_a_stripe_that_refuses_connections_is_unreachable() -> None:
    sock = free_socket()
    stripe_gateway = create_gateway(url_of(sock))
    assert (await stripe_gateway.pay(payment_request())).status == "UNREACHABLE"
    assert (await stripe_gateway.refund(refund_request("att_x", "pi_x", 1))).status == "UNREACHABLE"
    assert await stripe_gateway.trace("pi_x") is None
    await stripe_gateway.close()
    sock.close()


async def test_a_forbidden_address_is_unreachable(stripe_bank: StripeServer) -> None:
    outgoing = Outgoing(Policy())
    stripe_gateway = StripeGateway(KEY, (SECRET,), stripe_bank.url, outgoing)
    assert (await stripe_gateway.pay(payment_request())).status == "UNREACHABLE"
    assert stripe_bank.calls == []
    await stripe_gateway.close()


async def test_with_a_wrong_key_every_outcome_is_unknown_and_the_refusal_is_logged(
    stripe_bank: StripeServer, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    stripe_gateway = create_gateway(stripe_bank.url, "sk_test_wrong")
    assert (await stripe_gateway.pay(payment_request())).status == "UNKNOWN"
    assert (await stripe_gateway.find_payment(new_id("att"))).status == "UNKNOWN"
    assert (await stripe_gateway.refund(refund_request("att_x", "pi_x", 1))).status == "UNKNOWN"
    output = caplog.text + capsys.readouterr().out
    assert "stripe refuses our key" in output
    assert "sk_test_wrong" not in output
    await stripe_gateway.close()


async def test_an_expired_session_cannot_be_paid(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer
) -> None:
    request = payment_request()
    session = (await stripe_gateway.pay(request)).provider_ref
    expired = await stripe_gateway.expire(request.attempt_id, session)
    assert (expired.status, expired.reason) == ("DECLINED", "expired")
    assert stripe_bank.sessions[session]["status"] == "expired"
    assert await stripe_gateway.expire(request.attempt_id, session) == expired
    assert stripe_bank.count("expire") == 1


async def test_a_session_whose_id_was_lost_is_expired(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer
) -> None:
    request = payment_request()
    await stripe_gateway.pay(request)
    assert (await stripe_gateway.expire(request.attempt_id, "")).status == "DECLINED"
    assert (await stripe_gateway.expire(new_id("att"), "")).status == "NOT_FOUND"


async def test_a_payment_during_the_expiry_of_its_session_counts(
    stripe_gateway: StripeGateway, stripe_bank: StripeServer
) -> None:
    request = payment_request()
    session = (await stripe_gateway.pay(request)).provider_ref
    payers = iter([request.attempt_id])
    stripe_bank.after_read = lambda: [stripe_bank.pay(attempt_id) for attempt_id in payers]
    assert (await stripe_gateway.expire(request.attempt_id, session)).status == "SUCCEEDED"
    assert stripe_bank.count("expire") == 1


async def test_a_repeated_request_has_the_same_body_a_moment_later(
    stripe_gateway: StripeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stripe refuses another body under the same idempotency key."""
    request, real_ns = payment_request(), time.time_ns
    first = await stripe_gateway.pay(request)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + 50_000_000_000)
    assert await stripe_gateway.pay(request) == first
