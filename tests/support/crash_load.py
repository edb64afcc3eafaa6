"""Load on a deployment whose processes are killed, and a check of its data afterwards."""

import asyncio
import collections
import contextlib
import os
import random
import signal
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import httpx2

from opentill.core.errors import Unavailable
from opentill.db import migrations
from opentill.db.database import Db, Tx
from opentill.server.embedded.postgres import EmbeddedPostgres
from support.books import assert_books
from support.cluster import (
    CARD,
    DECLINED,
    REFUNDS_FAIL,
    Client,
    Cluster,
    Shop,
    eventually,
    make_shop,
    wait_for,
)
from support.commands import ForkServer

CARDS: Final = (CARD, CARD, CARD, REFUNDS_FAIL, DECLINED, "4000000000000119")
FINE: Final = {200, 201, 303, 400, 503}

# Errors of customers while servers are killed. AttributeError: anyio reads the peer's address of a
# connection that was reset while it was opened.
LOST: Final = (httpx2.HTTPError, AssertionError, KeyError, AttributeError)


class Storm:
    """A deployment whose processes are killed, and everything that it acknowledged to merchants."""

    def __init__(
        self, folder: Path, cluster: Cluster, db: Db, postgres: EmbeddedPostgres | None = None
    ) -> None:
        """Use ``standing``. ``kill_postgres`` kills ``postgres``."""
        self.folder, self.cluster, self.db = folder, cluster, db
        self.postgres = [] if postgres is None else [postgres]
        self.shops: list[Shop] = []
        self.opened: set[str] = set()  # order ids
        self.paid: dict[str, list[str]] = {}  # merchant id → ids of orders that it read as PAID
        self.refunded: dict[str, str] = {}  # refund id → order id
        self.answers: collections.Counter[int] = collections.Counter()
        self.bad: list[str] = []
        self.kills: collections.Counter[str] = collections.Counter()

    async def kill_postgres(self) -> None:
        """Kill the postmaster with SIGKILL and start it again."""
        pid = int((self.folder / "postgres" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        for started in self.postgres:
            if (child := started._cluster._child) is not None and child.pid == pid:
                await asyncio.to_thread(child.wait)
        await asyncio.sleep(random.random() * 0.3)
        self.postgres.append(await asyncio.to_thread(EmbeddedPostgres.start, self.folder))

    async def killer(self, end: float, pause_s: float) -> None:
        """Kill one process after the other, and restart each after a short time."""
        cluster = self.cluster
        while time.monotonic() < end:
            await asyncio.sleep(pause_s * (0.5 + random.random()))
            kind = random.choice(("server", "worker", "bank", "postgres"))
            self.kills[kind] += 1
            if kind == "postgres":
                await self.kill_postgres()
                continue
            victim = {"worker": cluster.worker, "bank": cluster.bank}.get(kind)
            victim = victim or random.choice(cluster.servers)
            await asyncio.to_thread(victim.kill)
            await asyncio.sleep(random.random() * 0.5)
            victim.start()

    async def customer(self, end: float, client: Client, shop: Shop) -> None:
        """Buy, pay and refund repeatedly, and continue after errors."""
        while time.monotonic() < end:
            try:
                await self._buy(client, shop)
            except LOST:
                await asyncio.sleep(0.05)

    async def _buy(self, client: Client, shop: Shop) -> None:
        body = {"productId": shop.product_id}
        created = self._record(await client.call("POST", "/v1/checkouts", body))
        session_id = created.json()["data"]["id"]
        checkout = self._record(await client.call("GET", f"/v1/checkouts/{session_id}"))
        order_id = checkout.json()["data"]["orderId"]
        self.opened.add(order_id)
        attempt_id = await client.begin(session_id)
        if attempt_id is None:
            return
        await client.type_card(attempt_id, random.choice(CARDS))
        if random.random() < 0.7:
            await client.come_back(session_id, attempt_id)
        order = self._record(await client.call("GET", f"/v1/orders/{order_id}")).json()["data"]
        if order["status"] == "PAID":
            self.paid.setdefault(shop.id, []).append(order_id)
        paid = self.paid.get(shop.id, [])
        for number in range(3 if paid else 0):
            paid_id = random.choice(paid)
            body = {"amount": random.choice(("0.01", "1.70", "5.00"))}
            key = f"{order_id}-{number}"
            path = f"/v1/orders/{paid_id}/refunds"
            response = self._record(await client.call("POST", path, body, key))
            if response.status_code == 201:
                self.refunded[response.json()["data"]["id"]] = paid_id

    def _record(self, response: httpx2.Response) -> httpx2.Response:
        self.answers[response.status_code] += 1
        if response.status_code not in FINE:
            request = response.request
            self.bad.append(f"{request.method} {request.url}: {response.text[:500]}")
        return response

    async def rage(self, seconds: float, customers: int = 8, pause_s: float = 0.7) -> None:
        """Run customers and the killer for some seconds, then restart processes that have ended."""
        if not self.shops:
            self.shops = [await make_shop(self.db, overdraft_minor=10**9) for _ in range(2)]
        end = time.monotonic() + seconds
        async with contextlib.AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(Client(self.cluster, shop.key))
                for shop in self.shops
            ]
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.killer(end, pause_s))
                for n in range(customers):
                    tasks.create_task(self.customer(end, clients[n % 2], self.shops[n % 2]))
        for process in self.cluster.processes:
            process.keep()
        for process in self.cluster.processes:
            if process.port:  # it may have ended because the database was in recovery
                await asyncio.to_thread(wait_for, process, keep=True)

    async def hurry(self) -> bool:
        """Make all work of the worker's jobs due; return whether none is left."""
        for process in self.cluster.processes:  # one that started without a database has ended
            process.keep()
        try:
            await self.db.run(_make_due)
        except Unavailable:
            return False
        await asyncio.sleep(0.7)
        async with self.db.connection() as tx:
            pending = await tx.fetchval(
                "select (select count(*) from orders where status = 'CREATING')"
                " + (select count(*) from refunds where status = 'PROCESSING')"
                " + (select count(*) from payment_attempts where status in"
                "    ('SUBMITTED', 'PENDING', 'DUPLICATE'))"
            )
        if pending or self.at_bank(waiting=True):
            return False
        return await self.ours() == self.at_bank()

    def at_bank(self, *, waiting: bool = False) -> dict[str, int]:
        """Return the bank's net amounts by attempt; or the attempts that it still processes."""
        path = self.folder / "bank" / "sandbox.sqlite3"
        with contextlib.closing(sqlite3.connect(path, timeout=10)) as bank:
            if waiting:
                rows = bank.execute("select id, 1 from payments where status = 'processing'")
            else:
                rows = bank.execute(
                    "select id, amount_minor - refunded_minor from payments"
                    " where status = 'succeeded' and amount_minor > refunded_minor"
                )
            return dict(rows.fetchall())

    async def ours(self) -> dict[str, int]:
        """Return the net amounts by attempt in OpenTill's database."""
        async with self.db.connection() as tx:
            rows = await tx.fetch(
                "select paid_attempt_id, amount_minor - refunded_minor from orders"
                " where paid_at is not null and amount_minor > refunded_minor"
            )
        return {row[0]: row[1] for row in rows}

    async def reckon(self, seconds: float = 120) -> None:
        """Wait until all work is done; assert that everything acknowledged is stored."""
        quiet = await eventually(self.hurry, seconds)
        defects = [
            line[:4000]
            for process in self.cluster.processes
            for line in process.output.splitlines()
            if "internal error" in line or "job failed" in line
        ]
        assert not self.bad, "\n".join([*self.bad[:5], *defects[:3]])
        assert not defects, "\n".join(defects[:3])
        async with self.db.snapshot() as tx:
            await assert_books(tx)
            orders = dict(await tx.fetch("select id, paid_at is not null from orders"))
            refunds = dict(await tx.fetch("select id, order_id from refunds"))
            unknown = await tx.fetch(
                "select a.id, a.status, a.checks, o.status from payment_attempts a join orders o"
                " on o.merchant_id = a.merchant_id and o.id = a.order_id"
                " where a.status in ('SUBMITTED', 'PENDING', 'DUPLICATE')"
            )
        assert await self.ours() == self.at_bank()
        assert quiet, [tuple(row) for row in unknown]
        assert self.opened <= orders.keys()
        assert all(orders[order_id] for paid in self.paid.values() for order_id in paid)
        assert self.refunded.items() <= refunds.items()


async def _make_due(tx: Tx) -> None:
    await tx.execute(
        "update payment_attempts set check_at = least(check_at, 1),"
        " created_at = least(created_at, updated_at - 60000) where check_at is not null"
    )
    await tx.execute("update refunds set try_at = 1 where try_at is not null")


@contextlib.asynccontextmanager
async def standing(servers: int = 2, fork_server: ForkServer | None = None) -> AsyncIterator[Storm]:
    """Run a deployment with a durable database in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="opentill-storm-") as name:
        folder = Path(name)
        postgres = await asyncio.to_thread(EmbeddedPostgres.start, folder)
        await migrations.migrate(postgres.url)
        cluster = Cluster(folder, postgres.url, servers, fork_server)
        storm = None
        try:
            await asyncio.to_thread(cluster.start)
            db = await Db.connect(postgres.url, 4, acquire_timeout_s=10)
            storm = Storm(folder, cluster, db, postgres)
            yield storm
            await db.close()
        finally:
            await asyncio.to_thread(cluster.stop)
            for started in [postgres] if storm is None else storm.postgres:
                await asyncio.to_thread(started.release)
