"""Concurrent requests over HTTP to several server processes."""

import asyncio
import collections
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from opentill import merchants
from opentill.db.clock import now_ms
from opentill.db.database import Db
from support.books import assert_books
from support.cluster import (
    CARD,
    DECLINED,
    REFUNDS_FAIL,
    Cluster,
    PatientClient,
    create_shop,
    eventually,
)
from support.commands import ForkServer

# One deployment for all tests of this module, because the database fixtures are per test.


@pytest.fixture(scope="module")
def deployment(
    module_database_url: str, fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Cluster]]:
    """Run three servers, a worker and the bank; yield the database's URL and the cluster."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), module_database_url, 3, fork_server)
    try:
        yield module_database_url, cluster.start()
    finally:
        cluster.stop()


@pytest.fixture
async def db(deployment: tuple[str, Cluster]) -> AsyncIterator[Db]:
    """Connect to the deployment's database, and check the books after each test."""
    db = await Db.connect(deployment[0], 4, acquire_timeout_s=20)
    try:
        yield db
        async with db.snapshot() as tx:
            await assert_books(tx)
    finally:
        await db.close()


@pytest.fixture
def cluster(deployment: tuple[str, Cluster]) -> Cluster:
    return deployment[1]


async def rows(db: Db, sql: str, *values: object) -> list[tuple[object, ...]]:
    async with db.connection() as tx:
        return [tuple(row) for row in await tx.fetch(sql, *values)]


async def test_of_100_parallel_refunds_of_010_on_500_50_succeed(cluster: Cluster, db: Db) -> None:
    shop = await create_shop(db)
    async with PatientClient(cluster, shop.key) as client:
        order_id = await client.create_paid_order(shop.product_id)
        path = f"/v1/orders/{order_id}/refunds"
        answers = await asyncio.gather(
            *(client.call("POST", path, {"amount": "0.10"}) for _ in range(100))
        )
        counts = collections.Counter(answer.json()["code"] for answer in answers)
        assert counts == {0: 50, 40001: 50}
        assert {a.status_code for a in answers} == {201, 400}

        async def is_refunded() -> bool:
            return (await client.read_order(order_id))["status"] == "REFUNDED"

        assert await eventually(is_refunded)
        assert (await client.read_order(order_id))["refundedAmount"] == "5.00"
    counted = await rows(
        db, "select status, count(*), sum(amount_minor) from refunds where order_id = $1"
        " group by 1", order_id,
    )  # fmt: skip
    assert counted == [("SUCCEEDED", 50, 500)]


@pytest.mark.parametrize("what", ["product", "refund"])
async def test_one_idempotency_key_has_one_effect(cluster: Cluster, db: Db, what: str) -> None:
    shop = await create_shop(db)
    async with PatientClient(cluster, shop.key) as client:
        path, body = "/v1/products", {"name": "A pot", "price": "7.00", "currency": "USD"}
        if what == "refund":
            order_id = await client.create_paid_order(shop.product_id)
            path, body = f"/v1/orders/{order_id}/refunds", {"amount": "1.00"}
        answers = await asyncio.gather(
            *(client.call("POST", path, body, idempotency=f"key-{what}") for _ in range(50))
        )
        done = [answer for answer in answers if answer.status_code == 201]
        assert {answer.status_code for answer in answers} <= {201, 409}
        assert len({answer.content for answer in done}) == 1
        fresh = [answer for answer in done if "idempotent-replayed" not in answer.headers]
        assert len(fresh) == 1
        table = "products" if what == "product" else "refunds"
        count = await rows(
            db, f"select count(*) from {table} where merchant_id = $1 and id <> $2",
            shop.id, shop.product_id,
        )  # fmt: skip
        assert count == [(1,)]
        other = await client.call("POST", path, {**body, "x": 1}, idempotency=f"key-{what}")
        assert (other.status_code, other.json()["code"]) == (422, 42201)
        refused = [
            await client.call("POST", path, {"amount": "nothing"}, idempotency="refusal")
            for _ in range(2)
        ]
        assert [answer.status_code for answer in refused] == [400, 400]
        assert refused[0].content == refused[1].content
        assert refused[1].headers["idempotent-replayed"] == "true"


async def test_parallel_requests_with_one_refund_number_create_one_refund(
    cluster: Cluster, db: Db
) -> None:
    shop = await create_shop(db)
    async with PatientClient(cluster, shop.key) as client:
        orders = await asyncio.gather(
            *(client.create_paid_order(shop.product_id) for _ in range(4))
        )
        body = {"amount": "1.00", "refundNo": "r-1"}
        answers = await asyncio.gather(
            *(client.call("POST", f"/v1/orders/{orders[n % 4]}/refunds", body) for n in range(40))
        )
        ids = {a.json()["data"]["id"] for a in answers if a.status_code == 201}
        assert len(ids) == 1
        refused = [a.json() for a in answers if a.status_code != 201]
        assert {(r["code"], r["error"]["field"]) for r in refused} == {(40001, "refundNo")}


async def test_an_old_key_is_refused_once_the_new_one_is_committed(
    cluster: Cluster, db: Db
) -> None:
    shop = await create_shop(db)
    for _ in range(5):
        async with PatientClient(cluster, shop.key) as client:
            answered: list[tuple[float, int]] = []
            committed = float("inf")

            async def poll(client: PatientClient = client, answered=answered) -> None:
                for _ in range(15):
                    began = time.monotonic()
                    answer = await client.call("GET", "/v1/balance")
                    answered.append((began, answer.status_code))

            polling = [asyncio.create_task(poll()) for _ in range(6)]
            await asyncio.sleep(random.random() * 0.2)
            new = await db.run(
                lambda tx, key_id=shop.key_id: merchants.regenerate_key(tx, key_id, now_ms())
            )
            committed = time.monotonic()
            await asyncio.gather(*polling)
            answered.append(
                (time.monotonic(), (await client.call("GET", "/v1/balance")).status_code)
            )
            assert {status for began, status in answered if began > committed} == {401}
            assert {status for _, status in answered} <= {200, 401}
            client.key = new.key
            assert (await client.call("GET", "/v1/balance")).status_code == 200
            shop.key, shop.key_id = new.key, new.id


async def test_concurrent_callback_poll_and_return_make_one_payment(
    cluster: Cluster, db: Db
) -> None:
    shop = await create_shop(db)
    async with PatientClient(cluster, shop.key) as client:
        for _ in range(5):
            session_id, order_id = await client.open_session(shop.product_id)
            tabs = await asyncio.gather(*(client.start_payment(session_id) for _ in range(6)))
            begun = {tab for tab in tabs if tab}
            assert len(begun) == 1
            attempt_id = begun.pop()
            await client.inject_fault("callback", "duplicate", match=attempt_id)
            await asyncio.gather(
                client.type_card(attempt_id),
                *(client.return_from_bank(session_id, attempt_id) for _ in range(6)),
            )
            await asyncio.gather(
                *(client.return_from_bank(session_id, attempt_id) for _ in range(6))
            )

            async def is_paid(order_id: str = order_id) -> bool:
                return (await client.read_order(order_id))["status"] == "PAID"

            assert await eventually(is_paid)  # payments are polled every two seconds
            posted = await rows(db, "select type from entries where source_id = $1", order_id)
            assert sorted(posted) == [("FEE",), ("PAYMENT",)]


async def test_concurrent_payments_with_two_methods_pay_once(cluster: Cluster, db: Db) -> None:
    shop = await create_shop(db)
    async with PatientClient(cluster, shop.key) as client:
        session_id, order_id = await client.open_session(shop.product_id)
        card = await client.start_payment(session_id)
        wallet = await client.start_payment(session_id, "ALIPAY")
        assert card
        assert wallet
        assert card != wallet
        approve = client.http.post(
            f"{cluster.bank.url}/phone/{wallet}", data={"decision": "approve"}
        )
        await asyncio.gather(client.type_card(card), approve)

        async def is_settled() -> bool:
            statuses = await rows(
                db, "select status from payment_attempts where order_id = $1", order_id
            )
            return sorted(statuses) == [("GIVEN_BACK",), ("SUCCEEDED",)]

        assert await eventually(is_settled), await rows(
            db, "select id, status, check_at from payment_attempts where order_id = $1", order_id
        )
        held_minor = 0
        for attempt_id in (card, wallet):
            payment = (await client.call_bank("GET", f"/payments/{attempt_id}")).json()
            held_minor += payment["amount_minor"] - payment["refunded_minor"]
        assert held_minor == 500


async def test_the_books_are_right_after_a_random_load(cluster: Cluster, db: Db) -> None:
    shop = await create_shop(db, overdraft_minor=10**9)
    tally: collections.Counter[int] = collections.Counter()
    orders: list[tuple[str, str]] = []
    refunded: set[str] = set()  # cards of orders with a refund
    begun = time.monotonic()

    def has_to_continue() -> bool:
        """Run for at least 1 s, and on a busy machine until enough has happened."""
        passed = time.monotonic() - begun
        enough = tally[201] > 20 and tally[400] and {CARD, REFUNDS_FAIL} <= refunded
        return passed < 1 or (not enough and passed < 60)

    async def hammer(client: PatientClient) -> None:
        while has_to_continue():
            number = random.choice((CARD, CARD, REFUNDS_FAIL, DECLINED))
            session_id, order_id = await client.open_session(shop.product_id)
            attempt_id = await client.start_payment(session_id)
            if attempt_id is None:
                assert session_id in client.resubmitted
                continue
            await client.type_card(attempt_id, number)
            await client.return_from_bank(session_id, attempt_id)
            orders.append((order_id, number))
            for _ in range(4):
                refunded_order, card = random.choice(orders)
                amount = random.choice(("0.01", "0.99", "2.50", "5.00"))
                path = f"/v1/orders/{refunded_order}/refunds"
                status = (await client.call("POST", path, {"amount": amount})).status_code
                tally[status] += 1
                if status == 201:
                    refunded.add(card)

    async with PatientClient(cluster, shop.key) as client:
        await asyncio.gather(*(hammer(client) for _ in range(24)))

    async def has_no_open_refund() -> bool:
        return not await rows(db, "select id from refunds where status = 'PROCESSING'")

    assert await eventually(has_no_open_refund)
    assert set(tally) == {201, 400}, tally
    assert tally[201] > 20
    states = dict(await rows(db, "select status, count(*) from refunds group by 1"))
    assert states.keys() == {"SUCCEEDED", "FAILED"}


@pytest.fixture
def limited(
    make_database: Callable[[], str], fork_server: ForkServer, tmp_path: Path
) -> Iterator[tuple[str, Callable[..., Cluster]]]:
    """Return a function that starts servers with rate limits."""
    url, clusters = make_database(), []

    def start(**settings: str) -> Cluster:
        clusters.append(Cluster(tmp_path, url, 2, fork_server, **settings))
        return clusters[-1].start(with_bank=False)

    yield url, start
    for cluster in clusters:
        cluster.stop()


async def test_limits_are_exact_over_all_processes(limited) -> None:
    db = await Db.connect(limited[0], 2, acquire_timeout_s=20)
    try:
        await limits_are_exact(db, limited[1])
    finally:
        await db.close()


# Make every third time in a window a minute older; and the number of requests at those times.
GROW_OLD = """
    update rate_limit_windows set hits = (
        select array_agg(case when n % 3 = 0 then h - 60000 else h end order by n)
        from unnest(hits) with ordinality as u (h, n))
    where subject = '192.0.2.2'
"""
GROWN_OLD = """
    select coalesce(sum(count), 0)
    from rate_limit_windows, unnest(counts) with ordinality as u (count, n)
    where subject = '192.0.2.2' and n % 3 = 0
"""


async def limits_are_exact(db: Db, start: Callable[..., Cluster]) -> None:
    cluster = start(LIMIT_IP_PER_MINUTE="100", LIMIT_CHECKOUTS_PER_MINUTE="60",
                  TRUSTED_PROXIES="127.0.0.1")  # fmt: skip
    shop = await create_shop(db)
    async with PatientClient(cluster, shop.key) as client:
        client.http.headers["X-Forwarded-For"] = "192.0.2.1"
        answers = await client.assert_limited(
            (client.call("GET", "/v1/balance") for _ in range(150)), 100
        )
        assert {one.status_code for one in answers} == {200, 429}
        late = next(a for a in answers if a.status_code == 429)
        assert late.json()["code"] == 42901
        # A request takes its time before it waits for its turn, so that a later one may pass first.
        assert 1 <= int(late.headers["retry-after"]) <= 61
        client.http.headers["X-Forwarded-For"] = "192.0.2.2"
        wrong = PatientClient(cluster, "svc_live_nobody")
        wrong.http.headers["X-Forwarded-For"] = "192.0.2.2"
        failed = await wrong.assert_limited(
            (wrong.call("GET", "/v1/balance") for _ in range(110)), 100
        )
        assert {one.status_code for one in failed} == {401, 429}
        assert (await client.call("GET", "/v1/balance")).status_code == 429
        await wrong.close()
        # The window slides: exactly the requests that left it are available again.
        async with db.connection() as tx:
            await tx.execute(GROW_OLD)
            free = await tx.fetchval(GROWN_OLD)
        await client.assert_limited((client.call("GET", "/v1/balance") for _ in range(100)), free)
        opened, before = [], client.repeated
        for address in ("192.0.2.3", "192.0.2.4"):  # a merchant has 60 over all addresses
            client.http.headers["X-Forwarded-For"] = address
            ask = ("POST", "/v1/checkouts", {"productId": shop.product_id})
            opened += await asyncio.gather(*(client.call(*ask) for _ in range(40)))
        codes = collections.Counter(one.status_code for one in opened)
        assert codes.keys() == {201, 429}
        assert 60 - (client.repeated - before) <= codes[201] <= 60
