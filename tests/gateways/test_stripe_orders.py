"""Orders are paid through Stripe in a running deployment.

Server and worker are one process. Customers submit the payment page's form and pay at a simulated
Stripe (``stripe_server``), which sends signed callbacks or none.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

import opentill
from support import pooler
from support.commands import ForkServer
from support.ports import free_port
from support.stripe_server import KEY, SECRET, StripeServer

_TIMEOUT_S: Final = 40.0


class Deployment:
    """``opentill serve`` with Stripe as its only gateway."""

    def __init__(
        self, directory: Path, database_url: str, bank: StripeServer, fork_server: ForkServer
    ) -> None:
        """Prepare the environment; the fixture ``api_server`` starts the process."""
        port = free_port()
        self._fork_server = fork_server
        self.bank = bank
        self.directory = directory
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx2.AsyncClient(base_url=self.url, trust_env=False, timeout=30)
        inherited = {
            name: text for name, text in os.environ.items() if not name.startswith("OPENTILL_")
        }
        self.environ = inherited | {
            "PYTHONPATH": str(Path(opentill.__file__).parents[1]),
            "OPENTILL_DATABASE_URL": database_url,
            "OPENTILL_DB_PREPARED": pooler.prepared_setting(database_url),
            "OPENTILL_DATA_DIR": str(directory / "data"),
            "OPENTILL_SECRET_KEY": "test-secret-key-test-secret-key-0123",
            "OPENTILL_PORT": str(port),
            "OPENTILL_LIMIT_IP_PER_MINUTE": "0",
            "OPENTILL_GATEWAYS": "stripe",
            "OPENTILL_GATEWAY_STRIPE_SECRET_KEY": KEY,
            "OPENTILL_GATEWAY_STRIPE_WEBHOOK_SECRET": f"whsec_new,{SECRET}",
            "OPENTILL_GATEWAY_STRIPE_API_BASE": bank.url,
        }

    async def command(self, *arguments: str) -> Any:
        """Run a command; return its JSON output."""
        request = ([*arguments, "--json"], self.environ, self.directory, b"")
        process = await asyncio.to_thread(self._fork_server.run, *request)
        assert process.returncode == 0, process.stderr.decode()
        return json.loads(process.stdout)

    async def api(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request as the merchant; return the response's data."""
        response = await self.http.request(
            method, path, json=body, headers={"x-api-key": self.environ["KEY"]}
        )
        assert response.status_code in (200, 201), response.text
        return response.json()["data"]

    async def open_session(self) -> tuple[str, str]:
        """Open a session; return its id and the id of its order."""
        product = await self.api(
            "POST", "/v1/products", {"name": "A mug", "price": "9.99", "currency": "USD"}
        )
        session = await self.api("POST", "/v1/checkouts", {"productId": product["id"]})
        stored_session = await self.api("GET", f"/v1/checkouts/{session['id']}")
        return session["id"], stored_session["orderId"]

    async def submit(self, session_id: str, method: str = "CREDIT_CARD") -> None:
        """Submit the payment page's form."""
        form = {"email": "ann@example.com", "name": "", "method": method, "lang": "en"}
        response = await self.http.post(f"/checkout/{session_id}", data=form)
        assert response.status_code == 303, response.text

    def newest_stripe_session(self) -> dict[str, Any]:
        """Return the newest session at Stripe."""
        return list(self.bank.sessions.values())[-1]

    async def start_attempt(self, session_id: str, method: str = "CREDIT_CARD") -> str:
        """Submit the form; return the id of the attempt, whose session is open at Stripe."""
        before = len(self.bank.sessions)
        await self.submit(session_id, method)
        assert len(self.bank.sessions) == before + 1
        attempt_id: str = self.newest_stripe_session()["client_reference_id"]
        page = await self.http.get(f"/checkout/{session_id}/continue/{attempt_id}")
        assert self.newest_stripe_session()["url"] in page.text
        return attempt_id

    async def send_event(
        self, event_type: str, stripe_object: dict[str, Any], secret: str = SECRET
    ) -> int:
        """Send a signed event; return the status of the response."""
        headers, body = self.bank.sign_event(event_type, stripe_object, secret)
        path = "/gateways/stripe/callback"
        return (await self.http.post(path, content=body, headers=headers)).status_code

    async def send_event_twice(self, event_type: str, stripe_object: dict[str, Any]) -> None:
        """Send an event twice; check that it is accepted."""
        for _ in range(2):
            assert await self.send_event(event_type, stripe_object) == 200

    async def wait_for_status(self, order_id: str, status: str) -> dict[str, Any]:
        """Wait until an order has a status; return the order."""

        async def find_order() -> Any:
            order = await self.api("GET", f"/v1/orders/{order_id}")
            return order if order["status"] == status else None

        order: dict[str, Any] = await wait_for(find_order)
        return order


async def wait_for(read_value: Callable[[], Awaitable[Any]]) -> Any:
    """Call a function until it returns a true value; return that value."""
    deadline = time.monotonic() + _TIMEOUT_S
    while not (value := await read_value()):
        assert time.monotonic() < deadline, "no true value before the deadline"
        await asyncio.sleep(0.1)
    return value


@pytest.fixture
async def api_server(
    tmp_path: Path, database_url: str, fork_server: ForkServer
) -> AsyncIterator[Deployment]:
    """A running deployment with a merchant; the integrity rules are checked at the end."""
    bank = StripeServer()
    await bank.start()
    api_server = Deployment(tmp_path, database_url, bank, fork_server)
    try:  # a server that is not stopped would keep the event loop open
        merchant = await api_server.command("merchants", "create", "Harbour Books")
        api_server.environ["KEY"] = (await api_server.command("keys", "create", merchant["id"]))[
            "key"
        ]
        async with _run_deployment(api_server, fork_server, tmp_path):
            yield api_server
    finally:
        await api_server.http.aclose()
        await bank.stop()


@asynccontextmanager
async def _run_deployment(
    api_server: Deployment, fork_server: ForkServer, tmp_path: Path
) -> AsyncIterator[None]:
    log = (tmp_path / "log").open("wb")
    process = fork_server.start(["serve"], api_server.environ, tmp_path, log.fileno())
    try:
        assert process.stdout is not None
        first_line = await asyncio.to_thread(process.stdout.readline)
        assert "is ready" in first_line, (tmp_path / "log").read_text()
        yield
        assert (await api_server.command("ledger", "check"))["violations"] == []
        log_text = (tmp_path / "log").read_text()
        assert "Traceback" not in log_text
        assert not any(
            secret in log_text for secret in (KEY, SECRET, "whsec_new", "ann@example.com")
        )
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, 60)
        process.stdout.close()
        log.close()


async def test_orders_are_paid_refunded_and_disputed_through_stripe(api_server: Deployment) -> None:
    answered_order, unsent_order = await lose_two_responses(api_server)
    await pay_refund_and_charge_back(api_server)
    await expire_session(api_server)
    await pay_twice(api_server)
    await send_unknown_and_forged_events(api_server)

    # By now the worker has queried the two attempts whose responses were lost.
    bank, (session_id, order_id) = api_server.bank, answered_order
    await api_server.wait_for_status(order_id, "PENDING")
    attempt_id = next(iter(bank.sessions.values()))["client_reference_id"]
    bank.pay(attempt_id)  # without an event, only the customer's return causes a query
    response = await api_server.http.get(f"/checkout/{session_id}/return/{attempt_id}")
    assert response.status_code == 303
    await api_server.wait_for_status(order_id, "PAID")

    session_id, order_id = unsent_order
    await api_server.wait_for_status(order_id, "PENDING")
    attempt_id = await api_server.start_attempt(session_id)
    bank.pay(attempt_id)
    await api_server.send_event_twice("checkout.session.completed", bank.find_session(attempt_id))
    await api_server.wait_for_status(order_id, "PAID")
    assert [session["payment_status"] for session in bank.sessions.values()].count("paid") == 5
    assert len(bank.refunds) == 2


async def test_a_refund_that_stripe_reverses_returns_the_merchants_money(
    api_server: Deployment,
) -> None:
    bank = api_server.bank
    order_id, _, _ = await pay_order(api_server)
    before = await api_server.api("GET", "/v1/balance")
    refund = await api_server.api("POST", f"/v1/orders/{order_id}/refunds", {})
    (stripe_refund,) = await wait_for(lambda: _list_values(bank.refunds))
    await api_server.wait_for_status(order_id, "REFUNDED")

    bank.reverse_refund(stripe_refund["id"])
    for event_type in ("refund.failed", "refund.updated", "charge.refund.updated"):
        await api_server.send_event_twice(event_type, stripe_refund)
    order = await api_server.wait_for_status(order_id, "PAID")
    assert (order["refundStatus"], order["refundedAmount"]) == ("NONE", "0")
    reversed_refund = await api_server.api("GET", f"/v1/refunds/{refund['id']}")
    assert (reversed_refund["status"], reversed_refund["errorMessage"]) == (
        "FAILED",
        "lost_or_stolen_card",
    )
    after = await api_server.api("GET", "/v1/balance")
    assert after | {"updatedAt": 0} == before | {"updatedAt": 0}
    events = (await api_server.api("GET", "/v1/events"))["items"]
    reversed_by_type = {
        event["type"]: event["data"].get("reversed")
        for event in events
        if "refund" in event["type"]
    }
    assert reversed_by_type == {"order.refunded": None, "refund.failed": True}
    (case,) = await api_server.command("refunds", "cases")
    assert (case["kind"], case["refundId"]) == ("REVERSED", refund["id"])

    await api_server.api("POST", f"/v1/orders/{order_id}/refunds", {"amount": "9.99"})
    await api_server.wait_for_status(order_id, "REFUNDED")


async def test_refunds_made_in_stripes_dashboard_are_refunds_of_their_order(
    api_server: Deployment,
) -> None:
    bank = api_server.bank
    order_id, _, intent = await pay_order(api_server)
    own_refund = await api_server.api("POST", f"/v1/orders/{order_id}/refunds", {"amount": "2.00"})
    (stripe_refund,) = await wait_for(lambda: _list_values(bank.refunds))
    # The event creates no second refund.
    await api_server.send_event_twice("refund.created", stripe_refund)

    bank.inject_faults("intent", "500")  # the first event cannot be traced to its payment
    refund = bank.refund_in_dashboard(intent, 300)
    assert await api_server.send_event("refund.created", refund) == 503
    await api_server.send_event_twice("refund.created", refund)
    pending_refund = bank.refund_in_dashboard(intent, 100, status="pending")
    await api_server.send_event_twice("refund.created", pending_refund)
    order = await api_server.api("GET", f"/v1/orders/{order_id}")
    assert order["refundedAmount"] == "5.00"
    pending_refund["status"] = "succeeded"
    # Endpoints that do not get ``refund.…`` events learn of all refunds from this event.
    await api_server.send_event_twice("charge.refunded", bank.charge(intent))
    order = await api_server.api("GET", f"/v1/orders/{order_id}")
    assert (order["refundedAmount"], order["refundStatus"]) == ("6.00", "PARTIAL")
    refunds = (await api_server.api("GET", f"/v1/orders/{order_id}/refunds"))["items"]
    assert sorted((row["source"], row["amount"], row["status"]) for row in refunds) == [
        ("GATEWAY", "1.00", "SUCCEEDED"),
        ("GATEWAY", "3.00", "SUCCEEDED"),
        ("REQUEST", "2.00", "SUCCEEDED"),
    ]
    assert own_refund["source"] == "REQUEST"
    assert (await api_server.api("GET", "/v1/balance"))["pending"] == "3.59"

    await api_server.send_event_twice("refund.failed", bank.reverse_refund(refund["id"]))
    order = await api_server.api("GET", f"/v1/orders/{order_id}")
    assert order["refundedAmount"] == "3.00"

    excessive_refund = bank.refund_in_dashboard(intent, 800)  # only 6.99 USD remain to be refunded
    await api_server.send_event_twice("refund.updated", excessive_refund)
    cases = await api_server.command("refunds", "cases")
    assert [(case["kind"], case["amount"]) for case in cases] == [
        ("UNMATCHED", "8.00"),
        ("REVERSED", "3.00"),
    ]
    assert "at most what is left to refund, 6.99 USD" in cases[0]["refusal"]


async def _list_values(objects: dict[str, Any]) -> list[Any]:
    return list(objects.values())


async def pay_order(api_server: Deployment) -> tuple[str, str, str]:
    """Pay an order at Stripe; return the ids of order, attempt and payment intent."""
    session_id, order_id = await api_server.open_session()
    attempt_id = await api_server.start_attempt(session_id)
    intent = api_server.bank.pay(attempt_id)
    await api_server.send_event_twice("payment_intent.succeeded", api_server.bank.intents[intent])
    await api_server.wait_for_status(order_id, "PAID")
    return order_id, attempt_id, intent


async def lose_two_responses(api_server: Deployment) -> tuple[tuple[str, str], tuple[str, str]]:
    """Lose two responses: one after Stripe has opened a session, one before it opens any.

    Return the ids of session and order for each.
    """
    answered_order = await api_server.open_session()
    api_server.bank.inject_faults("open", "500_after")
    await api_server.submit(answered_order[0])
    assert len(api_server.bank.sessions) == 1
    assert (await api_server.api("GET", f"/v1/orders/{answered_order[1]}"))["status"] == "CREATING"
    unsent_order = await api_server.open_session()
    api_server.bank.inject_faults("open", "500")
    await api_server.submit(unsent_order[0])
    assert len(api_server.bank.sessions) == 1
    return answered_order, unsent_order


async def pay_refund_and_charge_back(api_server: Deployment) -> None:
    """Pay, refund and dispute an order; Stripe sends all events."""
    bank = api_server.bank
    session_id, order_id = await api_server.open_session()
    attempt_id = await api_server.start_attempt(session_id)
    intent = bank.pay(attempt_id)
    await api_server.send_event_twice("checkout.session.completed", bank.find_session(attempt_id))
    await api_server.send_event_twice("payment_intent.succeeded", bank.intents[intent])
    order = await api_server.wait_for_status(order_id, "PAID")
    assert (order["paymentMethod"], order["amount"]) == ("CREDIT_CARD", "9.99")
    assert order["cardLast4"] is None  # neither event contains the card
    await api_server.send_event_twice("charge.succeeded", bank.charge(intent))
    order = await api_server.api("GET", f"/v1/orders/{order_id}")
    assert (order["cardBrand"], order["cardLast4"]) == ("mastercard", "4444")

    bank.refund_status = "pending"
    refund = await api_server.api("POST", f"/v1/orders/{order_id}/refunds", {"amount": "4.00"})

    (stripe_refund,) = await wait_for(lambda: _list_values(bank.refunds))
    assert stripe_refund["metadata"] == {"attempt_id": attempt_id, "refund_id": refund["id"]}
    bank.refund_status = stripe_refund["status"] = "succeeded"
    await api_server.send_event_twice("refund.updated", stripe_refund)
    assert (await api_server.api("GET", f"/v1/refunds/{refund['id']}"))["status"] == "SUCCEEDED"

    # This dispute belongs to another deployment on the same account, and its currency is not
    # supported.
    bank.intents["pi_other"] = bank.intents[intent] | {"id": "pi_other", "metadata": {}}
    await api_server.send_event_twice(
        "charge.dispute.created", bank.dispute("pi_other", "lost", currency="ang")
    )

    dispute_object = bank.dispute(intent, "needs_response", amount=599)
    bank.inject_faults("intent", "500")
    # Without its payment intent, the dispute cannot be traced to a payment.
    assert await api_server.send_event("charge.dispute.created", dispute_object) == 503
    await api_server.send_event_twice("charge.dispute.created", dispute_object)
    await api_server.wait_for_status(order_id, "DISPUTED")
    (dispute,) = (await api_server.api("GET", "/v1/disputes"))["items"]
    assert (dispute["amount"], dispute["reason"]) == ("5.99", "fraudulent")
    await api_server.send_event_twice(
        "charge.dispute.closed", bank.dispute(intent, "lost", -599, amount=599)
    )
    await api_server.wait_for_status(order_id, "CHARGEBACK")


async def expire_session(api_server: Deployment) -> None:
    """Expire a session whose customer is at Stripe; Stripe's session expires too."""
    session_id, order_id = await api_server.open_session()
    attempt_id = await api_server.start_attempt(session_id)
    await api_server.api("POST", f"/v1/checkouts/{session_id}/expire", {})
    await api_server.wait_for_status(order_id, "CLOSED")

    async def has_expired() -> bool:
        return api_server.bank.find_session(attempt_id)["status"] == "expired"

    await wait_for(has_expired)


async def pay_twice(api_server: Deployment) -> None:
    """Pay two attempts of an order before either is reported; the second payment is sent back."""
    bank = api_server.bank
    session_id, order_id = await api_server.open_session()
    first_attempt = await api_server.start_attempt(session_id)
    second_attempt = await api_server.start_attempt(session_id, "ALIPAY")
    bank.pay(first_attempt)
    duplicate = bank.pay(second_attempt)
    await api_server.send_event_twice(
        "checkout.session.completed", bank.find_session(first_attempt)
    )
    await api_server.wait_for_status(order_id, "PAID")

    async def find_refunds() -> Any:
        return [refund for refund in bank.refunds.values() if refund["payment_intent"] == duplicate]

    (refund,) = await wait_for(find_refunds)
    assert refund["amount"] == 999
    assert refund["metadata"] == {"attempt_id": second_attempt, "refund_id": second_attempt}


async def send_unknown_and_forged_events(api_server: Deployment) -> None:
    """Check that events about unknown attempts are accepted, and forged events refused."""
    session = next(iter(api_server.bank.sessions.values()))
    unknown_session = session | {"metadata": {"attempt_id": "att_01m7ycnbdeezytxdpghw7yqgsz"}}
    await api_server.send_event_twice("checkout.session.completed", unknown_session)
    assert await api_server.send_event("checkout.session.completed", session, "whsec_forged") == 400
