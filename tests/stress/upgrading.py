"""Customers of a deployment during its upgrade; unexpected responses are recorded."""

import asyncio
import itertools
import re
import time
from typing import Any, Final, NamedTuple

import asyncpg
import httpx2

from support.cluster import CARD, Process, eventually

PAUSE_S: Final = 0.15  # how many seconds a customer waits between two requests


class Request(NamedTuple):
    """A request and its outcome."""

    name: str
    started_at: float  # in seconds, by time.time()
    duration_s: float
    error: str  # "" if the response was as expected, else the problem


class Load:
    """A merchant and its customers, who use the balancer for everything but the bank's pages."""

    def __init__(self, url: str, bank_url: str, key: str) -> None:
        """``prepare`` must be called next."""
        self._url, self._bank_url = url, bank_url
        self._key = key
        self._http = httpx2.AsyncClient(timeout=60, trust_env=False)
        self._numbers = itertools.count(1)
        self._product = ""
        self.over = False
        self.requests: list[Request] = []
        # For each order id, the time at which the order was read as PAID.
        self.paid: dict[str, float] = {}
        self.refunds: set[str] = set()

    async def close(self) -> None:
        """Close connections."""
        await self._http.aclose()

    async def prepare(self) -> None:
        """Create the product."""
        body = {"name": "A mug", "price": "5.00", "currency": "USD"}
        product = await self._request("POST", "/v1/products", 201, body)
        self._product = product.json()["data"]["id"]

    async def customer(self) -> None:
        """Buy again and again until ``over``."""
        while not self.over:
            try:
                await self._buy()
            except (httpx2.HTTPError, LookupError, AssertionError, TypeError) as error:
                self._record("a purchase", time.time(), 0.0, f"{type(error).__name__}: {error}")

    async def _buy(self) -> None:
        number = next(self._numbers)
        body = {"productId": self._product}
        created = await self._request("POST", "/v1/checkouts", 201, body, key=f"session-{number}")
        session_id = created.json()["data"]["id"]
        checkout = await self._request("GET", f"/v1/checkouts/{session_id}", 200)
        order_id = checkout.json()["data"]["orderId"]
        page = f"/checkout/{session_id}"
        await self._request("GET", page, 200)
        form = {"email": f"{order_id}@example.com", "name": "Ann", "method": "CREDIT_CARD"}
        redirect = await self._request("POST", page, 303, form=form)
        attempt = re.search(r"/continue/(att_\w+)", redirect.headers["location"])
        assert attempt, redirect.headers["location"]
        card = {"number": CARD, "exp": "12/34", "csc": "123"}
        await self._http.post(f"{self._bank_url}/pay/{attempt[1]}", data=card)
        await self._request("GET", f"{page}/return/{attempt[1]}", 303)
        end = time.monotonic() + 60
        while (await self._read(order_id))["status"] != "PAID":
            assert time.monotonic() < end, f"{order_id} is not paid"
        self.paid[order_id] = time.time()
        if number % 2:
            await self._refund(order_id)
        await self._request("GET", "/v1/orders?size=5", 200)
        await self._request("GET", "/v1/balance", 200)

    async def _refund(self, order_id: str) -> None:
        path, body = f"/v1/orders/{order_id}/refunds", {"amount": "1.00"}
        first, repeated = [
            await self._request("POST", path, 201, body, key=f"refund-{order_id}") for _ in range(2)
        ]
        assert first.content == repeated.content
        self.refunds.add(first.json()["data"]["id"])

    async def _read(self, order_id: str) -> dict[str, Any]:
        order: dict[str, Any] = (await self._request("GET", f"/v1/orders/{order_id}", 200)).json()
        return dict(order["data"])

    async def _request(
        self, method: str, path: str, status: int, body: Any = None, form: Any = None, key: str = ""
    ) -> httpx2.Response:
        """Send a request after a pause, and record whether it gets the expected status."""
        await asyncio.sleep(PAUSE_S)
        headers = {"X-API-Key": self._key} if path.startswith("/v1/") else {}
        if key:
            headers["Idempotency-Key"] = key
        name = re.sub(r"[a-z]+_\w{10,}", "…", f"{method} {path}")
        started_at, start = time.time(), time.monotonic()
        try:
            response = await self._http.request(
                method, self._url + path, json=body, data=form, headers=headers
            )
        except httpx2.HTTPError as error:
            self._record(name, started_at, time.monotonic() - start, repr(error))
            raise
        error_text = ""
        if response.status_code != status:
            error_text = f"{response.status_code}: {response.text[:300]}"
        self._record(name, started_at, time.monotonic() - start, error_text)
        assert not error_text, error_text
        return response

    def _record(self, name: str, started_at: float, duration_s: float, error: str) -> None:
        self.requests.append(Request(name, started_at, duration_s, error))

    @property
    def failed(self) -> list[Request]:
        """Requests that got an unexpected response, or none."""
        return [request for request in self.requests if request.error]

    @property
    def slowest(self) -> list[Request]:
        """The five slowest requests."""
        return sorted(self.requests, key=lambda request: -request.duration_s)[:5]


async def run(command: Process, exit_code: int = 0) -> str:
    """Run a command to its end, check its exit code and return its output."""
    command.start()
    code = await asyncio.to_thread(command.wait)
    assert code == exit_code, (command.name, code, command.output[-3000:])
    return command.output


async def durations(url: str) -> dict[str, float]:
    """Return the seconds between each migration and the previous one."""
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(
            "select name, (applied_at - lag(applied_at) over (order by version)) / 1000.0"
            " from schema_migrations order by version"
        )
    finally:
        await connection.close()
    return {row[0]: round(float(row[1] or 0), 2) for row in rows}


async def all_announced(url: str, arrived_ids: set[str]) -> bool:
    """Wait until every event has arrived and no refund is PROCESSING; False after a minute."""

    async def is_done() -> bool:
        connection = await asyncpg.connect(url)
        try:
            events = await connection.fetch("select id from events")
            processing = await connection.fetchval(
                "select count(*) from refunds where status = 'PROCESSING'"
            )
        finally:
            await connection.close()
        return not processing and {row[0] for row in events} <= arrived_ids

    return await eventually(is_done, 60)
