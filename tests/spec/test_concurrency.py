"""Concurrent requests to several server processes never break an invariant."""

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


@pytest.fixture(scope="module")
def deployment(
    module_database_url: str, fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Cluster]]:
    """Run three servers, a worker and the bank; yield the database's URL and the cluster.

    All tests of this module share them.
    """
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


async def read_rows(db: Db, sql: str, *values: object) -> list[tuple[object, ...]]:
    async with db.connection() as tx:
        return [tuple(row) for row in await tx.fetch(sql, *values)]


async def test_concurrent_refunds_never_exceed_the_amount_of_the_order(
    cluster: Cluster, db: Db
) -> None:
    shop = await create_shop(db)
    async with PatientClient(cluster, shop.key) as client:
        order_id = await client.create_paid_order(shop.product_id)
        path = f"/v1/orders/{order_id}/refunds"
        responses = await asyncio.gather(
            *(client.call("POST", path, {"amount": "0.10"}) for _ in range(100))
        )
        counts = collections.Counter(response.json()["code"] for response in responses)
        assert counts == {0: 50, 40001: 50}
        assert {response.status_code for response in responses} == {201, 400}

        async def is_refunded() -> bool:
            return (await client.read_order(order_id))["status"] == "REFUNDED"

        assert await eventually(is_refunded)
        assert (await client.read_order(order_id))["refundedAmount"] == "5.00"
    refund_totals = await read_rows(
        db, "select status, count(*), sum(amount_minor) from refunds where order_id = $1"
        " group by 1", order_id,
    )  # fmt: skip
    assert refund_totals == [("SUCCEEDED", 50, 500)]


@pytest.mark.parametrize("resource", ["product", "refund"])
async def test_concurrent_requests_with_one_idempotency_key_have_one_effect(
    cluster: Cluster, db: Db, resource: str
) -> None:
    shop = await create_shop(db)
    async with PatientClient(cluster, shop.key) as client:
        path, body = "/v1/products", {"name": "A pot", "price": "7.00", "currency": "USD"}
        if resource == "refund":
            order_id = await client.create_paid_order(shop.product_id)
            path, body = f"/v1/orders/{order_id}/refunds", {"amount": "1.00"}
        responses = await asyncio.gather(
            *(client.call("POST", path, body, idempotency=f"key-{resource}") for _ in range(50))
        )
        successes = [response for response in responses if response.status_code == 201]
        assert {response.status_code for response in responses} <= {201, 409}
        assert len({response.content for response in successes}) == 1
        not_replayed = [
            response for response in successes if "idempotent-replayed" not in response.headers
        ]
        assert len(not_replayed) == 1
        table = "products" if resource == "product" else "refunds"
        count = await read_rows(
            db, f"select count(*) from {table} where merchant_id = $1 and id <> $2",
            shop.id, shop.product_id,
        )  # fmt: skip
        assert count == [(1,)]
        changed_request = await client.call(
            "POST", path, {**body, "x": 1}, idempotency=f"key-{resource}"
        )
        assert (changed_request.status_code, changed_request.json()["code"]) == (422, 42201)
        refused = [
            await client.call("POST", path, {"amount": "nothing"}, idempotency="refusal")
            for _ in range(2)
        ]
        assert [response.status_code for response in refused] == [400, 400]
        assert refused[0].content == refused[1].content
        assert refused[1].headers["idempotent-replayed"] == "true"


async def test_concurrent_requests_with_one_refund_number_create_one_refund(
    cluster: Cluster, db: Db
) -> None:
    shop = await create_shop(db)
    async with PatientClient(cluster, shop.key) as client:
        orders = await asyncio.gather(
            *(client.create_paid_order(shop.product_id) for _ in range(4))
        )
        body = {"amount": "1.00", "refundNo": "r-1"}
        responses = await asyncio.gather(
            *(client.call("POST", f"/v1/orders/{orders[n % 4]}/refunds", body) for n in range(40))
        )
        created = [response for response in responses if response.status_code == 201]
        assert len({response.json()["data"]["id"] for response in created}) == 1
        refused = [response.json() for response in responses if response.status_code != 201]
        assert {(body["code"], body["error"]["field"]) for body in refused} == {(40001, "refundNo")}


async def test_a_replaced_key_is_refused_once_the_new_one_is_committed(
    cluster: Cluster, db: Db
) -> None:
    shop = await create_shop(db)
    for _ in range(5):
        async with PatientClient(cluster, shop.key) as client:
            # Each pair: time of the request, status of the response.
            statuses: list[tuple[float, int]] = []

            async def send(client: PatientClient = client, statuses=statuses) -> None:
                started = time.monotonic()
                response = await client.call("GET", "/v1/balance")
                statuses.append((started, response.status_code))

            async def send_many(send=send) -> None:
                for _ in range(15):
                    await send()

            senders = [asyncio.create_task(send_many()) for _ in range(6)]
            await asyncio.sleep(random.random() * 0.2)
            new_key = await db.run(
                lambda tx, key_id=shop.key_id: merchants.regenerate_key(tx, key_id, now_ms())
            )
            committed = time.monotonic()
            await asyncio.gather(*senders)
            await send()
            assert {status for started, status in statuses if started > committed} == {401}
            assert {status for _, status in statuses} <= {200, 401}
            client.key = new_key.key
            assert (await client.call("GET", "/v1/balance")).status_code == 200
            shop.key, shop.key_id = new_key.key, new_key.id


async def test_concurrent_callbacks_queries_and_returns_pay_an_order_once(
    cluster: Cluster, db: Db
) -> None:
    shop = await create_shop(db)
    async with PatientClient(cluster, shop.key) as client:
        for _ in range(5):
            session_id, order_id = await client.open_session(shop.product_id)
            results = await asyncio.gather(*(client.start_payment(session_id) for _ in range(6)))
            attempt_ids = {attempt_id for attempt_id in results if attempt_id}
            assert len(attempt_ids) == 1
            attempt_id = attempt_ids.pop()
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

            assert await eventually(is_paid)
            posted = await read_rows(db, "select type from entries where source_id = $1", order_id)
            assert sorted(posted) == [("FEE",), ("PAYMENT",)]


async def test_the_second_of_two_concurrent_payments_is_returned(cluster: Cluster, db: Db) -> None:
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

        async def is_one_returned() -> bool:
            statuses = await read_rows(
                db, "select status from payment_attempts where order_id = $1", order_id
            )
            return sorted(statuses) == [("GIVEN_BACK",), ("SUCCEEDED",)]

        assert await eventually(is_one_returned), await read_rows(
            db, "select id, status, check_at from payment_attempts where order_id = $1", order_id
        )
        kept_minor = 0
        for attempt_id in (card, wallet):
            payment = (await client.call_bank("GET", f"/payments/{attempt_id}")).json()
            kept_minor += payment["amount_minor"] - payment["refunded_minor"]
        assert kept_minor == 500


async def test_the_books_are_right_after_a_random_load(cluster: Cluster, db: Db) -> None:
    shop = await create_shop(db, overdraft_minor=10**9)
    # The number of requests for refunds by status of the response.
    counts: collections.Counter[int] = collections.Counter()
    orders: list[tuple[str, str]] = []  # each pair: order id, number of its card
    refunded_cards: set[str] = set()
    started = time.monotonic()

    def must_continue() -> bool:
        """Whether to go on: for 1 s, and up to 60 s until each kind of refund was requested."""
        passed = time.monotonic() - started
        is_enough = counts[201] > 20 and counts[400] and {CARD, REFUNDS_FAIL} <= refunded_cards
        return passed < 1 or (not is_enough and passed < 60)

    async def pay_and_refund(client: PatientClient) -> None:
        while must_continue():
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
                counts[status] += 1
                if status == 201:
                    refunded_cards.add(card)

    async with PatientClient(cluster, shop.key) as client:
        await asyncio.gather(*(pay_and_refund(client) for _ in range(24)))

    async def has_no_open_refund() -> bool:
        return not await read_rows(db, "select id from refunds where status = 'PROCESSING'")

    assert await eventually(has_no_open_refund)
    assert set(counts) == {201, 400}, counts
    assert counts[201] > 20
    states = dict(await read_rows(db, "select status, count(*) from refunds group by 1"))
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


async def test_rate_limits_are_exact_over_all_processes(limited) -> None:
    db = await Db.connect(limited[0], 2, acquire_timeout_s=20)
    try:
        await check_limits(db, limited[1])
    finally:
        await db.close()


# Makes every third time of a window a minute older, so that it leaves the window.
AGE_REQUESTS = """
    update rate_limit_windows set hits = (
        select array_agg(case when n % 3 = 0 then h - 60000 else h end order by n)
        from unnest(hits) with ordinality as u (h, n))
    where subject = '192.0.2.2'
"""
COUNT_AGED_REQUESTS = """
    select coalesce(sum(count), 0)
    from rate_limit_windows, unnest(counts) with ordinality as u (count, n)
    where subject = '192.0.2.2' and n % 3 = 0
"""


async def check_limits(db: Db, start: Callable[..., Cluster]) -> None:
    cluster = start(LIMIT_IP_PER_MINUTE="100", LIMIT_CHECKOUTS_PER_MINUTE="60",
                  TRUSTED_PROXIES="127.0.0.1")  # fmt: skip
    shop = await create_shop(db)
    async with PatientClient(cluster, shop.key) as client:
        client.http.headers["X-Forwarded-For"] = "192.0.2.1"
        responses = await client.assert_limited(
            (client.call("GET", "/v1/balance") for _ in range(150)), 100
        )
        assert {response.status_code for response in responses} == {200, 429}
        limited = next(response for response in responses if response.status_code == 429)
        assert limited.json()["code"] == 42901
        # The header may be 61 s, because a request may be counted a moment after it has read the
        # clock.
        assert 1 <= int(limited.headers["retry-after"]) <= 61
        client.http.headers["X-Forwarded-For"] = "192.0.2.2"
        stranger = PatientClient(cluster, "svc_live_nobody")
        stranger.http.headers["X-Forwarded-For"] = "192.0.2.2"
        calls = (stranger.call("GET", "/v1/balance") for _ in range(110))
        responses = await stranger.assert_limited(calls, 100)
        assert {response.status_code for response in responses} == {401, 429}
        assert (await client.call("GET", "/v1/balance")).status_code == 429
        await stranger.close()
        # As many requests are possible again as have left the sliding window.
        async with db.connection() as tx:
            await tx.execute(AGE_REQUESTS)
            available_count = await tx.fetchval(COUNT_AGED_REQUESTS)
        await client.assert_limited(
            (client.call("GET", "/v1/balance") for _ in range(100)), available_count
        )
        responses, repeated_before = [], client.repeated
        # The limit of a merchant covers all its addresses.
        for address in ("192.0.2.3", "192.0.2.4"):
            client.http.headers["X-Forwarded-For"] = address
            request = ("POST", "/v1/checkouts", {"productId": shop.product_id})
            responses += await asyncio.gather(*(client.call(*request) for _ in range(40)))
        counts = collections.Counter(response.status_code for response in responses)
        assert counts.keys() == {201, 429}
        assert 60 - (client.repeated - repeated_before) <= counts[201] <= 60
