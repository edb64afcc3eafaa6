"""A real server on loopback for tests of the API, and merchants to call it with.

The server runs in a thread with an event loop of its own, so that plain tests can use it. Books are
only written through the services, so that no test can show what cannot happen; when a server is
stopped, its ledger is checked.
"""

import asyncio
import contextlib
import itertools
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx2
import msgspec
import pytest
import uvloop

from opentill import adjustments, disputes, merchants, orders, payouts, rates, refunds
from opentill.app import create_app
from opentill.context import App
from opentill.core.settings import Settings
from opentill.db.clock import now_ms
from opentill.db.database import Db, Tx
from opentill.gateways.model import RefundOutcome
from opentill.payouts import PayoutRequest
from opentill.server import http_server
from support.books import ledger_violations
from support.databases import clone
from support.ports import free_port
from support.world import fresh

T = TypeVar("T")
_numbers: Final = itertools.count(1)
SECRETS: Final = {
    "secret_key": "test-secret-key-test-secret-key-0123",
    "sandbox_secret": "test-sandbox-secret-0123456789abcd",
}
TEA: Final = {"name": "Tea", "price": "9.99", "currency": "USD"}
TAKEN: Final = {200, 201}
BUSY: Final = 503


class Shop:
    """A merchant with a key, and the calls it makes."""

    def __init__(self, api_server: "ApiServer", merchant_id: str, key: merchants.NewKey) -> None:
        """Use ``ApiServer.shop``."""
        self.api_server = api_server
        self.id = merchant_id
        self.key = key.key
        self.key_id = key.id

    def call(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Send a request with the key; ``headers`` given as None are left out."""
        headers = {"x-api-key": self.key} | (options.pop("headers", None) or {})
        shown = {name: value for name, value in headers.items() if value is not None}
        return self.api_server.http.request(method, path, headers=shown, **options)

    def get(self, path: str, **query: Any) -> httpx2.Response:
        """GET with query parameters."""
        return self.call("GET", path, params=query or None)

    def post(self, path: str, body: Any = None, key: str | None = None) -> httpx2.Response:
        """POST a JSON body, perhaps with an Idempotency-Key."""
        return self.call("POST", path, json=body, headers={"idempotency-key": key})

    def post_until_decided(self, path: str, body: Any = None, key: str | None = None) -> Any:
        """POST, again after each 503: nothing was changed then, and the client is to repeat.

        For many requests at once, which a busy machine may keep from the database for two seconds.
        """
        while (response := self.post(path, body, key)).status_code == BUSY:
            assert response.headers["retry-after"]
        return response

    def data(self, method: str, path: str, **options: Any) -> Any:
        """Send a request that must be taken and return ``data``."""
        answer = self.call(method, path, **options)
        assert answer.status_code in TAKEN, answer.text
        return answer.json()["data"]

    def product(self, **changes: Any) -> dict[str, Any]:
        """Make a product."""
        product: dict[str, Any] = self.data("POST", "/v1/products", json=TEA | changes)
        return product

    def session(self, product_id: str | None = None, **changes: Any) -> dict[str, Any]:
        """Open a session, of a new product if none is given."""
        body = {"productId": product_id or self.product()["id"]} | changes
        session: dict[str, Any] = self.data("POST", "/v1/checkouts", json=body)
        return session

    def order(self, product_id: str | None = None, **changes: Any) -> dict[str, Any]:
        """Open a session and return its order, PENDING."""
        session = self.session(product_id, **changes)
        order_id = self.data("GET", f"/v1/checkouts/{session['id']}")["orderId"]
        return self.read_order(order_id)

    def read_order(self, order_id: str) -> dict[str, Any]:
        """Read an order."""
        order: dict[str, Any] = self.data("GET", f"/v1/orders/{order_id}")
        return order

    def paid(self, product_id: str | None = None, **changes: Any) -> dict[str, Any]:
        """Open a session, have the operator confirm its money, and return the order, PAID."""
        order = self.order(product_id, **changes)
        self.confirm(order["id"])
        return self.read_order(order["id"])

    def confirm(self, order_id: str) -> None:
        """Confirm an order's money as the operator."""
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
        """Refund an order, all that is left if nothing is said."""
        refund: dict[str, Any] = self.data("POST", f"/v1/orders/{order_id}/refunds", json=body)
        return refund

    def end_refund(self, refund_id: str, status: str = "SUCCEEDED", reason: str = "") -> None:
        """Let the gateway say how a refund ended."""
        outcome = RefundOutcome(status=status, reason=reason)
        now = self.api_server.app.clock()

        async def step(tx: Tx) -> None:
            refund = await refunds.find(tx, self.id, refund_id)
            attempt = await orders.find_attempt(tx, self.id, refund.attempt_id)
            await refunds.apply_outcome(
                tx, self.id, refund_id, outcome, now, gateway=attempt.gateway
            )

        self.api_server.tx(step)

    def dispute(self, order_id: str) -> disputes.Dispute:
        """Open a dispute of a paid order as the operator."""
        now = self.api_server.app.clock()
        return self.api_server.tx(
            lambda tx: disputes.open_manually(
                tx, self.id, order_id, who="tester", reason="letter", now=now
            )
        )

    def payout(self, amount_minor: int = 100) -> payouts.Payout:
        """Put money on the balance and pay it out as the operator."""
        now = self.api_server.app.clock()
        adjustment = adjustments.AdjustmentRequest(
            kind="recharge",
            amount_minor=amount_minor,
            reference=fresh(),
            reason="start",
            by="tester",
        )
        self.api_server.tx(lambda tx: adjustments.request(tx, self.id, adjustment, None, now))
        payout_request = PayoutRequest(
            amount_minor=amount_minor, fee_minor=0, reference=fresh(), reason="weekly", by="tester"
        )
        return self.api_server.tx(lambda tx: payouts.create(tx, self.id, payout_request, None, now))

    def endpoint(self, **changes: Any) -> dict[str, Any]:
        """Make a webhook endpoint; nothing is sent there, since no worker runs."""
        body = {"url": "https://shop.example.com/hook"} | changes
        endpoint: dict[str, Any] = self.data("POST", "/v1/webhook-endpoints", json=body)
        return endpoint


class ApiServer:
    """A running server."""

    def __init__(self, app: Any, url: str, loop: asyncio.AbstractEventLoop) -> None:
        """Use ``serving``."""
        self.url = url
        self._server = app
        self._loop = loop
        self.http = httpx2.Client(
            base_url=url,
            timeout=30,
            trust_env=False,
            event_hooks={"response": [_always]},
            limits=httpx2.Limits(max_connections=60),
        )

    @property
    def app(self) -> App:
        """What the server hands to its operations; the clock may be changed."""
        app: App = self._server.state.app
        return app

    @property
    def settings(self) -> Settings:
        """The deployment's settings."""
        return self.app.settings

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def tx(self, step: Callable[[Tx], Awaitable[T]]) -> T:
        """Run a step of the services in a transaction."""
        return self.run(self.app.db.run(step))

    def sql(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """Look something up. Never to write what the services would not."""

        async def read(tx: Tx) -> list[dict[str, Any]]:
            return [dict(row) for row in await tx.fetch(statement, *values)]

        return self.tx(read)

    def shop(self, **terms: Any) -> Shop:
        """Make a merchant with a key."""
        now = self.app.clock()

        async def make(tx: Tx) -> tuple[str, merchants.NewKey]:
            merchant = await merchants.create(tx, now=now, **({"name": "Harbour Books"} | terms))
            key = await merchants.create_key(tx, merchant.id, self.settings.environment, now)
            return merchant.id, key

        return Shop(self, *self.tx(make))

    def rate(self, base: str, quote_: str, rate: Any) -> None:
        """Set an exchange rate."""
        now = self.app.clock()
        self.tx(lambda tx: rates.put(tx, base, quote_, rate, now))

    def check_books(self) -> None:
        """See that the ledger holds."""
        assert self.tx(ledger_violations) == []


def _always(answer: httpx2.Response) -> None:
    """What holds for every answer whatsoever."""
    assert answer.headers["x-request-id"].startswith("req_")
    assert answer.headers["x-content-type-options"] == "nosniff"
    request = answer.request
    if "/v1" in request.url.path:
        assert answer.headers.get_list("cache-control") == ["no-store"]
    if answer.status_code >= 400 and request.method != "HEAD" and "/v1" in request.url.path:
        answer.read()
        error_of(answer)


def error_of(answer: httpx2.Response) -> dict[str, Any]:
    """Return the error body after checking its form, which every refusal has."""
    assert answer.headers["content-type"] == "application/json"
    body: dict[str, Any] = answer.json()
    assert set(body) <= {"code", "message", "error"}
    assert type(body["code"]) is int
    assert type(body["message"]) is str
    codes = {400: 40001, 401: 401, 404: 40401, 405: 40501, 409: 40901, 413: 41301, 415: 41501}
    codes |= {403: 40301, 422: 42201, 429: 42901, 500: 50001, 503: 50301}
    assert body["code"] == codes[answer.status_code]
    if answer.status_code == 400:
        assert set(body["error"]) == {"field", "reason"}
        assert all(type(text) is str and text for text in body["error"].values())
    elif answer.status_code == 404 and "error" in body:
        assert body["error"]["field"] == "path"  # with slashes too many
    elif answer.status_code != 403:
        assert "error" not in body
    return body


def refused(answer: httpx2.Response, field: str) -> str:
    """Check that an input was refused (40001) because of ``field``; the reason."""
    assert answer.status_code == 400, answer.text
    body = error_of(answer)
    assert body["message"] == "Validation failed"
    assert body["error"]["field"] == field
    reason: str = body["error"]["reason"]
    return reason


@contextlib.contextmanager
def serving(settings: Settings, **changes: Any) -> Iterator[ApiServer]:
    """Run the real application under the real protocol on a free port while the block runs."""
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
            except BaseException as error:  # noqa: BLE001 - told to who waits
                if not started.done():
                    started.set_exception(error)

    worker = threading.Thread(target=thread, name="server")
    worker.start()
    try:
        api_server = ApiServer(app, url, started.result(20))
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
    through: Callable[[str], str],
) -> Iterator[ApiServer]:
    """One server without rate limits for all tests that only need merchants of their own."""
    directory: Path = tmp_path_factory.mktemp("api_server")
    with clone(postgres_url, template) as url:
        settings = Settings(
            database_url=through(url),
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
    """A merchant of the test's own."""
    return api_server.shop()


@pytest.fixture
def clock(api_server: ApiServer) -> Iterator[Callable[[int], None]]:
    """Set the server's time (Unix ms) for the rest of the test."""

    def set_to(moment: int) -> None:
        api_server.app.clock = lambda: moment

    yield set_to
    api_server.app.clock = now_ms


def raw(text: str) -> bytes:
    """Encode JSON text with lone surrogates as WTF-8, which is no UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def compact(value: Any) -> str:
    """Write JSON without spaces."""
    return json.dumps(value, separators=(",", ":"))


__all__ = [
    "SECRETS",
    "TEA",
    "ApiServer",
    "Db",
    "Shop",
    "api_server",
    "clock",
    "compact",
    "error_of",
    "quote",
    "raw",
    "refused",
    "serving",
    "shop",
]
