"""A node of the cluster is killed in the middle of payments, and shards move under them.

Nothing is lost or done twice, a merchant whose node is away gets 503 and the others go on, and what
was prepared on a node that was lost is decided when it is back.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from opentill import orders
from opentill.callbacks.confirmations import Confirmations
from opentill.core.errors import Unavailable
from opentill.db.database import Db, Tx
from opentill.gateways.model import Card, GatewayPaymentEvent, PaymentOutcome
from opentill.orders import PaymentAttempt, Report
from support import citus, world
from support.citus import Node
from support.cluster import Client, Cluster, Shop, eventually, make_shop
from support.commands import ForkServer
from support.crash_load import Storm
from support.databases import clone
from support.world import NOW

SECONDS: Final = 20.0
_PLACED: Final = """
    select s.shardid as shard, p.groupid as group
    from pg_dist_shard s join pg_dist_placement p using (shardid)
    where s.logicalrelid = 'orders'::regclass
"""
_WHOSE: Final = """
    select p.groupid as group from pg_dist_placement p
    where p.shardid = get_shard_id_for_distribution_column('orders', '{}')
"""
_PREPARED: Final = "select gid from pg_prepared_xacts where database = current_database()"
_MOVE: Final = """
    select citus_move_shard_placement({shard}, '{0.host}', {0.port}, '{1.host}', {1.port},
        shard_transfer_mode := 'force_logical')
"""


class NodeStorm(Storm):
    """Customers on a cluster whose nodes are killed, or whose shards are moved."""

    def __init__(self, folder: Path, cluster: Cluster, db: Db, url: str, nodes: list[Node]) -> None:
        """Use the fixture."""
        super().__init__(folder, cluster, db)
        self.url, self.nodes = url, nodes
        self.victims: list[Node] = []
        self.moved = 0

    async def killer(self, end: float, pause_s: float) -> None:
        """Kill one of ``victims`` after the other; without any, move shards to and fro."""
        while time.monotonic() < end:
            await asyncio.sleep(pause_s * (0.5 + random.random()))
            if self.victims:
                victim = random.choice(self.victims)
                self.kills[str(victim.group)] += 1
                await victim.kill()
                await asyncio.sleep(2 * random.random())
                await victim.start()
            else:
                await self._move()

    async def _move(self) -> None:
        placed = await citus.run(self.url, _PLACED)
        one = random.choice(placed)
        workers = [node for node in self.nodes if node.group]
        source = next(node for node in workers if node.group == one["group"])
        target = random.choice([node for node in workers if node is not source])
        await citus.run(self.url, _MOVE.format(source, target, shard=one["shard"]))
        self.moved += 1

    async def undecided(self) -> list[str]:
        """Return what is prepared on a node and neither committed nor rolled back."""
        name = self.url.partition("@/")[2].partition("?")[0]
        found: list[str] = []
        for node in self.nodes:
            rows = await citus.run(citus.named(name, node.host, node.port), _PREPARED)
            found += [row["gid"] for row in rows]
        return found

    async def calm(self) -> None:
        """See that all has come to its right end: the books, the bank, what was acknowledged."""
        await self.reckon(180)

        async def decided() -> bool:
            return not await self.undecided()

        assert await eventually(decided, 90), await self.undecided()


@pytest.fixture
async def storm(
    postgres_url: str, template: str, fork_server: ForkServer, tmp_path: Path
) -> AsyncIterator[NodeStorm]:
    """Run servers, worker and bank on a database of the cluster."""
    with clone(postgres_url, template) as url:
        cluster = Cluster(tmp_path, url, 2, fork_server)
        try:
            await asyncio.to_thread(cluster.start)
            db = await Db.connect(url, 4, acquire_timeout_s=10)
            yield NodeStorm(tmp_path, cluster, db, url, await citus.nodes(url))
            await db.close()
        finally:
            await asyncio.to_thread(cluster.stop)


async def _on_each_node(db: Db, url: str) -> dict[int, Shop]:
    """Make a merchant on each worker; return them by the group of their nodes."""
    found: dict[int, Shop] = {}
    while len(found) < len(await citus.nodes(url)) - 1:
        shop = await make_shop(db)
        (whose,) = await citus.run(url, _WHOSE.format(shop.id))
        found[int(whose["group"])] = shop
    return found


async def _status(client: Client, shop: Shop) -> int:
    answer = await client.call("POST", "/v1/checkouts", {"productId": shop.product_id})
    if answer.status_code == 503:
        assert answer.headers["retry-after"]
    return answer.status_code


@citus.may_kill
async def test_a_lost_node_is_a_503_of_its_merchants_alone(storm: NodeStorm) -> None:
    shops = await _on_each_node(storm.db, storm.url)
    lost, kept = storm.nodes[1], storm.nodes[2]
    async with contextlib.AsyncExitStack() as stack:
        clients = {
            group: await stack.enter_async_context(Client(storm.cluster, shop.key))
            for group, shop in shops.items()
        }

        async def statuses(node: Node) -> set[int]:
            asked = [_status(clients[node.group], shops[node.group]) for _ in range(12)]
            return set(await asyncio.gather(*asked))

        async def page(node: Node) -> int:
            session_id, _ = begun[node.group]
            client = clients[node.group]
            return (await client.http.get(f"{client.server()}/checkout/{session_id}")).status_code

        assert await statuses(lost) | await statuses(kept) == {201}
        begun = {group: await clients[group].open(shop.product_id) for group, shop in shops.items()}
        await lost.kill()
        try:
            assert await statuses(lost) == {503}
            assert await statuses(kept) == {201}
            assert await statuses(lost) == {503}
            assert (await page(lost), await page(kept)) == (503, 200)
        finally:
            await lost.start()

        async def back() -> bool:
            return await statuses(lost) == {201}

        assert await eventually(back, 60)
    await storm.calm()


@citus.may_kill
async def test_payments_of_others_are_confirmed_while_a_node_is_away(storm: NodeStorm) -> None:
    """The bank reports payments of both merchants, one after the other."""
    shops = await _on_each_node(storm.db, storm.url)
    lost, kept = storm.nodes[1], storm.nodes[2]
    async with contextlib.AsyncExitStack() as stack:
        clients = {
            group: await stack.enter_async_context(Client(storm.cluster, shop.key))
            for group, shop in shops.items()
        }

        async def begun(group: int) -> tuple[str, str]:
            session_id, order_id = await clients[group].open(shops[group].product_id)
            attempt_id = await clients[group].begin(session_id)
            assert attempt_id is not None
            return order_id, attempt_id

        async def statuses(node: Node) -> set[str]:
            paths = [f"/v1/orders/{order_id}" for order_id, _ in payments[node.group]]
            found = [await clients[node.group].call("GET", path) for path in paths]
            return {one.json()["data"]["status"] for one in found}

        payments = {group: [await begun(group) for _ in range(6)] for group in shops}
        await lost.kill()
        try:
            await asyncio.gather(
                *(
                    clients[group].type_card(attempt_id)
                    for group, all_ in payments.items()
                    for _, attempt_id in all_
                )
            )

            async def paid() -> bool:
                return await statuses(kept) == {"PAID"}

            assert await eventually(paid, 30)
        finally:
            await lost.start()

        async def all_paid() -> bool:
            return await statuses(lost) == {"PAID"}

        assert await eventually(all_paid, 60)
    await storm.calm()


@citus.may_kill
async def test_a_report_of_a_lost_node_does_not_refuse_those_beside_it(
    db: Db, database_url: str
) -> None:
    """Reports of both merchants that arrive at once are a batch, as ``callbacks`` makes them."""
    shops = await _on_each_node(db, database_url)
    _, lost, kept = await citus.nodes(database_url)

    async def begun(shop: Shop) -> Report:
        async def work(tx: Tx) -> PaymentAttempt:
            session = await world.session(tx, shop.id, shop.product_id, NOW)
            return await world.submitted(tx, await orders.find(tx, shop.id, session.order_id))

        attempt = await db.run(work)
        paid = PaymentOutcome(
            status="SUCCEEDED",
            provider_ref=f"ref_{attempt.id}",
            card=Card(brand="visa", last4="4242"),
        )
        return Report(attempt.gateway, GatewayPaymentEvent(attempt_id=attempt.id, outcome=paid))

    async def one_by_one(report: Report) -> None:
        pytest.fail(f"{report.key} was not confirmed in a batch")

    reports = {group: [await begun(shop) for _ in range(6)] for group, shop in shops.items()}
    confirmations = Confirmations(db, lambda: NOW, one_by_one)

    async def came(node: Node) -> list[object]:
        taken = [
            confirmations.take_in(one.gateway, one.gateway_event) for one in reports[node.group]
        ]
        return await asyncio.gather(*taken, return_exceptions=True)

    await lost.kill()
    try:
        of_lost, of_kept = await asyncio.gather(came(lost), came(kept))
    finally:
        await lost.start()
    assert of_kept == [None] * 6
    assert {type(one) for one in of_lost} == {Unavailable}

    async def again() -> bool:
        return await came(lost) == [None] * 6

    assert await eventually(again, 60)


@citus.may_kill
@pytest.mark.parametrize("which", ["worker", "coordinator"])
async def test_payments_survive_a_node_that_is_killed(storm: NodeStorm, which: str) -> None:
    storm.victims = [node for node in storm.nodes if bool(node.group) == (which == "worker")]
    await _raging(storm, lambda: storm.kills.total() >= 2)
    await storm.calm()


@citus.needed
async def test_payments_go_on_while_shards_are_moved(storm: NodeStorm) -> None:
    await _raging(storm, lambda: storm.moved >= 2)
    await storm.calm()


async def _raging(storm: NodeStorm, enough: Callable[[], Any]) -> None:
    """Let it rage until enough was done to it, and some was paid."""
    shops = await _on_each_node(storm.db, storm.url)
    storm.shops = list(shops.values())
    end = time.monotonic() + 120
    while not (enough() and storm.paid) and time.monotonic() < end:
        await storm.rage(SECONDS, customers=4, pause_s=4)
    assert enough()
    assert storm.paid
