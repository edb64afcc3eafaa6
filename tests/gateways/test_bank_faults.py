"""The bank misbehaves over HTTP, and the worker repairs the state.

Jobs take ``now``, so tests move time by passing a later one. Captures are counted at the bank.
"""

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import msgspec
import pytest

from opentill import callbacks, checkouts, orders
from opentill.checkouts import jobs as checkout_jobs
from opentill.context import App
from opentill.core.settings import Settings
from opentill.db.database import Db
from opentill.gateways.model import GatewayEvent, GatewayPaymentEvent
from opentill.gateways.sandbox import SandboxGateway
from opentill.orders import Order, PaymentAttempt
from opentill.orders import jobs as order_jobs
from opentill.outgoing.client import merchant_client
from opentill.refunds import jobs as refund_jobs
from support.books import assert_books
from support.cluster import (
    CARD,
    DECLINED,
    REFUNDS_FAIL,
    SECRET,
    Cluster,
    eventually,
    wait_until_ready,
)
from support.commands import ForkServer
from support.world import NOW, create_merchant, create_product, create_refund, create_session

PUBLIC = "http://127.0.0.1:9"  # where callbacks of the bank never arrive: tests hand them in


@pytest.fixture(scope="module")
def cluster(
    module_database_url: str, fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Run a bank alone."""
    cluster = Cluster(tmp_path_factory.mktemp("bank"), module_database_url, 1, fork_server)
    cluster.bank.start()
    try:
        wait_until_ready(cluster.bank)
        yield cluster
    finally:
        cluster.bank.stop()


class World:
    """OpenTill in this process with its own clock; the bank is another process."""

    def __init__(self, db: Db, cluster: Cluster) -> None:
        self.db, self.cluster, self.now = db, cluster, NOW
        self.client = httpx2.AsyncClient(timeout=60, trust_env=False)
        self.gateways = {"sandbox": SandboxGateway(cluster.bank.url, SECRET, timeout_s=10.0)}
        # Where the answer is lost whatever happens, there is no need to wait for it so long.
        self.hasty = {"sandbox": SandboxGateway(cluster.bank.url, SECRET, timeout_s=0.4)}
        self.spoilt = False
        self.app = App(
            settings=Settings(),
            db=db,
            outgoing=merchant_client(Settings()),
            gateways=self.gateways,
            clock=lambda: self.now,
        )
        self.numbers = itertools.count()

    async def close(self) -> None:
        await self.client.aclose()
        for gateway in (*self.gateways.values(), *self.hasty.values()):
            await gateway.close()

    async def bank(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {SECRET}"}
        url = self.cluster.bank.url + path
        answer = await self.client.request(method, url, json=body, headers=headers)
        return answer.json() if answer.content else None

    async def inject_fault(self, operation: str, kind: str, times: int = 1) -> None:
        fault = {"operation": operation, "kind": kind, "times": times}
        await self.bank("POST", "/faults", {**fault, "delay_s": 2.0})
        self.spoilt = True

    async def gateways_in_use(self) -> dict[str, SandboxGateway]:
        """Return the gateways to call: with short timeouts while the bank has pending faults."""
        self.spoilt = self.spoilt and await self.bank("GET", "/faults") != []
        return self.hasty if self.spoilt else self.gateways

    async def open(self) -> Order:
        async with self.db.transaction() as tx:
            shop = await create_merchant(tx, overdraft_minor=10**6)
            mug = await create_product(tx, shop.id)
            checkout = await create_session(tx, shop.id, mug.id, self.now)
            return await orders.find(tx, shop.id, checkout.order_id)

    async def pay(self, order: Order, method: str = "CREDIT_CARD") -> PaymentAttempt:
        entered = checkouts.PayerInput(
            email="ann@example.com", name="Ann", method=method, ip="192.0.2.7", locale="en"
        )
        attempt = await checkouts.pay(
            self.db, await self.gateways_in_use(), order.checkout_id, entered, PUBLIC, self.now
        )
        assert attempt is not None
        return attempt

    async def type_card(self, attempt: PaymentAttempt, number: str = CARD) -> None:
        form = {"number": number, "exp": "12/34", "csc": "123"}
        await self.client.post(f"{self.cluster.bank.url}/pay/{attempt.id}", data=form)

    async def look(self, order: Order) -> Order:
        async with self.db.connection() as tx:
            return await orders.find(tx, order.merchant_id, order.id)

    async def work(self, hours: float = 3) -> None:
        """Run the worker's jobs for some hours of the test's clock."""
        end = self.now + hours * 3_600_000
        while self.now < end:
            self.now += 20_000 if self.now < NOW + 300_000 else 1_200_000
            await order_jobs.check_attempts(self.db, await self.gateways_in_use(), PUBLIC, self.now)
            await refund_jobs.send_due(self.db, await self.gateways_in_use(), PUBLIC, self.now)
            await checkout_jobs.expire_due(self.db, self.now)

    async def deliver(self, *gateway_event: GatewayEvent) -> None:
        for piece in gateway_event:
            await callbacks.apply_event(self.app, "sandbox", piece, self.now)

    async def refunds(self, order: Order) -> list[str]:
        async with self.db.connection() as tx:
            rows = await tx.fetch(
                "select status from refunds where order_id = $1 order by id", order.id
            )
        return [row[0] for row in rows]

    async def balance_at_bank(self, order: Order) -> int:
        """Return the amount that the bank captured for an order and did not refund."""
        kept_minor = 0
        async with self.db.connection() as tx:
            rows = await tx.fetch("select id from payment_attempts where order_id = $1", order.id)
        for (attempt_id,) in rows:
            payment = await self.bank("GET", f"/payments/{attempt_id}")
            if payment.get("status") == "succeeded":
                kept_minor += payment["amount_minor"] - payment["refunded_minor"]
        return kept_minor


@pytest.fixture
async def world(db: Db, cluster: Cluster) -> AsyncIterator[World]:
    world = World(db, cluster)
    await world.bank("DELETE", "/faults")
    yield world
    await world.bank("DELETE", "/faults")
    async with db.connection() as tx:
        waiting = await tx.fetch("select id from payment_attempts where status = 'SUBMITTED'")
        processing = await tx.fetch("select id from refunds where status = 'PROCESSING'")
        stuck = await tx.fetch("select id from orders where status = 'CREATING'")
    assert (waiting, processing, stuck) == ([], [], [])
    await world.close()


KINDS = (
    "timeout_before", "timeout_after", "error_500", "error_500_after", "reset", "reset_after",
    "slow",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
async def test_a_payment_whose_response_is_lost_is_resolved(world: World, kind: str) -> None:
    order = await world.open()
    await world.inject_fault("pay", kind)
    await world.inject_fault("find", kind, 2)
    attempt = await world.pay(order)
    assert (attempt.status, (await world.look(order)).status) == ("SUBMITTED", "CREATING")
    again = await world.pay(order)
    assert again.id == attempt.id  # no second attempt while nothing is known of the first
    await world.type_card(attempt)  # if it reached the bank after all
    await world.work()
    if kind in {"timeout_before", "error_500", "reset"}:
        assert (await world.look(order)).status == "PENDING"
        second = await world.pay(order)
        assert second.id != attempt.id
        await world.type_card(second)
        await world.work()
    assert (await world.look(order)).status == "PAID"
    assert await world.balance_at_bank(order) == 999


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refund_whose_response_is_lost_is_made_once(world: World, kind: str) -> None:
    order = await world.open()
    await world.type_card(await world.pay(order))
    await world.work(1)
    await world.inject_fault("refund", kind, 3)
    async with world.db.transaction() as tx:
        await create_refund(tx, await world.look(order), "4.00", world.now)
    await world.work(30)
    assert await world.refunds(order) == ["SUCCEEDED"]
    assert await world.balance_at_bank(order) == 599


async def test_a_refund_that_fails_later_returns_the_held_money(world: World) -> None:
    order = await world.open()
    await world.type_card(await world.pay(order), REFUNDS_FAIL)
    await world.work(1)
    async with world.db.transaction() as tx:
        await create_refund(tx, await world.look(order), None, world.now)

    async def failed() -> bool:
        await world.work(1)
        return await world.refunds(order) == ["FAILED"]

    assert await eventually(failed)
    assert await world.balance_at_bank(order) == 999


async def test_an_unreachable_bank_decides_no_attempt(world: World) -> None:
    """A failed query ends no attempt and loses no capture."""
    submitted, opened = await world.open(), await world.open()
    await world.inject_fault("pay", "timeout_after")
    unknown = await world.pay(submitted)
    waiting = await world.pay(opened)
    assert (unknown.status, waiting.status) == ("SUBMITTED", "ACTION_REQUIRED")
    world.cluster.bank.kill()
    try:
        await world.work(2)
        assert (await world.look(submitted)).status == "CREATING"
        last = await checkouts.find_page_view(world.db, opened.checkout_id)
        assert last is not None
        assert last.last_attempt is not None
        assert last.last_attempt.status == "ACTION_REQUIRED"
        fresh = await world.open()
        assert (await world.pay(fresh)).status == "DECLINED"  # this one surely never arrived
    finally:
        world.cluster.bank.start()
        wait_until_ready(world.cluster.bank)
    for attempt in (unknown, waiting):
        await world.type_card(attempt)
    await world.work(4)
    for order in (submitted, opened):
        assert (await world.look(order)).status == "PAID"
        assert await world.balance_at_bank(order) == 999


async def test_a_wrong_secret_decides_no_payment_or_refund(world: World) -> None:
    order = await world.open()
    await world.type_card(await world.pay(order))
    await world.work(1)
    wrong = {"sandbox": SandboxGateway(world.cluster.bank.url, "wrong", timeout_s=1.0)}
    right, world.gateways = world.gateways, wrong
    async with world.db.transaction() as tx:
        await create_refund(tx, await world.look(order), "4.00", world.now)
    other = await world.open()
    await world.pay(other)
    await world.work(1)
    await wrong["sandbox"].close()
    assert await world.refunds(order) == ["PROCESSING"]
    assert (await world.look(other)).status == "CREATING"
    world.gateways = right
    await world.work(4)
    assert await world.refunds(order) == ["SUCCEEDED"]
    assert (await world.look(other)).status == "PENDING"


async def test_polling_resolves_payments_without_callbacks(world: World) -> None:
    orders_ = [await world.open() for _ in range(3)]
    cards = (CARD, DECLINED, "4000000000009987")
    for order, number in zip(orders_, cards, strict=True):
        await world.type_card(await world.pay(order), number)
    await world.work()
    assert [(await world.look(order)).status for order in orders_] == ["PAID", "PENDING", "FAILED"]


async def test_callbacks_are_independent_of_order_and_repetition(world: World) -> None:
    order = await world.open()
    attempt = await world.pay(order)
    await world.type_card(attempt, DECLINED)
    declined = await world.gateways["sandbox"].find_payment(attempt.id)
    early = GatewayPaymentEvent(attempt_id=attempt.id, outcome=declined)
    await world.deliver(early)
    second = await world.pay(order)
    await world.type_card(second)
    succeeded = await world.gateways["sandbox"].find_payment(second.id)
    late = GatewayPaymentEvent(attempt_id=second.id, outcome=succeeded)
    pending = msgspec.structs.replace(succeeded, status="PENDING")
    stale = GatewayPaymentEvent(attempt_id=second.id, outcome=pending)
    await world.deliver(late, early, stale, late, early, stale)
    assert (await world.look(order)).status == "PAID"
    await world.work()
    assert (await world.look(order)).status == "PAID"
    assert await world.balance_at_bank(order) == 999


async def test_a_duplicate_is_refunded_although_responses_are_lost(world: World) -> None:
    order = await world.open()
    card = await world.pay(order)
    async with world.db.transaction() as tx:
        await tx.execute("update payment_attempts set method = 'ALIPAY' where id = $1", card.id)
    other = await world.pay(order)
    assert other.id != card.id
    await world.type_card(card)
    await world.type_card(other)
    await world.inject_fault("refund", "timeout_after")
    await world.inject_fault("refund", "error_500_after")
    await world.work(6)
    assert (await world.look(order)).status == "PAID"
    assert await world.balance_at_bank(order) == 999
    async with world.db.connection() as tx:
        rows = await tx.fetch("select status from payment_attempts where order_id = $1", order.id)
    assert sorted(row[0] for row in rows) == ["GIVEN_BACK", "SUCCEEDED"]


async def test_a_row_that_raises_delays_no_other(world: World) -> None:
    """An attempt and a session that cannot be processed are due before the others."""
    bad, good = await world.open(), await world.open()
    stale_bad, stale_good = await world.open(), await world.open()
    for order in (bad, good):
        await world.type_card(await world.pay(order))
    async with world.db.transaction() as tx:
        # The database refuses whatever is done with this merchant's rows.
        await tx.execute(
            "create function fail() returns trigger language plpgsql as"
            " $$ begin raise exception 'no'; end $$"
        )
        await tx.execute(
            f"create trigger bad before update of status on orders for each row when (old.id in"
            f" ('{bad.id}', '{stale_bad.id}')) execute function fail()"
        )
        await tx.execute("update payment_attempts set check_at = 1 where order_id = $1", bad.id)
        await tx.execute("update checkouts set expires_at = 1 where order_id = $1", stale_bad.id)
        await tx.execute("update checkouts set expires_at = 2 where order_id = $1", stale_good.id)
    world.now += 60_000
    for _ in range(4):
        await order_jobs.check_attempts(world.db, world.gateways, PUBLIC, world.now, batch=1)
    for _ in range(2):
        assert await checkout_jobs.expire_due(world.db, world.now, batch=1) <= 1
    assert await checkout_jobs.expire_due(world.db, world.now, batch=1) == 0  # the job rests
    assert (await world.look(good)).status == "PAID"
    assert (await world.look(stale_good)).status == "CLOSED"
    assert (await world.look(bad)).status == "PENDING"
    async with world.db.transaction() as tx:
        claimed = await tx.fetchval(
            "select max(checks) from payment_attempts where order_id = $1", bad.id
        )
        await tx.execute("drop trigger bad on orders")
    assert claimed == 1  # its lease keeps it from spinning
    await world.work(2)
    assert (await world.look(bad)).status == "PAID"


async def test_a_backlog_is_processed_with_few_connections(
    database_url: str, cluster: Cluster
) -> None:
    """More rows are due than the pool has connections."""
    db = await Db.connect(database_url, 2, acquire_timeout_s=10)
    world = World(db, cluster)
    try:
        opened = [await world.open() for _ in range(30)]
        for order in opened:
            await world.type_card(await world.pay(order))
        await world.work(1)
        for order in opened:
            async with db.transaction() as tx:
                await create_refund(tx, await world.look(order), None, world.now)
        await world.work(1)
        assert {(await world.look(order)).status for order in opened} == {"REFUNDED"}
        async with db.snapshot() as tx:
            await assert_books(tx)
    finally:
        await world.close()
        await db.close()
    await db.close()
