"""Customers of a deployment that is upgraded meanwhile, who notice every wrong response."""

import asyncio
import itertools
import re
import time
from typing import Any, Final, NamedTuple

import asyncpg
import httpx2

from support.cluster import CARD, Process, eventually

PAUSE_S: Final = 0.15  # of a customer between two requests


class Request(NamedTuple):
    """What was asked, when and for how long, and what came."""

    what: str
    began: float  # time.time()
    took_s: float
    wrong: str  # "" where it was the right response


class Load:
    """A merchant with its customers. All but the bank's pages goes through the balancer."""

    def __init__(self, url: str, bank_url: str, key: str) -> None:
        """Make a product with ``prepare`` first."""
        self._url, self._bank_url = url, bank_url
        self._key = key
        self._http = httpx2.AsyncClient(timeout=60, trust_env=False)
        self._numbers = itertools.count(1)
        self._product = ""
        self.over = False
        self.requests: list[Request] = []
        self.paid: dict[str, float] = {}  # order id → time at which it was seen paid
        self.refunds: set[str] = set()

    async def close(self) -> None:
        """Close connections."""
        await self._http.aclose()

    async def prepare(self) -> None:
        """Make what is sold."""
        body = {"name": "A mug", "price": "5.00", "currency": "USD"}
        product = await self._ask("POST", "/v1/products", 201, body)
        self._product = product.json()["data"]["id"]

    async def customer(self) -> None:
        """Buy again and again, until it is over."""
        while not self.over:
            try:
                await self._buy()
            except (httpx2.HTTPError, LookupError, AssertionError, TypeError) as error:
                self._note("a purchase", time.time(), 0.0, f"{type(error).__name__}: {error}")

    async def _buy(self) -> None:
        number = next(self._numbers)
        body = {"productId": self._product}
        created = await self._ask("POST", "/v1/checkouts", 201, body, key=f"session-{number}")
        session_id = created.json()["data"]["id"]
        checkout = await self._ask("GET", f"/v1/checkouts/{session_id}", 200)
        order_id = checkout.json()["data"]["orderId"]
        page = f"/checkout/{session_id}"
        await self._ask("GET", page, 200)
        form = {"email": f"{order_id}@example.com", "name": "Ann", "method": "CREDIT_CARD"}
        sent = await self._ask("POST", page, 303, form=form)
        attempt = re.search(r"/continue/(att_\w+)", sent.headers["location"])
        assert attempt, sent.headers["location"]
        card = {"number": CARD, "exp": "12/34", "csc": "123"}
        await self._http.post(f"{self._bank_url}/pay/{attempt[1]}", data=card)
        await self._ask("GET", f"{page}/return/{attempt[1]}", 303)
        end = time.monotonic() + 60
        while (await self._read(order_id))["status"] != "PAID":
            assert time.monotonic() < end, f"{order_id} is not paid"
        self.paid[order_id] = time.time()
        if number % 2:
            await self._give_back(order_id)
        await self._ask("GET", "/v1/orders?size=5", 200)
        await self._ask("GET", "/v1/balance", 200)

    async def _give_back(self, order_id: str) -> None:
        path, body = f"/v1/orders/{order_id}/refunds", {"amount": "1.00"}
        answers = [
            await self._ask("POST", path, 201, body, key=f"refund-{order_id}") for _ in range(2)
        ]
        assert answers[0].content == answers[1].content
        self.refunds.add(answers[0].json()["data"]["id"])

    async def _read(self, order_id: str) -> dict[str, Any]:
        order: dict[str, Any] = (await self._ask("GET", f"/v1/orders/{order_id}", 200)).json()
        return dict(order["data"])

    async def _ask(
        self, method: str, path: str, right: int, body: Any = None, form: Any = None, key: str = ""
    ) -> httpx2.Response:
        """Send one request after a pause, and note whether the response is the right one."""
        await asyncio.sleep(PAUSE_S)
        headers = {"X-API-Key": self._key} if path.startswith("/v1/") else {}
        if key:
            headers["Idempotency-Key"] = key
        what = re.sub(r"[a-z]+_\w{10,}", "…", f"{method} {path}")
        began, start = time.time(), time.monotonic()
        try:
            answer = await self._http.request(
                method, self._url + path, json=body, data=form, headers=headers
            )
        except httpx2.HTTPError as error:
            self._note(what, began, time.monotonic() - start, repr(error))
            raise
        wrong = "" if answer.status_code == right else f"{answer.status_code}: {answer.text[:300]}"
        self._note(what, began, time.monotonic() - start, wrong)
        assert not wrong, wrong
        return answer

    def _note(self, what: str, began: float, took_s: float, wrong: str) -> None:
        self.requests.append(Request(what, began, took_s, wrong))

    @property
    def wrong(self) -> list[Request]:
        """Requests that got another response than the right one, or none."""
        return [request for request in self.requests if request.wrong]

    @property
    def slowest(self) -> list[Request]:
        """The five that took longest."""
        return sorted(self.requests, key=lambda request: -request.took_s)[:5]


async def run(command: Process, right: int = 0) -> str:
    """Run a command to its end and return what it says."""
    command.start()
    ended = await asyncio.to_thread(command.wait)
    assert ended == right, (command.name, ended, command.output[-3000:])
    return command.output


async def durations(url: str) -> dict[str, float]:
    """Return how long after the one before each migration was applied, in seconds."""
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(
            "select name, (applied_at - lag(applied_at) over (order by version)) / 1000.0"
            " from schema_migrations order by version"
        )
    finally:
        await connection.close()
    return {row[0]: round(float(row[1] or 0), 2) for row in rows}


async def all_announced(url: str, taken: set[str]) -> bool:
    """Return whether every event has arrived and no refund is under way."""

    async def look() -> bool:
        connection = await asyncpg.connect(url)
        try:
            events = await connection.fetch("select id from events")
            left = await connection.fetchval(
                "select count(*) from refunds where status = 'PROCESSING'"
            )
        finally:
            await connection.close()
        return not left and {row[0] for row in events} <= taken

    return await eventually(look, 60)
