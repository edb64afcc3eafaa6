"""Killing processes at critical times loses nothing that was acknowledged."""

import asyncio

import httpx2

from support.cluster import Client, Shop, create_shop, eventually, wait_until_ready
from support.commands import ForkServer
from support.crash_load import CrashLoad, running_crash_load

LONG_S = 12  # seconds; the timeout of calls to the bank is shorter


async def test_no_acknowledged_work_is_lost_when_processes_are_killed(
    fork_server: ForkServer,
) -> None:
    """Kill processes between intent, call and result, and then at random under load."""
    async with running_crash_load(fork_server=fork_server) as load:
        shop = await create_shop(load.db, overdraft_minor=10**9)
        async with Client(load.cluster, shop.key) as client:
            await _kill_worker_during_refunds(load, client, shop)
            await _kill_servers_during_payments(load, client, shop)
        load.cluster.worker.start()
        await load.assert_consistent()
        # On a busy machine, one round may be too short.
        for _ in range(20):
            await load.run(seconds=2, pause_s=0.3)
            if load.kills.total() >= 4 and len(load.opened_orders) > 5:
                break
        await load.assert_consistent()
        assert load.kills.total() >= 4
        assert len(load.opened_orders) > 5


async def _kill_worker_during_refunds(load: CrashLoad, client: Client, shop: Shop) -> None:
    """Kill the worker that sends refunds during the bank's call."""
    kinds = ("timeout_before", "timeout_after")
    orders = [await client.create_paid_order(shop.product_id) for _ in kinds]
    for kind in kinds:
        await client.inject_fault("refund", kind, delay_s=LONG_S)
    for order_id in orders:
        created = await client.call("POST", f"/v1/orders/{order_id}/refunds", {"amount": "1.00"})
        load.accepted_refunds[created.json()["data"]["id"]] = order_id
    assert await eventually(lambda: _have_all_calls_attempted(client))
    async with load.db.connection() as tx:
        assert await tx.fetchval("select count(*) from refunds where sent") == len(kinds)
    await asyncio.to_thread(load.cluster.worker.kill)


async def _kill_servers_during_payments(load: CrashLoad, client: Client, shop: Shop) -> None:
    """Kill the servers that create payments during the bank's calls.

    No worker runs, because it would query the bank for their state.
    """
    servers, sessions = load.cluster.servers, []
    for kind in ("timeout_before", "timeout_after", "slow"):
        sessions.append(await client.open_session(shop.product_id))
        await client.inject_fault("pay", kind, delay_s=LONG_S)
    order_ids = {order_id for _, order_id in sessions}
    load.opened_orders |= order_ids
    paying = [asyncio.create_task(client.start_payment(session_id)) for session_id, _ in sessions]
    assert await eventually(lambda: _have_all_calls_attempted(client))
    for server in servers:
        await asyncio.to_thread(server.kill)
    for error in await asyncio.gather(*paying, return_exceptions=True):
        assert isinstance(error, httpx2.HTTPError), error
    async with load.db.connection() as tx:
        creating = await tx.fetch("select id from orders where status = 'CREATING'")
        assert {row[0] for row in creating} == order_ids
    for server in servers:
        server.start()
    for server in servers:
        await asyncio.to_thread(wait_until_ready, server)
    for order_id in order_ids:
        assert (await client.read_order(order_id))["status"] == "CREATING"


async def _have_all_calls_attempted(client: Client) -> bool:
    """Whether every call with a planned fault has reached the bank."""
    return (await client.call_bank("GET", "/faults")).json() == []
