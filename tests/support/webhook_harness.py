"""Merchants, endpoints and events in a database, and dispatchers that deliver them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_network
from typing import Any, Final

from opentill import merchants, webhooks
from opentill.db import clock
from opentill.db.database import Db
from opentill.outgoing.client import Outgoing, Policy
from opentill.webhooks import Endpoint, EndpointFields, Event, UrlCheck
from opentill.webhooks.dispatch import Dispatcher, Options

SECRET_KEY: Final = "test-secret-key-test-secret-key-0123"
LOOPBACK: Final = Policy(
    allow_http=True, allowed_networks=(ip_network("127.0.0.0/8"), ip_network("::1/128"))
)


class WebhookHarness:
    """Merchants, endpoints and events in a test's own database."""

    def __init__(self, db: Db, url: str) -> None:
        self.db = db
        self.url = url
        self.outgoing = Outgoing(LOOPBACK)
        self.ahead_ms = 0

    def now(self) -> int:
        """Return the test's business time."""
        return clock.now_ms() + self.ahead_ms

    async def create_merchant(self) -> str:
        """Create a merchant."""
        now = self.now()
        return (await self.db.run(lambda tx: merchants.create(tx, name="M", now=now))).id

    async def create_endpoint(
        self, merchant_id: str, url: str, **fields: Any
    ) -> tuple[Endpoint, str]:
        """Create an endpoint; return it and its secret."""
        new, check, now = (
            EndpointFields(url=url, **fields),
            UrlCheck(self.outgoing.check),
            self.now(),
        )
        return await self.db.run(
            lambda tx: webhooks.create(tx, merchant_id, new, check, SECRET_KEY, now)
        )

    async def emit(self, merchant_id: str, count: int = 1, kind: Any = "order.paid") -> None:
        """Write events in one transaction."""
        now = self.now()
        events = [Event(merchant_id, kind, {"number": n, "text": "é茶"}, now) for n in range(count)]
        await self.db.run(lambda tx: webhooks.emit(tx, events))

    async def rows(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        """Run a statement and return its rows."""
        async with self.db.connection() as tx:
            return [dict(row) for row in await tx.fetch(statement, *values)]

    async def count_statuses(self) -> dict[str, int]:
        """Return the number of deliveries by status."""
        rows = await self.rows("select status, count(*) from webhook_deliveries group by 1")
        return {row["status"]: row["count"] for row in rows}

    async def advance(self, by_ms: int) -> None:
        """Move business time, for dispatchers in other processes too."""
        self.ahead_ms += by_ms
        async with self.db.connection() as tx:
            await clock.advance(tx, by_ms)

    @contextlib.asynccontextmanager
    async def dispatching(self, **changes: Any) -> AsyncIterator[Dispatcher]:
        """Run a dispatcher while the block runs; stop it gracefully."""
        options = {"timeout_s": 5.0, "drain_s": 30.0, "lease_s": 60.0} | changes
        key = options.pop("secret_key", SECRET_KEY)
        dispatcher = Dispatcher(self.db, self.outgoing, key, self.now, Options(**options))
        stop = asyncio.Event()
        task = asyncio.create_task(dispatcher.run(stop))
        try:
            yield dispatcher
        finally:
            stop.set()
            await task


@contextlib.asynccontextmanager
async def running_harness(url: str) -> AsyncIterator[WebhookHarness]:
    """Connect to a fresh database."""
    db = await Db.connect(url, 6, acquire_timeout_s=10)
    harness = WebhookHarness(db, url)
    try:
        yield harness
    finally:
        await harness.outgoing.close()
        await db.close()


async def wait_until(condition: Callable[[], Any], within_s: float = 180) -> None:
    """Wait until a condition, which may be a coroutine function, returns a true value."""
    end = time.monotonic() + within_s
    while True:
        result = condition()
        if asyncio.iscoroutine(result):
            result = await result
        if result:
            return
        assert time.monotonic() < end, "the condition did not become true"
        await asyncio.sleep(0.02)
