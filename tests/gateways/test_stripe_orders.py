"""Orders paid through Stripe in a running deployment, whose server and worker are a process.

Customers submit the payment page's form and pay at a simulated Stripe (``stripe_server``),
which reports with signed callbacks or not at all.
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

_PATIENCE_S: Final = 40.0


class Deployment:
    """``opentill serve`` with Stripe as its only gateway."""

    def __init__(
        self, directory: Path, database_url: str, bank: StripeServer, fork_server: ForkServer
    ) -> None:
        """Use the fixture."""
        port = free_port()
        self._fork_server = fork_server
        self.bank = bank
        self.directory = directory
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx2.AsyncClient(base_url=self.url, trust_env=False, timeout=30)
        bare = {name: text for name, text in os.environ.items() if not name.startswith("OPENTILL_")}
        self.environ = bare | {
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

    async def command(self, *words: str) -> Any:
        """Run a command and return its JSON output."""
        request = ([*words, "--json"], self.environ, self.directory, b"")
        ran = await asyncio.to_thread(self._fork_server.run, *request)
        assert ran.returncode == 0, ran.stderr.decode()
        return json.loads(ran.stdout)

    async def api(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request as the merchant and return its data."""
        answer = await self.http.request(
            method, path, json=body, headers={"x-api-key": self.environ["KEY"]}
        )
        assert answer.status_code in (200, 201), answer.text
        return answer.json()["data"]

    async def order(self) -> tuple[str, str]:
        """Open a session; return its id and its order's."""
        product = await self.api(
            "POST", "/v1/products", {"name": "A mug", "price": "9.99", "currency": "USD"}
        )
        session = await self.api("POST", "/v1/checkouts", {"productId": product["id"]})
        seen = await self.api("GET", f"/v1/checkouts/{session['id']}")
        return session["id"], seen["orderId"]

    async def submit(self, session_id: str, method: str = "CREDIT_CARD") -> None:
        """Submit the payment page's form."""
        form = {"email": "ann@example.com", "name": "", "method": method, "lang": "en"}
        answer = await self.http.post(f"/checkout/{session_id}", data=form)
        assert answer.status_code == 303, answer.text

    def last(self) -> dict[str, Any]:
        """Return the latest session at Stripe."""
        return list(self.bank.sessions.values())[-1]

    async def attempt(self, session_id: str, method: str = "CREDIT_CARD") -> str:
        """Submit the form and return the attempt, whose session is open at Stripe."""
        before = len(self.bank.sessions)
        await self.submit(session_id, method)
        assert len(self.bank.sessions) == before + 1
        attempt_id: str = self.last()["client_reference_id"]
        page = await self.http.get(f"/checkout/{session_id}/continue/{attempt_id}")
        assert self.last()["url"] in page.text
        return attempt_id

    async def send(self, kind: str, about: dict[str, Any], secret: str = SECRET) -> int:
        """Send a signed event and return the status of the response."""
        headers, body = self.bank.sign_event(kind, about, secret)
        path = "/gateways/stripe/callback"
        return (await self.http.post(path, content=body, headers=headers)).status_code

    async def report(self, kind: str, about: dict[str, Any]) -> None:
        """Send an event twice and assert that it was accepted."""
        for _ in range(2):
            assert await self.send(kind, about) == 200

    async def becomes(self, order_id: str, status: str) -> dict[str, Any]:
        """Wait until the order has a status."""

        async def look() -> Any:
            order = await self.api("GET", f"/v1/orders/{order_id}")
            return order if order["status"] == status else None

        order: dict[str, Any] = await until(look)
        return order


async def until(look: Callable[[], Awaitable[Any]]) -> Any:
    """Return the first true value of ``look``."""
    end = time.monotonic() + _PATIENCE_S
    while not (value := await look()):
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.1)
    return value


@pytest.fixture
async def api_server(
    tmp_path: Path, database_url: str, fork_server: ForkServer
) -> AsyncIterator[Deployment]:
    """Serve a merchant, and check the integrity rules at the end."""
    bank = StripeServer()
    await bank.start()
    api_server = Deployment(tmp_path, database_url, bank, fork_server)
    try:  # a listening server that nobody stops would keep the loop from closing
        merchant = await api_server.command("merchants", "create", "Harbour Books")
        api_server.environ["KEY"] = (await api_server.command("keys", "create", merchant["id"]))[
            "key"
        ]
        async with _served(api_server, fork_server, tmp_path):
            yield api_server
    finally:
        await api_server.http.aclose()
        await bank.stop()


@asynccontextmanager
async def _served(
    api_server: Deployment, fork_server: ForkServer, tmp_path: Path
) -> AsyncIterator[None]:
    log = (tmp_path / "log").open("wb")
    process = fork_server.start(["serve"], api_server.environ, tmp_path, log.fileno())
    try:
        assert process.stdout is not None
        ready = await asyncio.to_thread(process.stdout.readline)
        assert "is ready" in ready, (tmp_path / "log").read_text()
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
    lost, never = await lose_two_responses(api_server)
    await pay_refund_and_charge_back(api_server)
    await expire_by_merchant(api_server)
    await pay_twice(api_server)
    await send_foreign_events(api_server)

    # By now the worker has queried the two attempts whose responses were lost.
    bank, (session_id, order_id) = api_server.bank, lost
    await api_server.becomes(order_id, "PENDING")
    attempt_id = next(iter(bank.sessions.values()))["client_reference_id"]
    bank.pay(attempt_id)  # and nobody reports it: the customer comes back
    answer = await api_server.http.get(f"/checkout/{session_id}/return/{attempt_id}")
    assert answer.status_code == 303
    await api_server.becomes(order_id, "PAID")

    session_id, order_id = never
    await api_server.becomes(order_id, "PENDING")
    attempt_id = await api_server.attempt(session_id)
    bank.pay(attempt_id)
    await api_server.report("checkout.session.completed", bank.find_session(attempt_id))
    await api_server.becomes(order_id, "PAID")
    assert [s["payment_status"] for s in bank.sessions.values()].count("paid") == 5
    assert len(bank.refunds) == 2


async def test_a_refund_that_stripe_reverses_returns_the_merchants_money(
    api_server: Deployment,
) -> None:
    bank = api_server.bank
    order_id, _, _ = await pay_order(api_server)
    before = await api_server.api("GET", "/v1/balance")
    refund = await api_server.api("POST", f"/v1/orders/{order_id}/refunds", {})
    (at_stripe,) = await until(lambda: _all(bank.refunds))
    await api_server.becomes(order_id, "REFUNDED")

    bank.reverse_refund(at_stripe["id"])
    for kind in ("refund.failed", "refund.updated", "charge.refund.updated"):
        await api_server.report(kind, at_stripe)
    order = await api_server.becomes(order_id, "PAID")
    assert (order["refundStatus"], order["refundedAmount"]) == ("NONE", "0")
    seen = await api_server.api("GET", f"/v1/refunds/{refund['id']}")
    assert (seen["status"], seen["errorMessage"]) == ("FAILED", "lost_or_stolen_card")
    after = await api_server.api("GET", "/v1/balance")
    assert after | {"updatedAt": 0} == before | {"updatedAt": 0}
    events = (await api_server.api("GET", "/v1/events"))["items"]
    reported = {
        event["type"]: event["data"].get("reversed")
        for event in events
        if "refund" in event["type"]
    }
    assert reported == {"order.refunded": None, "refund.failed": True}
    (case,) = await api_server.command("refunds", "cases")
    assert (case["kind"], case["refundId"]) == ("REVERSED", refund["id"])

    await api_server.api("POST", f"/v1/orders/{order_id}/refunds", {"amount": "9.99"})
    await api_server.becomes(order_id, "REFUNDED")


async def test_refunds_made_in_stripes_dashboard_are_refunds_of_their_order(
    api_server: Deployment,
) -> None:
    bank = api_server.bank
    order_id, _, intent = await pay_order(api_server)
    own = await api_server.api("POST", f"/v1/orders/{order_id}/refunds", {"amount": "2.00"})
    await until(lambda: _all(bank.refunds))
    (at_stripe,) = bank.refunds.values()
    await api_server.report("refund.created", at_stripe)  # ours is no foreign one

    bank.inject_faults("intent", "500")  # whose payment it is, Stripe does not say at once
    first = bank.refund_in_dashboard(intent, 300)
    assert await api_server.send("refund.created", first) == 503
    await api_server.report("refund.created", first)
    second = bank.refund_in_dashboard(intent, 100, status="pending")
    await api_server.report("refund.created", second)
    order = await api_server.api("GET", f"/v1/orders/{order_id}")
    assert order["refundedAmount"] == "5.00"
    second["status"] = "succeeded"
    # An endpoint that gets no ``refund.…`` hears of all of them by this one.
    await api_server.report("charge.refunded", bank.charge(intent))
    order = await api_server.api("GET", f"/v1/orders/{order_id}")
    assert (order["refundedAmount"], order["refundStatus"]) == ("6.00", "PARTIAL")
    listed = (await api_server.api("GET", f"/v1/orders/{order_id}/refunds"))["items"]
    assert sorted((one["source"], one["amount"], one["status"]) for one in listed) == [
        ("GATEWAY", "1.00", "SUCCEEDED"),
        ("GATEWAY", "3.00", "SUCCEEDED"),
        ("REQUEST", "2.00", "SUCCEEDED"),
    ]
    assert own["source"] == "REQUEST"
    assert (await api_server.api("GET", "/v1/balance"))["pending"] == "3.59"

    await api_server.report("refund.failed", bank.reverse_refund(first["id"]))
    order = await api_server.api("GET", f"/v1/orders/{order_id}")
    assert order["refundedAmount"] == "3.00"

    other = bank.refund_in_dashboard(intent, 800)  # more than is left
    await api_server.report("refund.updated", other)
    cases = await api_server.command("refunds", "cases")
    assert [(one["kind"], one["amount"]) for one in cases] == [
        ("UNMATCHED", "8.00"),
        ("REVERSED", "3.00"),
    ]
    assert "at most what is left to refund, 6.99 USD" in cases[0]["refusal"]


async def _all(things: dict[str, Any]) -> list[Any]:
    return list(things.values())


async def pay_order(api_server: Deployment) -> tuple[str, str, str]:
    """Pay an order at Stripe; return the ids of order, attempt and payment."""
    session_id, order_id = await api_server.order()
    attempt_id = await api_server.attempt(session_id)
    intent = api_server.bank.pay(attempt_id)
    await api_server.report("payment_intent.succeeded", api_server.bank.intents[intent])
    await api_server.becomes(order_id, "PAID")
    return order_id, attempt_id, intent


async def lose_two_responses(api_server: Deployment) -> tuple[tuple[str, str], tuple[str, str]]:
    """Lose a response after Stripe opened a session, and one before it did anything."""
    lost = await api_server.order()
    api_server.bank.inject_faults("open", "500_after")
    await api_server.submit(lost[0])
    assert len(api_server.bank.sessions) == 1
    assert (await api_server.api("GET", f"/v1/orders/{lost[1]}"))["status"] == "CREATING"
    never = await api_server.order()
    api_server.bank.inject_faults("open", "500")
    await api_server.submit(never[0])
    assert len(api_server.bank.sessions) == 1
    return lost, never


async def pay_refund_and_charge_back(api_server: Deployment) -> None:
    """Pay, refund and dispute an order, with all reports."""
    bank = api_server.bank
    session_id, order_id = await api_server.order()
    attempt_id = await api_server.attempt(session_id)
    intent = bank.pay(attempt_id)
    await api_server.report("checkout.session.completed", bank.find_session(attempt_id))
    await api_server.report("payment_intent.succeeded", bank.intents[intent])
    paid = await api_server.becomes(order_id, "PAID")
    assert (paid["paymentMethod"], paid["amount"]) == ("CREDIT_CARD", "9.99")
    assert paid["cardLast4"] is None  # neither of the two has the card
    await api_server.report("charge.succeeded", bank.charge(intent))
    paid = await api_server.api("GET", f"/v1/orders/{order_id}")
    assert (paid["cardBrand"], paid["cardLast4"]) == ("mastercard", "4444")

    bank.refund_status = "pending"
    refund = await api_server.api("POST", f"/v1/orders/{order_id}/refunds", {"amount": "4.00"})

    async def sent() -> Any:
        return list(bank.refunds.values())

    (refund_at_stripe,) = await until(sent)
    assert refund_at_stripe["metadata"] == {"attempt_id": attempt_id, "refund_id": refund["id"]}
    bank.refund_status = refund_at_stripe["status"] = "succeeded"
    await api_server.report("refund.updated", refund_at_stripe)
    assert (await api_server.api("GET", f"/v1/refunds/{refund['id']}"))["status"] == "SUCCEEDED"

    # A dispute of another deployment on the same account, in an unsupported currency.
    bank.intents["pi_other"] = bank.intents[intent] | {"id": "pi_other", "metadata": {}}
    await api_server.report(
        "charge.dispute.created", bank.dispute("pi_other", "lost", currency="ang")
    )

    about = bank.dispute(intent, "needs_response", amount=599)
    bank.inject_faults("intent", "500")
    assert await api_server.send("charge.dispute.created", about) == 503  # not known whose it is
    await api_server.report("charge.dispute.created", about)
    await api_server.becomes(order_id, "DISPUTED")
    (dispute,) = (await api_server.api("GET", "/v1/disputes"))["items"]
    assert (dispute["amount"], dispute["reason"]) == ("5.99", "fraudulent")
    await api_server.report("charge.dispute.closed", bank.dispute(intent, "lost", -599, amount=599))
    await api_server.becomes(order_id, "CHARGEBACK")


async def expire_by_merchant(api_server: Deployment) -> None:
    """Expire a session whose customer is at Stripe; its session there expires too."""
    session_id, order_id = await api_server.order()
    attempt_id = await api_server.attempt(session_id)
    await api_server.api("POST", f"/v1/checkouts/{session_id}/expire", {})
    await api_server.becomes(order_id, "CLOSED")

    async def closed() -> bool:
        return api_server.bank.find_session(attempt_id)["status"] == "expired"

    await until(closed)


async def pay_twice(api_server: Deployment) -> None:
    """Pay two sessions before either is reported; the second payment is refunded."""
    bank = api_server.bank
    session_id, order_id = await api_server.order()
    first = await api_server.attempt(session_id)
    second = await api_server.attempt(session_id, "ALIPAY")
    bank.pay(first)
    twice = bank.pay(second)
    await api_server.report("checkout.session.completed", bank.find_session(first))
    await api_server.becomes(order_id, "PAID")

    async def given_back() -> Any:
        return [refund for refund in bank.refunds.values() if refund["payment_intent"] == twice]

    (refund,) = await until(given_back)
    assert refund["amount"] == 999
    assert refund["metadata"] == {"attempt_id": second, "refund_id": second}


async def send_foreign_events(api_server: Deployment) -> None:
    """Events about unknown attempts are accepted, forged ones are refused."""
    about = next(iter(api_server.bank.sessions.values()))
    other = about | {"metadata": {"attempt_id": "att_01m7ycnbdeezytxdpghw7yqgsz"}}
    await api_server.report("checkout.session.completed", other)
    assert await api_server.send("checkout.session.completed", about, "whsec_forged") == 400
