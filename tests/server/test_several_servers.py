"""Three servers and three workers on one database, behind a TCP balancer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from opentill.db.database import Db
from support.balancer import Balancer
from support.books import assert_books
from support.cluster import Client, Cluster, PatientClient, Process, create_shop, eventually
from support.commands import ForkServer
from support.ports import free_port

DAY_MS = 86_400_000


@pytest.fixture
async def deployment(
    make_database: Callable[[], str], fork_server: ForkServer, tmp_path: Path
) -> AsyncIterator[tuple[Db, Cluster]]:
    """A deployment with three servers, three workers and a bank, and its database."""
    url = make_database()
    cluster = Cluster(
        tmp_path, url, 3, fork_server,
        LIMIT_IP_PER_MINUTE="200", LIMIT_CHECKOUTS_PER_MINUTE="0", TRUSTED_PROXIES="127.0.0.1",
    )  # fmt: skip
    others = [cluster.worker.copy(f"worker-{n}") for n in (2, 3)]
    db = await Db.connect(url, 4, acquire_timeout_s=20)
    try:
        await asyncio.to_thread(cluster.start)
        for process in others:
            process.start()
        yield db, cluster
        for process in (cluster.worker, *others):
            assert process._popen is not None
            assert process._popen.poll() is None, process.output
            assert "failed" not in process.output, process.output
        async with db.snapshot() as tx:
            await assert_books(tx)
    finally:
        await asyncio.to_thread(cluster.stop)
        for process in others:
            process.terminate()
        for process in others:
            await asyncio.to_thread(process.stop)
        await db.close()


async def test_three_servers_and_three_workers_act_as_one_service(
    deployment: tuple[Db, Cluster],
) -> None:
    db, cluster = deployment
    balancer = Balancer([server.port for server in cluster.servers])
    shop = await create_shop(db, settlement_delay_days=1)
    async with balancer.listening() as port:
        # The test uses only this cluster's URL.
        balanced = Cluster(Path("/nonexistent"), "", servers=1)
        balanced.bank = cluster.bank
        balanced.servers[0].port = port
        async with PatientClient(balanced, shop.key) as client:
            await _check_shared_limit(client)
            client.http.headers.pop("X-Forwarded-For")
            orders = await _pay_orders(client, shop.product_id)
            await _check_one_refund_per_key(client, orders[0])
            await _check_refunds_end(client, db, orders)
            await _check_settlement(db, client, orders)
    assert set(balancer.used) == {server.port for server in cluster.servers}


async def _check_shared_limit(client: PatientClient) -> None:
    """Check that the limit of 200 a minute holds over all servers: 200 of 260 requests pass."""
    client.http.headers["X-Forwarded-For"] = "192.0.2.1:51234"
    responses = await client.assert_limited(
        (client.call("GET", "/v1/balance") for _ in range(260)), 200
    )
    assert {response.status_code for response in responses} == {200, 429}


async def _pay_orders(client: Client, product_id: str) -> list[str]:
    """Pay 12 orders, each from another address, and return their ids."""
    orders = []
    for number in range(12):
        client.http.headers["X-Forwarded-For"] = f"[2001:db8:{number:x}::1]:443"
        orders.append(await client.create_paid_order(product_id))
    return orders


async def _check_one_refund_per_key(client: Client, order_id: str) -> None:
    """Check that 30 requests with one key on all servers create one refund."""
    client.http.headers["X-Forwarded-For"] = "192.0.2.3"
    path = f"/v1/orders/{order_id}/refunds"
    responses = await asyncio.gather(
        *(client.call("POST", path, {"amount": "0.10"}, "one-key") for _ in range(30))
    )
    assert {response.status_code for response in responses} <= {201, 409}
    assert len({response.content for response in responses if response.status_code == 201}) == 1
    pagination = (await client.call("GET", path)).json()["data"]["pagination"]
    assert pagination["total"] == 1


async def _check_refunds_end(client: Client, db: Db, orders: list[str]) -> None:
    """Refund half of the orders and wait until the workers have sent every refund."""
    client.http.headers["X-Forwarded-For"] = "192.0.2.4"
    responses = await asyncio.gather(
        *(client.call("POST", f"/v1/orders/{order}/refunds", {"amount": "1.00"})
          for order in orders[:6])
    )  # fmt: skip
    assert {response.status_code for response in responses} == {201}

    async def no_refund_is_processing() -> bool:
        async with db.connection() as tx:
            return not await tx.fetchval("select count(*) from refunds where status = 'PROCESSING'")

    assert await eventually(no_refund_is_processing, 40)


async def _check_settlement(db: Db, client: Client, orders: list[str]) -> None:
    """Make all orders due at once, and check that the workers settle each exactly once."""
    async with db.connection() as tx:
        await tx.execute("update business_clock set ahead_ms = $1", 3 * DAY_MS)

    async def all_are_settled() -> bool:
        async with db.connection() as tx:
            count = await tx.fetchval("select count(*) from orders where status = 'SETTLED'")
            return bool(count == len(orders))

    assert await eventually(all_are_settled, 60)
    async with db.connection() as tx:
        rows = await tx.fetch(
            "select source_id, count(*) from entries where type = 'SETTLEMENT' group by 1"
        )
        assert dict(rows) == dict.fromkeys(orders, 1)
        count = await tx.fetchval("select count(*) from order_history where event = 'settled'")
        assert count == len(orders)


async def test_a_worker_waits_for_its_database(fork_server: ForkServer, tmp_path: Path) -> None:
    port = free_port()  # no server listens on this port
    unreachable = f"postgresql://opentill@127.0.0.1:{port}/opentill"
    cluster = Cluster(tmp_path, unreachable, servers=1, fork_server=fork_server)
    cluster.worker.start()
    try:
        assert await eventually(lambda: _has_logged(cluster.worker, "waiting for it"), 40)
        assert cluster.worker._popen is not None
        assert cluster.worker._popen.poll() is None
        cluster.worker.terminate()
        assert await asyncio.to_thread(cluster.worker._popen.wait, 20) == 0
    finally:
        cluster.worker.stop()


async def _has_logged(process: Process, text: str) -> bool:
    return text in process.output
