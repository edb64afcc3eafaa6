"""A server on loopback for tests of the API, and merchants that call it.

The server runs in a thread with its own event loop, so that synchronous tests can use it. Tests
write only through services and requests, so that they test only states that can occur. The ledger
is checked when the server stops.
"""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
import msgspec
import pytest
import uvloop

from opentill import adjustments, disputes, merchants, orders, payouts, rates, refunds
from opentill.app import create_app
from opentill.context import App
from opentill.core.settings import Settings
from opentill.db import rate_limits
from opentill.db.clock import now_ms
from opentill.db.database import Tx
from opentill.gateways.model import RefundOutcome
from opentill.payouts import PayoutRequest
from opentill.server import http_server
from support.books import ledger_violations
from support.databases import cloned_database
from support.ports import free_port
from support.world import new_reference

T = TypeVar("T")
_numbers: Final = itertools.count(1)
SECRETS: Final = {
    "secret_key": "test-secret-key-test-secret-key-0123",
    "sandbox_secret": "test-sandbox-secret-0123456789abcd",
}
TEA: Final = {"name": "Tea", "price": "9.99", "currency": "USD"}
SUCCEEDED: Final = {200, 201}
BUSY: Final = 503


class Shop:
    """A merchant with an API key, and its requests to the API."""

    def __init__(self, api_server: "ApiServer", merchant_id: str, key: merchants.NewKey) -> None:
        """Use ``ApiServer.create_shop``."""
        self.api_server = api_server
        self.id = merchant_id
        self.key = key.key
        self.key_id = key.id

    def call(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send a request with the API key; headers that are None are omitted."""
        headers = {"x-api-key": self.key} | (options.pop("headers", None) or {})
        headers = {name: value for name, value in headers.items() if value is not None}
        return self.api_server.http.request(method, path, headers=headers, **options)

    def get(self, path: str, **query: Any) -> httpx2.Response:
        """GET with query parameters."""
        return self.call("GET", path, params=query or None)

    def post(self, path: str, body: Any = None, key: str | None = None) -> httpx2.Response:
        """POST a JSON body; ``key`` is the idempotency key."""
        return self.call("POST", path, json=body, headers={"idempotency-key": key})

    def post_until_decided(self, path: str, body: Any = None, key: str | None = None) -> Any:
        """POST, and repeat it after each 503, as clients should.

        Tests use it for many concurrent requests: on a busy machine some of them wait too long
        for a database connection.
        """
        while (response := self.post(path, body, key)).status_code == BUSY:
            assert response.headers["retry-after"]
        return response

    def data(self, method: str, path: str, **options: Any) -> Any:
        """Send a request that must succeed and return ``data``."""
        response = self.call(method, path, **options)
        assert response.status_code in SUCCEEDED, response.text
        return response.json()["data"]

    def create_product(self, **changes: Any) -> dict[str, Any]:
        """Create a product."""
        product: dict[str, Any] = self.data("POST", "/v1/products", json=TEA | changes)
        return product

    def create_session(self, product_id: str | None = None, **changes: Any) -> dict[str, Any]:
        """Open a session; without ``product_id`` for a new product."""
        body = {"productId": product_id or self.create_product()["id"]} | changes
        session: dict[str, Any] = self.data("POST", "/v1/checkouts", json=body)
        return session

    def create_order(self, product_id: str | None = None, **changes: Any) -> dict[str, Any]:
        """Open a session and return its PENDING order."""
        session = self.create_session(product_id, **changes)
        order_id = self.data("GET", f"/v1/checkouts/{session['id']}")["orderId"]
        return self.read_order(order_id)

    def read_order(self, order_id: str) -> dict[str, Any]:
        """Read an order."""
        order: dict[str, Any] = self.data("GET", f"/v1/orders/{order_id}")
        return order

    def create_paid_order(self, product_id: str | None = None, **changes: Any) -> dict[str, Any]:
        """Open a session, confirm its payment as the operator, and return the PAID order."""
        order = self.create_order(product_id, **changes)
        self.confirm(order["id"])
        return self.read_order(order["id"])

    def confirm(self, order_id: str) -> None:
        """Confirm an order's payment as the operator."""
        now = self.api_server.app.clock()
        self.api_server.tx(
            lambda tx: orders.confirm_manually(tx, self.id, order_id, "tester", "seen", now)
        )

    def revoke(self, order_id: str) -> None:
        """Void an unpaid order as the operator."""
        now = self.api_server.app.clock()
        self.api_server.tx(
            lambda tx: orders.revoke_manually(tx, self.id, order_id, "tester", "fraud", now)
        )

    def refund(self, order_id: str, **body: Any) -> dict[str, Any]:
        """Refund an order, in full unless the body has an amount."""
        refund: dict[str, Any] = self.data("POST", f"/v1/orders/{order_id}/refunds", json=body)
        return refund

    def report_refund(self, refund_id: str, status: str = "SUCCEEDED", reason: str = "") -> None:
        """Apply the gateway's final outcome of a refund."""
        outcome = RefundOutcome(status=status, reason=reason)
        now = self.api_server.app.clock()

        async def step(tx: Tx) -> None:
            refund = await refunds.find(tx, self.id, refund_id)
            attempt = await orders.find_attempt(tx, self.id, refund.attempt_id)
            await refunds.apply_outcome(
                tx, self.id, refund_id, outcome, now, gateway=attempt.gateway
            )

        self.api_server.tx(step)

    def open_dispute(self, order_id: str) -> disputes.Dispute:
        """Open a dispute of a paid order as the operator."""
        now = self.api_server.app.clock()
        return self.api_server.tx(
            lambda tx: disputes.open_manually(
                tx, self.id, order_id, who="tester", reason="letter", now=now
            )
        )

    def create_payout(self, amount_minor: int = 100) -> payouts.Payout:
        """Add money to the balance and pay it out as the operator."""
        now = self.api_server.app.clock()
        adjustment = adjustments.AdjustmentRequest(
            kind="recharge",
            amount_minor=amount_minor,
            reference=new_reference(),
            reason="start",
            by="tester",
        )
        self.api_server.tx(lambda tx: adjustments.request(tx, self.id, adjustment, None, now))
        payout_request = PayoutRequest(
            amount_minor=amount_minor,
            fee_minor=0,
            reference=new_reference(),
            reason="weekly",
            by="tester",
        )
        return self.api_server.tx(lambda tx: payouts.create(tx, self.id, payout_request, None, now))

    def create_endpoint(self, **changes: Any) -> dict[str, Any]:
        """Create a webhook endpoint; nothing is sent to it, because no worker runs."""
        body = {"url": "https://shop.example.com/hook"} | changes
        endpoint: dict[str, Any] = self.data("POST", "/v1/webhook-endpoints", json=body)
        return endpoint


class ApiServer:
    """A running server, which tests call by its API."""

    def __init__(self, app: Any, url: str, loop: asyncio.AbstractEventLoop) -> None:
        """Use ``serving``."""
        self.url = url
        self._server = app
        self._loop = loop
        self.http = httpx2.Client(
            base_url=url,
            timeout=30,
            trust_env=False,
            event_hooks={"response": [check_response]},
            limits=httpx2.Limits(max_connections=60),
        )

    @property
    def app(self) -> App:
        """The server's context; tests may replace its clock."""
        app: App = self._server.state.app
        return app

    @property
    def settings(self) -> Settings:
        """The deployment's settings."""
        return self.app.settings

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def tx(self, step: Callable[[Tx], Awaitable[T]]) -> T:
        """Run ``step`` in a transaction."""
        return self.run(self.app.db.run(step))

    def sql(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """Run a statement that only reads, and return its rows."""

        async def read(tx: Tx) -> list[dict[str, Any]]:
            return [dict(row) for row in await tx.fetch(statement, *values)]

        return self.tx(read)

    @contextlib.contextmanager
    def limited(self, **limits: int) -> Iterator[None]:
        """Set rate limits while the block runs. Requests before it do not count."""
        unlimited = self.app.settings
        self.tx(rate_limits.forget)
        self.app.settings = msgspec.structs.replace(unlimited, **limits)
        try:
            yield
        finally:
            self.app.settings = unlimited

    def create_shop(self, **terms: Any) -> Shop:
        """Create a merchant with a key."""
        now = self.app.clock()

        async def create(tx: Tx) -> tuple[str, merchants.NewKey]:
            merchant = await merchants.create(tx, now=now, **({"name": "Harbour Books"} | terms))
            key = await merchants.create_key(tx, merchant.id, self.settings.environment, now)
            return merchant.id, key

        return Shop(self, *self.tx(create))

    def set_rate(self, base: str, quote_: str, rate: Any) -> None:
        """Set an exchange rate."""
        now = self.app.clock()
        self.tx(lambda tx: rates.put(tx, base, quote_, rate, now))

    def check_books(self) -> None:
        """Assert that the ledger's own rules hold."""
        assert self.tx(ledger_violations) == []


def check_response(response: httpx2.Response) -> None:
    """Check the properties that all responses have."""
    assert response.headers["x-request-id"].startswith("req_")
    assert response.headers["x-content-type-options"] == "nosniff"
    request = response.request
    if "/v1" in request.url.path:
        assert response.headers.get_list("cache-control") == ["no-store"]
    if response.status_code >= 400 and request.method != "HEAD" and "/v1" in request.url.path:
        response.read()
        error_of(response)


def error_of(response: httpx2.Response) -> dict[str, Any]:
    """Return the error body after checking its fields."""
    assert response.headers["content-type"] == "application/json"
    body: dict[str, Any] = response.json()
    assert set(body) <= {"code", "message", "error"}
    assert type(body["code"]) is int
    assert type(body["message"]) is str
    codes = {400: 40001, 401: 401, 404: 40401, 405: 40501, 409: 40901, 413: 41301, 415: 41501}
    codes |= {403: 40301, 422: 42201, 429: 42901, 500: 50001, 503: 50301}
    assert body["code"] == codes[response.status_code]
    if response.status_code == 400:
        assert set(body["error"]) == {"field", "reason"}
        assert all(type(text) is str and text for text in body["error"].values())
    elif response.status_code == 404 and "error" in body:
        # The path is not found because of an additional slash.
        assert body["error"]["field"] == "path"
    elif response.status_code != 403:
        assert "error" not in body
    return body


def assert_refused(response: httpx2.Response, field: str) -> str:
    """Assert that a request was refused (40001) because of ``field``, and return the reason."""
    assert response.status_code == 400, response.text
    body = error_of(response)
    assert body["message"] == "Validation failed"
    assert body["error"]["field"] == field
    reason: str = body["error"]["reason"]
    return reason


@contextlib.contextmanager
def serving(settings: Settings, **changes: Any) -> Iterator[ApiServer]:
    """Serve the application on a free port while the block runs. No earlier request is counted."""
    listener = http_server.bind("127.0.0.1", free_port(), "OPENTILL_PORT")[0]
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    settings = msgspec.structs.replace(settings, public_url=url, **changes)
    app = create_app(settings, run_worker=False)
    running = http_server.create_server(app, settings)
    started: Future[asyncio.AbstractEventLoop] = Future()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        running.on_ready = lambda: started.set_result(loop)
        await running.serve(sockets=[listener])

    def thread() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                runner.run(main())
            except BaseException as error:  # noqa: BLE001 - raised by result() below
                if not started.done():
                    started.set_exception(error)

    worker = threading.Thread(target=thread, name="server")
    worker.start()
    try:
        api_server = ApiServer(app, url, started.result(20))
        api_server.tx(rate_limits.forget)
        with api_server.http:
            yield api_server
    finally:
        running.should_exit = True
        worker.join(20)


@pytest.fixture(scope="session")
def api_server(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> Iterator[ApiServer]:
    """The server of all tests that create their own merchants; it has no rate limits."""
    directory: Path = tmp_path_factory.mktemp("api_server")
    with cloned_database(postgres_url, template) as url:
        settings = Settings(
            database_url=pooler_url(url),
            data_dir=directory,
            limit_ip_per_minute=0,
            limit_checkouts_per_minute=0,
            limit_payments_per_minute=0,
            limit_resends_per_minute=0,
            **SECRETS,
        )
        with serving(settings) as running:
            yield running
            running.check_books()


@pytest.fixture
def shop(api_server: ApiServer) -> Shop:
    """A new merchant."""
    return api_server.create_shop()


@pytest.fixture
def clock(api_server: ApiServer) -> Iterator[Callable[[int], None]]:
    """Set the server's time (Unix ms) for the rest of the test."""

    def set_to(moment: int) -> None:
        api_server.app.clock = lambda: moment

    yield set_to
    api_server.app.clock = now_ms
