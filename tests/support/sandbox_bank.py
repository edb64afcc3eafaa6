"""Runs the sandbox bank and a receiver of callbacks on loopback, each in a thread."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec
import pytest
import uvicorn

from opentill.sandbox import Timing, create_app
from support.ports import free_socket, url_of

SECRET: Final = "a secret for tests"
FAST_TIMING: Final = Timing(
    processing_s=0.3,
    dispute_after_s=0.1,
    refund_fails_after_s=0.2,
    retry_s=(0.05, 0.1, 0.2),
    callback_timeout_s=3.0,
    block_s=0,
)
# With these times, payments stay "processing" long enough for a test to see it on a busy machine.
SLOW_TIMING: Final = msgspec.structs.replace(FAST_TIMING, processing_s=3600)
_TIMEOUT_S: Final = 120.0
_numbers = count(1)


@contextmanager
def serving(app: Any, sock: socket.socket) -> Iterator[None]:
    """Serve the application on the socket while the block runs."""
    config = uvicorn.Config(
        app,
        log_level="critical",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=60,  # in seconds; no client keeps a connection open so long
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([sock],), daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def wait_until(ready: Callable[[], Any], timeout_s: float = _TIMEOUT_S) -> Any:
    """Return the first true value of ``ready``."""
    end = time.monotonic() + timeout_s
    while not (value := ready()):
        if time.monotonic() > end:
            msg = f"not ready after {timeout_s} s"
            raise AssertionError(msg)
        time.sleep(0.01)
    return value


class Receiver:
    """Records callbacks in their order of arrival, and responds with ``status``."""

    def __init__(self) -> None:
        """The receiver responds with 200 unless a test changes ``status``."""
        self.url = ""
        self.status = 200
        self.received: list[tuple[dict[str, str], bytes]] = []
        # The status of the response to each request in ``received``.
        self.response_statuses: list[int] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            return
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        status = self.status
        self.response_statuses.append(status)
        self.received.append((headers, body))
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def callbacks_about(self, payment_id: str) -> list[dict[str, Any]]:
        """Return the callbacks about a payment."""
        bodies = [json.loads(body) for _, body in list(self.received)]
        # Late callbacks to an earlier server may arrive at the same port.
        return [body for body in bodies if body["data"].get("payment", {}).get("id") == payment_id]

    def statuses(self, payment_id: str) -> list[int]:
        """Return the status of the response to each callback about a payment."""
        bodies = [json.loads(body)["data"].get("payment", {}) for _, body in list(self.received)]
        return [
            status
            for payment, status in zip(bodies, self.response_statuses, strict=False)
            if payment.get("id") == payment_id
        ]

    def types(self, payment_id: str) -> list[str]:
        """Return the types of the callbacks about a payment."""
        return [body["type"] for body in self.callbacks_about(payment_id)]

    def wait_for(self, payment_id: str, kind: str, times: int = 1) -> dict[str, Any]:
        """Wait for the nth callback of a type, and return it."""

        def arrived() -> dict[str, Any] | None:
            callbacks = [body for body in self.callbacks_about(payment_id) if body["type"] == kind]
            return callbacks[times - 1] if len(callbacks) >= times else None

        callback: dict[str, Any] = wait_until(arrived)
        return callback


class Shop:
    """A shop that calls the bank's API, and its customer's browser."""

    def __init__(self, bank_url: str, receiver: Receiver) -> None:
        """``receiver`` gets the bank's callbacks."""
        self.bank_url = bank_url
        self.receiver = receiver
        self.api = httpx2.Client(
            base_url=bank_url,
            headers={"Authorization": f"Bearer {SECRET}"},
            timeout=60,
            trust_env=False,
        )
        self.browser = httpx2.Client(
            base_url=bank_url, timeout=60, trust_env=False, follow_redirects=True
        )

    def close(self) -> None:
        """Close connections."""
        self.api.close()
        self.browser.close()

    def payment_request(self, **changes: Any) -> dict[str, Any]:
        """Return the body that starts a payment of 9.99 euro by card, with a new id."""
        return {
            "id": f"att_{next(_numbers):020}",
            "amount_minor": 999,
            "currency": "EUR",
            "method": "CREDIT_CARD",
            "description": "A mug",
            "merchant_name": "Mugs & <b>More</b>",
            "customer_email": "ann@example.com",
            "return_url": "http://shop.example/back?a=1&b=2",
            "callback_url": f"{self.receiver.url}/callback",
            "locale": "en",
        } | changes

    def start_payment(self, **changes: Any) -> str:
        """Start a payment and return its id."""
        response = self.api.post("/payments", json=self.payment_request(**changes))
        assert response.status_code == 201, response.text
        return str(response.json()["id"])

    def find_payment(self, payment_id: str) -> dict[str, Any]:
        """Query a payment."""
        payment: dict[str, Any] = self.api.get(f"/payments/{payment_id}").json()
        return payment

    def type_card(self, payment_id: str, number: str, **fields: str) -> httpx2.Response:
        """Submit the card form and follow redirects."""
        form = {"number": number, "exp": "12/34", "csc": "123"} | fields
        return self.browser.post(f"/pay/{payment_id}", data=form)

    def create_paid_payment(self, number: str = "4242424242424242", **changes: Any) -> str:
        """Create a payment, pay it by card and return its id."""
        payment_id = self.start_payment(**changes)
        self.type_card(payment_id, number)
        assert self.find_payment(payment_id)["status"] == "succeeded"
        return payment_id

    def refund(self, payment_id: str, amount_minor: int, **changes: Any) -> httpx2.Response:
        """Request a refund."""
        body = {
            "id": f"re_{next(_numbers):020}",
            "payment_id": payment_id,
            "amount_minor": amount_minor,
            "currency": "EUR",
            "callback_url": f"{self.receiver.url}/callback",
        } | changes
        return self.api.post("/refunds", json=body)

    def inject_fault(self, operation: str, kind: str, **options: Any) -> None:
        """Inject a fault."""
        response = self.api.post("/faults", json={"operation": operation, "kind": kind, **options})
        assert response.status_code == 201, response.text


@contextmanager
def running_bank(
    data_dir: Path, sock: socket.socket, timing: Timing = FAST_TIMING
) -> Iterator[str]:
    """Run the bank while the block runs."""
    url = url_of(sock)
    app = create_app(data_dir=data_dir, secret=SECRET, public_url=url, timing=timing)
    with serving(app, sock):
        yield url


@pytest.fixture(scope="session")
def receiver() -> Iterator[Receiver]:
    """The receiver of callbacks."""
    receiver, sock = Receiver(), free_socket()
    receiver.url = url_of(sock)
    with serving(receiver, sock):
        yield receiver


@pytest.fixture(scope="session")
def bank_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the bank."""
    with running_bank(tmp_path_factory.mktemp("bank"), free_socket()) as url:
        yield url


@pytest.fixture(scope="session")
def slow_bank_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a bank that processes payments slowly."""
    with running_bank(tmp_path_factory.mktemp("calm-bank"), free_socket(), SLOW_TIMING) as url:
        yield url


@pytest.fixture
def slow_bank_shop(slow_bank_url: str, receiver: Receiver) -> Iterator[Shop]:
    """A shop of the slow bank."""
    shop = Shop(slow_bank_url, receiver)
    yield shop
    shop.close()


@pytest.fixture
def shop(bank_url: str, receiver: Receiver) -> Iterator[Shop]:
    """A shop of the bank; unused faults are removed after the test."""
    shop = Shop(bank_url, receiver)
    yield shop
    shop.api.delete("/faults")
    shop.close()
