"""Processes are killed at the worst moments, and nothing acknowledged is lost."""

import asyncio
import contextlib

import httpx2

from money.house import Client, eventually, make_shop, wait_for
from money.storm import standing


async def test_kill_during_the_call_and_at_any_moment() -> None:
    """First exactly between intent, call and result; then at random, under load."""
    async with standing() as storm:
        house = storm.house
        shop = await make_shop(storm.db, overdraft_minor=10**9)
        async with Client(house, shop.key) as client:
            # A refund is sent by the worker, which dies while the bank is at it.
            for kind in ("timeout_before", "timeout_after"):
                order_id = await client.paid(shop.product_id)
                await client.spoil("refund", kind, delay_s=5)
                made = await client.call(
                    "POST", f"/v1/orders/{order_id}/refunds", {"amount": "1.00"}
                )
                storm.refunded[made.json()["data"]["id"]] = order_id

                async def sent(refund_id: str = made.json()["data"]["id"]) -> bool:
                    async with storm.db.connection() as tx:
                        sql = "select sent from refunds where id = $1"
                        return bool(await tx.fetchval(sql, refund_id))

                assert await eventually(sent)
                await asyncio.sleep(0.2)
                await asyncio.to_thread(house.worker.kill)
                house.worker.start()
            # A payment is asked for by a server, which dies while the bank is at it.
            for kind in ("timeout_before", "timeout_after", "slow"):
                # Without a worker, which would ask the bank; and the bank takes longer than a call.
                await asyncio.to_thread(house.worker.kill)
                session_id, order_id = await client.open(shop.product_id)
                storm.opened.add(order_id)
                await client.spoil("pay", kind, delay_s=12)
                paying = asyncio.create_task(client.begin(session_id))

                async def begun(order_id: str = order_id) -> bool:
                    async with storm.db.connection() as tx:
                        sql = "select true from attempts where order_id = $1"
                        return bool(await tx.fetchval(sql, order_id))

                assert await eventually(begun)
                await asyncio.sleep(0.2)
                for server in house.servers:
                    await asyncio.to_thread(server.kill)
                with contextlib.suppress(httpx2.HTTPError):
                    await paying
                async with storm.db.connection() as tx:
                    sql = "select status from orders where id = $1"
                    assert await tx.fetchval(sql, order_id) == "CREATING"
                for server in house.servers:
                    server.start()
                for server in house.servers:
                    await asyncio.to_thread(wait_for, server)
                assert (await client.order(order_id))["status"] == "CREATING"
                house.worker.start()
        await storm.reckon()
        for _ in range(6):  # on a busy machine little happens in the time of one
            await storm.rage(seconds=8)
            if storm.kills.total() >= 4 and len(storm.opened) > 5:
                break
        await storm.reckon()
        assert storm.kills.total() >= 4
        assert len(storm.opened) > 5
