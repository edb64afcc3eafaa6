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
from collections.abc import AsyncIterator, Sequence
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
    create_shop,
    eventually,
    wait_until_ready,
)
from support.commands import ForkServer

CARD_NUMBERS: Final = (CARD, CARD, CARD, REFUNDS_FAIL, DECLINED, "4000000000000119")
EXPECTED_STATUSES: Final = {200, 201, 303, 400, 503}

# Errors that customers may get while servers are killed. anyio raises AttributeError if it reads
# the peer's address of a connection that was reset while it was being opened.
EXPECTED_ERRORS: Final = (httpx2.HTTPError, AssertionError, KeyError, AttributeError)


class CrashLoad:
    """A deployment whose processes are killed, and a record of its responses to merchants."""

    def __init__(
        self, folder: Path, cluster: Cluster, db: Db, postgres: EmbeddedPostgres | None = None
    ) -> None:
        """Use ``running_crash_load``. ``kill_postgres`` kills ``postgres``."""
        self.folder, self.cluster, self.db = folder, cluster, db
        self.postgres = [] if postgres is None else [postgres]
        self.shops: list[Shop] = []
        self.opened_orders: set[str] = set()
        # For each merchant id, the ids of the orders that the merchant has read as PAID.
        self.paid_orders: dict[str, list[str]] = {}
        self.accepted_refunds: dict[str, str] = {}  # for each refund id, its order id
        self.statuses: collections.Counter[int] = collections.Counter()
        self.unexpected_responses: list[str] = []
        self.kills: collections.Counter[str] = collections.Counter()
        self.killed_kinds: Sequence[str] = ("server", "worker", "bank", "postgres")

    async def kill_postgres(self) -> None:
        """Kill the postmaster with SIGKILL and start it again."""
        pid = int((self.folder / "postgres" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        for server in self.postgres:
            if (child := server._cluster._child) is not None and child.pid == pid:
                await asyncio.to_thread(child.wait)
        await asyncio.sleep(random.random() * 0.3)
        self.postgres.append(await asyncio.to_thread(EmbeddedPostgres.start, self.folder))

    async def kill_processes(self, end: float, pause_s: float) -> None:
        """Kill random processes until ``end``, and restart each after a short time."""
        cluster = self.cluster
        while time.monotonic() < end:
            await asyncio.sleep(pause_s * (0.5 + random.random()))
            kind = random.choice(self.killed_kinds)
            self.kills[kind] += 1
            if kind == "postgres":
                await self.kill_postgres()
                continue
            process = {"worker": cluster.worker, "bank": cluster.bank}.get(kind)
            process = process or random.choice(cluster.servers)
            await asyncio.to_thread(process.kill)
            await asyncio.sleep(random.random() * 0.5)
            process.start()

    async def run_customer(self, end: float, client: Client, shop: Shop) -> None:
        """Buy, pay and refund until ``end``, and continue after errors."""
        while time.monotonic() < end:
            try:
                await self._buy(client, shop)
            except EXPECTED_ERRORS:
                await asyncio.sleep(0.05)

    async def _buy(self, client: Client, shop: Shop) -> None:
        body = {"productId": shop.product_id}
        created = self._record(await client.call("POST", "/v1/checkouts", body))
        session_id = created.json()["data"]["id"]
        checkout = self._record(await client.call("GET", f"/v1/checkouts/{session_id}"))
        order_id = checkout.json()["data"]["orderId"]
        self.opened_orders.add(order_id)
        attempt_id = await client.start_payment(session_id)
        if attempt_id is None:
            return
        await client.type_card(attempt_id, random.choice(CARD_NUMBERS))
        if random.random() < 0.7:
            await client.return_from_bank(session_id, attempt_id)
        order = self._record(await client.call("GET", f"/v1/orders/{order_id}")).json()["data"]
        if order["status"] == "PAID":
            self.paid_orders.setdefault(shop.id, []).append(order_id)
        paid = self.paid_orders.get(shop.id, [])
        for number in range(3 if paid else 0):
            paid_id = random.choice(paid)
            body = {"amount": random.choice(("0.01", "1.70", "5.00"))}
            key = f"{order_id}-{number}"
            path = f"/v1/orders/{paid_id}/refunds"
            response = self._record(await client.call("POST", path, body, key))
            if response.status_code == 201:
                self.accepted_refunds[response.json()["data"]["id"]] = paid_id

    def _record(self, response: httpx2.Response) -> httpx2.Response:
        self.statuses[response.status_code] += 1
        if response.status_code not in EXPECTED_STATUSES:
            request = response.request
            self.unexpected_responses.append(
                f"{request.method} {request.url}: {response.text[:500]}"
            )
        return response

    async def run(self, seconds: float, customers: int = 8, pause_s: float = 0.7) -> None:
        """Run customers and the killer for some seconds, then restart processes that have ended."""
        if not self.shops:
            self.shops = [await create_shop(self.db, overdraft_minor=10**9) for _ in range(2)]
        end = time.monotonic() + seconds
        async with contextlib.AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(Client(self.cluster, shop.key))
                for shop in self.shops
            ]
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.kill_processes(end, pause_s))
                for n in range(customers):
                    tasks.create_task(self.run_customer(end, clients[n % 2], self.shops[n % 2]))
        for process in self.cluster.processes:
            process.restart_if_ended()
        for process in self.cluster.processes:
            # A process may have ended while the database was in recovery: start it again.
            if process.port:
                await asyncio.to_thread(wait_until_ready, process, keep=True)

    async def finish_due_work(self) -> bool:
        """Make all work of the worker's jobs due, wait, and return whether it is finished."""
        # A process that was started without a database has ended.
        for process in self.cluster.processes:
            process.restart_if_ended()
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
        processing = self._query_bank("select id, 1 from payments where status = 'processing'")
        if pending or processing:
            return False
        return await self.opentill_amounts() == self.bank_amounts()

    def bank_amounts(self) -> dict[str, int]:
        """Return the bank's net amounts by attempt."""
        return self._query_bank(
            "select id, amount_minor - refunded_minor from payments"
            " where status = 'succeeded' and amount_minor > refunded_minor"
        )

    def _query_bank(self, statement: str) -> dict[str, int]:
        path = self.folder / "bank" / "sandbox.sqlite3"
        with contextlib.closing(sqlite3.connect(path, timeout=10)) as bank:
            return dict(bank.execute(statement).fetchall())

    async def opentill_amounts(self) -> dict[str, int]:
        """Return the net amounts by attempt in OpenTill's database."""
        async with self.db.connection() as tx:
            rows = await tx.fetch(
                "select paid_attempt_id, amount_minor - refunded_minor from orders"
                " where paid_at is not null and amount_minor > refunded_minor"
            )
        return {row[0]: row[1] for row in rows}

    async def assert_consistent(self, seconds: float = 120) -> None:
        """Wait until all work is done; assert that everything acknowledged is stored."""
        is_finished = await eventually(self.finish_due_work, seconds)
        defects = [
            line[:4000]
            for process in self.cluster.processes
            for line in process.output.splitlines()
            if "internal error" in line or "job failed" in line
        ]
        assert not self.unexpected_responses, "\n".join(
            [*self.unexpected_responses[:5], *defects[:3]]
        )
        assert not defects, "\n".join(defects[:3])
        async with self.db.snapshot() as tx:
            await assert_books(tx)
            orders = dict(await tx.fetch("select id, paid_at is not null from orders"))
            refunds = dict(await tx.fetch("select id, order_id from refunds"))
            unfinished = await tx.fetch(
                "select a.id, a.status, a.checks, o.status from payment_attempts a join orders o"
                " on o.merchant_id = a.merchant_id and o.id = a.order_id"
                " where a.status in ('SUBMITTED', 'PENDING', 'DUPLICATE')"
            )
        assert await self.opentill_amounts() == self.bank_amounts()
        assert is_finished, [tuple(row) for row in unfinished]
        assert self.opened_orders <= orders.keys()
        assert all(orders[order_id] for ids in self.paid_orders.values() for order_id in ids)
        assert self.accepted_refunds.items() <= refunds.items()


async def _make_due(tx: Tx) -> None:
    await tx.execute(
        "update payment_attempts set check_at = least(check_at, 1),"
        " created_at = least(created_at, updated_at - 60000) where check_at is not null"
    )
    await tx.execute("update refunds set try_at = 1 where try_at is not null")


@contextlib.asynccontextmanager
async def running_crash_load(
    servers: int = 2, fork_server: ForkServer | None = None, **settings: str
) -> AsyncIterator[CrashLoad]:
    """Run a deployment with a durable database in a temporary directory.

    ``settings``: environment variables without their prefix.
    """
    with tempfile.TemporaryDirectory(prefix="opentill-crash-load-") as name:
        folder = Path(name)
        postgres = await asyncio.to_thread(EmbeddedPostgres.start, folder)
        await migrations.migrate(postgres.url)
        cluster = Cluster(folder, postgres.url, servers, fork_server, **settings)
        load = None
        try:
            await asyncio.to_thread(cluster.start)
            db = await Db.connect(postgres.url, 4, acquire_timeout_s=10)
            load = CrashLoad(folder, cluster, db, postgres)
            yield load
            await db.close()
        finally:
            await asyncio.to_thread(cluster.stop)
            for server in [postgres] if load is None else load.postgres:
                await asyncio.to_thread(server.release)
