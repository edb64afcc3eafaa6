"""Responses of the sandbox bank are lost, and the worker resolves payments and refunds.

The tests pass the time to the jobs, and read from the bank what was captured.
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

# No server listens at this address: tests apply the bank's events themselves.
PUBLIC = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def cluster(
    module_database_url: str, fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A cluster in which only the sandbox bank runs."""
    cluster = Cluster(tmp_path_factory.mktemp("bank"), module_database_url, 1, fork_server)
    cluster.bank.start()
    try:
        wait_until_ready(cluster.bank)
        yield cluster
    finally:
        cluster.bank.stop()


class World:
    """OpenTill's services in this process with a clock of the test; the bank is a process."""

    def __init__(self, db: Db, cluster: Cluster) -> None:
        self.db, self.cluster, self.now = db, cluster, NOW
        self.client = httpx2.AsyncClient(timeout=60, trust_env=False)
        self.gateways = {"sandbox": SandboxGateway(cluster.bank.url, SECRET, timeout_s=10.0)}
        # Requests whose responses are lost use these gateways, because their timeout is short.
        self.impatient_gateways = {
            "sandbox": SandboxGateway(cluster.bank.url, SECRET, timeout_s=0.4)
        }
        self.has_faults = False
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
        for gateway in (*self.gateways.values(), *self.impatient_gateways.values()):
            await gateway.close()

    async def bank(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {SECRET}"}
        url = self.cluster.bank.url + path
        response = await self.client.request(method, url, json=body, headers=headers)
        return response.json() if response.content else None

    async def inject_fault(self, operation: str, kind: str, times: int = 1) -> None:
        fault = {"operation": operation, "kind": kind, "times": times}
        await self.bank("POST", "/faults", {**fault, "delay_s": 2.0})
        self.has_faults = True

    async def gateways_in_use(self) -> dict[str, SandboxGateway]:
        """Return the gateways to call: with short timeouts while the bank has pending faults."""
        self.has_faults = self.has_faults and await self.bank("GET", "/faults") != []
        return self.impatient_gateways if self.has_faults else self.gateways

    async def create_order(self) -> Order:
        async with self.db.transaction() as tx:
            shop = await create_merchant(tx, overdraft_minor=10**6)
            mug = await create_product(tx, shop.id)
            checkout = await create_session(tx, shop.id, mug.id, self.now)
            return await orders.find(tx, shop.id, checkout.order_id)

    async def pay(self, order: Order, method: str = "CREDIT_CARD") -> PaymentAttempt:
        payer = checkouts.PayerInput(
            email="ann@example.com", name="Ann", method=method, ip="192.0.2.7", locale="en"
        )
        attempt = await checkouts.pay(
            self.db, await self.gateways_in_use(), order.checkout_id, payer, PUBLIC, self.now
        )
        assert attempt is not None
        return attempt

    async def type_card(self, attempt: PaymentAttempt, number: str = CARD) -> None:
        form = {"number": number, "exp": "12/34", "csc": "123"}
        await self.client.post(f"{self.cluster.bank.url}/pay/{attempt.id}", data=form)

    async def find_order(self, order: Order) -> Order:
        async with self.db.connection() as tx:
            return await orders.find(tx, order.merchant_id, order.id)

    async def run_jobs(self, hours: float = 3) -> None:
        """Run the worker's jobs while the test's clock advances by these hours."""
        end = self.now + hours * 3_600_000
        while self.now < end:
            self.now += 20_000 if self.now < NOW + 300_000 else 1_200_000
            await order_jobs.check_attempts(self.db, await self.gateways_in_use(), PUBLIC, self.now)
            await refund_jobs.send_due(self.db, await self.gateways_in_use(), PUBLIC, self.now)
            await checkout_jobs.expire_due(self.db, self.now)

    async def apply_events(self, *gateway_events: GatewayEvent) -> None:
        for gateway_event in gateway_events:
            await callbacks.apply_event(self.app, "sandbox", gateway_event, self.now)

    async def refund_statuses(self, order: Order) -> list[str]:
        async with self.db.connection() as tx:
            rows = await tx.fetch(
                "select status from refunds where order_id = $1 order by id", order.id
            )
        return [row[0] for row in rows]

    async def net_at_bank(self, order: Order) -> int:
        """Return the amount that the bank has captured for an order less its refunds."""
        net_minor = 0
        async with self.db.connection() as tx:
            rows = await tx.fetch("select id from payment_attempts where order_id = $1", order.id)
        for (attempt_id,) in rows:
            payment = await self.bank("GET", f"/payments/{attempt_id}")
            if payment.get("status") == "succeeded":
                net_minor += payment["amount_minor"] - payment["refunded_minor"]
        return net_minor


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


FAULTS = (
    "timeout_before", "timeout_after", "error_500", "error_500_after", "reset", "reset_after",
    "slow",
)  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_payment_whose_response_is_lost_is_resolved(world: World, fault: str) -> None:
    order = await world.create_order()
    await world.inject_fault("pay", fault)
    await world.inject_fault("find", fault, 2)
    attempt = await world.pay(order)
    assert (attempt.status, (await world.find_order(order)).status) == ("SUBMITTED", "CREATING")
    repeated = await world.pay(order)
    # No second attempt is made while the outcome of the first is unknown.
    assert repeated.id == attempt.id
    # This pays only if the bank has received the payment.
    await world.type_card(attempt)
    await world.run_jobs()
    if fault in {"timeout_before", "error_500", "reset"}:
        assert (await world.find_order(order)).status == "PENDING"
        new_attempt = await world.pay(order)
        assert new_attempt.id != attempt.id
        await world.type_card(new_attempt)
        await world.run_jobs()
    assert (await world.find_order(order)).status == "PAID"
    assert await world.net_at_bank(order) == 999


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_refund_whose_response_is_lost_is_made_once(world: World, fault: str) -> None:
    order = await world.create_order()
    await world.type_card(await world.pay(order))
    await world.run_jobs(1)
    await world.inject_fault("refund", fault, 3)
    async with world.db.transaction() as tx:
        await create_refund(tx, await world.find_order(order), "4.00", world.now)
    await world.run_jobs(30)
    assert await world.refund_statuses(order) == ["SUCCEEDED"]
    assert await world.net_at_bank(order) == 599


async def test_a_refund_that_fails_later_returns_the_held_money(world: World) -> None:
    order = await world.create_order()
    await world.type_card(await world.pay(order), REFUNDS_FAIL)
    await world.run_jobs(1)
    async with world.db.transaction() as tx:
        await create_refund(tx, await world.find_order(order), None, world.now)

    async def has_failed() -> bool:
        await world.run_jobs(1)
        return await world.refund_statuses(order) == ["FAILED"]

    assert await eventually(has_failed)
    assert await world.net_at_bank(order) == 999


async def test_attempts_stay_open_while_the_bank_is_unreachable(world: World) -> None:
    """A failed query does not end an attempt, whose capture would be lost."""
    unanswered_order, open_order = await world.create_order(), await world.create_order()
    await world.inject_fault("pay", "timeout_after")
    unanswered_attempt = await world.pay(unanswered_order)
    open_attempt = await world.pay(open_order)
    assert (unanswered_attempt.status, open_attempt.status) == ("SUBMITTED", "ACTION_REQUIRED")
    world.cluster.bank.kill()
    try:
        await world.run_jobs(2)
        assert (await world.find_order(unanswered_order)).status == "CREATING"
        page = await checkouts.find_page_view(world.db, open_order.checkout_id)
        assert page is not None
        assert page.last_attempt is not None
        assert page.last_attempt.status == "ACTION_REQUIRED"
        new_order = await world.create_order()
        assert (await world.pay(new_order)).status == "DECLINED"  # the bank refuses the connection
    finally:
        world.cluster.bank.start()
        wait_until_ready(world.cluster.bank)
    for attempt in (unanswered_attempt, open_attempt):
        await world.type_card(attempt)
    await world.run_jobs(4)
    for order in (unanswered_order, open_order):
        assert (await world.find_order(order)).status == "PAID"
        assert await world.net_at_bank(order) == 999


async def test_payments_and_refunds_stay_open_while_the_secret_is_wrong(world: World) -> None:
    order = await world.create_order()
    await world.type_card(await world.pay(order))
    await world.run_jobs(1)
    gateways_with_wrong_secret = {
        "sandbox": SandboxGateway(world.cluster.bank.url, "wrong", timeout_s=1.0)
    }
    gateways, world.gateways = world.gateways, gateways_with_wrong_secret
    async with world.db.transaction() as tx:
        await create_refund(tx, await world.find_order(order), "4.00", world.now)
    unpaid_order = await world.create_order()
    await world.pay(unpaid_order)
    await world.run_jobs(1)
    await gateways_with_wrong_secret["sandbox"].close()
    assert await world.refund_statuses(order) == ["PROCESSING"]
    assert (await world.find_order(unpaid_order)).status == "CREATING"
    world.gateways = gateways
    await world.run_jobs(4)
    assert await world.refund_statuses(order) == ["SUCCEEDED"]
    assert (await world.find_order(unpaid_order)).status == "PENDING"


async def test_polling_resolves_payments_without_callbacks(world: World) -> None:
    new_orders = [await world.create_order() for _ in range(3)]
    cards = (CARD, DECLINED, "4000000000009987")
    for order, number in zip(new_orders, cards, strict=True):
        await world.type_card(await world.pay(order), number)
    await world.run_jobs()
    assert [(await world.find_order(order)).status for order in new_orders] == [
        "PAID",
        "PENDING",
        "FAILED",
    ]


async def test_repeated_and_reordered_callbacks_have_the_same_result(world: World) -> None:
    order = await world.create_order()
    attempt = await world.pay(order)
    await world.type_card(attempt, DECLINED)
    declined = await world.gateways["sandbox"].find_payment(attempt.id)
    declined_event = GatewayPaymentEvent(attempt_id=attempt.id, outcome=declined)
    await world.apply_events(declined_event)
    second_attempt = await world.pay(order)
    await world.type_card(second_attempt)
    succeeded = await world.gateways["sandbox"].find_payment(second_attempt.id)
    succeeded_event = GatewayPaymentEvent(attempt_id=second_attempt.id, outcome=succeeded)
    pending = msgspec.structs.replace(succeeded, status="PENDING")
    pending_event = GatewayPaymentEvent(attempt_id=second_attempt.id, outcome=pending)
    for _ in range(2):
        await world.apply_events(succeeded_event, declined_event, pending_event)
    assert (await world.find_order(order)).status == "PAID"
    await world.run_jobs()
    assert (await world.find_order(order)).status == "PAID"
    assert await world.net_at_bank(order) == 999


async def test_a_duplicate_payment_is_returned_although_responses_are_lost(world: World) -> None:
    order = await world.create_order()
    card_attempt = await world.pay(order)
    async with world.db.transaction() as tx:
        await tx.execute(
            "update payment_attempts set method = 'ALIPAY' where id = $1", card_attempt.id
        )
    other_attempt = await world.pay(order)
    assert other_attempt.id != card_attempt.id
    await world.type_card(card_attempt)
    await world.type_card(other_attempt)
    await world.inject_fault("refund", "timeout_after")
    await world.inject_fault("refund", "error_500_after")
    await world.run_jobs(6)
    assert (await world.find_order(order)).status == "PAID"
    assert await world.net_at_bank(order) == 999
    async with world.db.connection() as tx:
        rows = await tx.fetch("select status from payment_attempts where order_id = $1", order.id)
    assert sorted(row[0] for row in rows) == ["GIVEN_BACK", "SUCCEEDED"]


async def test_a_row_that_cannot_be_processed_does_not_delay_others(world: World) -> None:
    """An attempt and a session that cannot be processed are due before the others."""
    failing_order, good_order = await world.create_order(), await world.create_order()
    failing_expired_order, good_expired_order = (
        await world.create_order(),
        await world.create_order(),
    )
    for order in (failing_order, good_order):
        await world.type_card(await world.pay(order))
    async with world.db.transaction() as tx:
        # The database refuses to change the status of the two failing orders.
        await tx.execute(
            "create function fail() returns trigger language plpgsql as"
            " $$ begin raise exception 'no'; end $$"
        )
        await tx.execute(
            f"create trigger bad before update of status on orders for each row when (old.id in"
            f" ('{failing_order.id}', '{failing_expired_order.id}')) execute function fail()"
        )
        await tx.execute(
            "update payment_attempts set check_at = 1 where order_id = $1", failing_order.id
        )
        await tx.execute(
            "update checkouts set expires_at = 1 where order_id = $1", failing_expired_order.id
        )
        await tx.execute(
            "update checkouts set expires_at = 2 where order_id = $1", good_expired_order.id
        )
    world.now += 60_000
    for _ in range(4):
        await order_jobs.check_attempts(world.db, world.gateways, PUBLIC, world.now, batch=1)
    for _ in range(2):
        assert await checkout_jobs.expire_due(world.db, world.now, batch=1) <= 1
    # Only the session that cannot be processed is still due.
    assert await checkout_jobs.expire_due(world.db, world.now, batch=1) == 0
    assert (await world.find_order(good_order)).status == "PAID"
    assert (await world.find_order(good_expired_order)).status == "CLOSED"
    assert (await world.find_order(failing_order)).status == "PENDING"
    async with world.db.transaction() as tx:
        checks = await tx.fetchval(
            "select max(checks) from payment_attempts where order_id = $1", failing_order.id
        )
        await tx.execute("drop trigger bad on orders")
    assert checks == 1  # the lease prevents repeated checks
    await world.run_jobs(2)
    assert (await world.find_order(failing_order)).status == "PAID"


async def test_a_backlog_is_processed_with_few_connections(
    database_url: str, cluster: Cluster
) -> None:
    """More rows are due than the pool has connections."""
    db = await Db.connect(database_url, 2, acquire_timeout_s=10)
    world = World(db, cluster)
    try:
        due_orders = [await world.create_order() for _ in range(30)]
        for order in due_orders:
            await world.type_card(await world.pay(order))
        await world.run_jobs(1)
        for order in due_orders:
            async with db.transaction() as tx:
                await create_refund(tx, await world.find_order(order), None, world.now)
        await world.run_jobs(1)
        assert {(await world.find_order(order)).status for order in due_orders} == {"REFUNDED"}
        async with db.snapshot() as tx:
            await assert_books(tx)
    finally:
        await world.close()
        await db.close()
    await db.close()
