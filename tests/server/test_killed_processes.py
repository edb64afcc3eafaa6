"""Processes are killed at the worst moments, and nothing acknowledged is lost."""

import asyncio

import httpx2

from support.cluster import Client, Shop, eventually, make_shop, wait_for
from support.commands import ForkServer
from support.crash_load import Storm, standing

LONG_S = 12  # longer than any call to the bank lasts


async def test_kill_during_the_call_and_at_any_moment(fork_server: ForkServer) -> None:
    """First exactly between intent, call and result; then at random, under load."""
    async with standing(fork_server=fork_server) as storm:
        shop = await make_shop(storm.db, overdraft_minor=10**9)
        async with Client(storm.cluster, shop.key) as client:
            await _killed_while_refunds_are_sent(storm, client, shop)
            await _killed_while_payments_are_asked_for(storm, client, shop)
        storm.cluster.worker.start()
        await storm.reckon()
        for _ in range(20):  # on a busy machine little happens in the time of one
            await storm.rage(seconds=2, pause_s=0.3)
            if storm.kills.total() >= 4 and len(storm.opened) > 5:
                break
        await storm.reckon()
        assert storm.kills.total() >= 4
        assert len(storm.opened) > 5


async def _killed_while_refunds_are_sent(storm: Storm, client: Client, shop: Shop) -> None:
    """A refund is sent by the worker, which dies while the bank is at it."""
    kinds = ("timeout_before", "timeout_after")
    orders = [await client.paid(shop.product_id) for _ in kinds]
    for kind in kinds:
        await client.spoil("refund", kind, delay_s=LONG_S)
    for order_id in orders:
        made = await client.call("POST", f"/v1/orders/{order_id}/refunds", {"amount": "1.00"})
        storm.refunded[made.json()["data"]["id"]] = order_id
    assert await eventually(lambda: _is_at_them(client))
    async with storm.db.connection() as tx:
        assert await tx.fetchval("select count(*) from refunds where sent") == len(kinds)
    await asyncio.to_thread(storm.cluster.worker.kill)


async def _killed_while_payments_are_asked_for(storm: Storm, client: Client, shop: Shop) -> None:
    """A payment is asked for by a server, which dies while the bank is at it.

    There is no worker, which would ask the bank what became of it.
    """
    servers, sessions = storm.cluster.servers, []
    for kind in ("timeout_before", "timeout_after", "slow"):
        sessions.append(await client.open(shop.product_id))
        await client.spoil("pay", kind, delay_s=LONG_S)
    begun = {order_id for _, order_id in sessions}
    storm.opened |= begun
    paying = [asyncio.create_task(client.begin(session_id)) for session_id, _ in sessions]
    assert await eventually(lambda: _is_at_them(client))
    for server in servers:
        await asyncio.to_thread(server.kill)
    for ended in await asyncio.gather(*paying, return_exceptions=True):
        assert isinstance(ended, httpx2.HTTPError), ended
    async with storm.db.connection() as tx:
        found = await tx.fetch("select id from orders where status = 'CREATING'")
        assert {row[0] for row in found} == begun
    for server in servers:
        server.start()
    for server in servers:
        await asyncio.to_thread(wait_for, server)
    for order_id in begun:
        assert (await client.order(order_id))["status"] == "CREATING"


async def _is_at_them(client: Client) -> bool:
    """Tell whether the bank has begun with every call that it is to leave without an answer."""
    return (await client.at_bank("GET", "/faults")).json() == []
