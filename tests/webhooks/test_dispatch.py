"""The dispatcher delivers events despite failing receivers, crashes and lost keys."""

import random
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from opentill import webhooks
from opentill.webhooks import dispatch_queries as queries
from opentill.webhooks import schedule, sending, signing
from opentill.webhooks.hosts import LEASES_PER_HOST, HostLease, HostLimit
from opentill.webhooks.leases import EndpointLease
from opentill.webhooks.model import KEPT_ATTEMPTS, DeliveryAttempt, LeaseRow
from opentill.webhooks.results import Results, result_of
from support.commands import ForkServer
from support.dispatcher_crashes import (
    assert_all_arrived,
    deliver_with_killed_dispatchers,
    failing_behavior,
)
from support.webhook_harness import SECRET_KEY, WebhookHarness, wait_until
from support.webhook_receiver import ReceivedRequest, receiving

MINUTE = 60_000


async def test_an_event_arrives_signed_with_its_stored_body(harness: WebhookHarness) -> None:
    async with receiving() as receiver, harness.dispatching():
        merchant_id = await harness.create_merchant()
        _, secret = await harness.create_endpoint(merchant_id, f"{receiver.url}/hooks?a=b")
        await harness.emit(merchant_id)
        await wait_until(lambda: receiver.accepted)
        request = receiver.accepted[0]
        (row,) = await harness.rows("select id, body from events")
        assert (request.event_id, request.body.decode()) == (row["id"], row["body"])
        assert request.path == "/hooks?a=b"
        assert request.headers["content-type"] == "application/json"
        event = Webhook(secret).verify(request.body, request.headers)
        assert event["data"] == {"number": 0, "text": "é茶"}
        ms = int(request.headers["x-svc-timestamp"])
        assert abs(ms / 1000 - request.at) < 60
        expected = signing.own_signature(secret, ms, request.body)
        assert request.headers["x-svc-signature"] == expected


async def test_an_event_goes_to_the_endpoints_that_subscribe_to_its_type(
    harness: WebhookHarness,
) -> None:
    async with receiving() as receiver, harness.dispatching():
        merchant_id, other_merchant = (
            await harness.create_merchant(),
            await harness.create_merchant(),
        )
        for owner, path, types in (
            (merchant_id, "/all", []),
            (merchant_id, "/paid", ["order.paid"]),
            (merchant_id, "/payouts", ["payout.paid", "payout.failed"]),
            (other_merchant, "/other", []),
        ):
            await harness.create_endpoint(owner, receiver.url + path, types=types)
        await harness.emit(merchant_id)
        await harness.emit(merchant_id, kind="payout.failed")
        await wait_until(lambda: len(receiver.accepted) == 4)
        assert sorted(request.path for request in receiver.accepted) == [
            "/all",
            "/all",
            "/paid",
            "/payouts",
        ]


FAILURES: Any = (
    # Each row: behavior of the receiver, outcome of the stored attempt, HTTP status (None: no
    # response).
    (500, "refused", 500),
    (302, "refused", 302),
    (404, "refused", 404),
    (199 + 101, "refused", 300),
    ("reset", "no_answer", None),
    ("hang", "no_answer", None),
)


@pytest.mark.parametrize(("behavior", "outcome", "status"), FAILURES)
async def test_an_attempt_without_a_2xx_response_is_retried_on_schedule(
    harness: WebhookHarness, behavior: Any, outcome: str, status: int | None
) -> None:
    # The timeout is short only for a hanging receiver, because a busy machine may need longer to
    # connect.
    options = {"timeout_s": 2.0} if behavior == "hang" else {}
    async with receiving(lambda _: behavior) as receiver, harness.dispatching(**options):
        merchant_id = await harness.create_merchant()
        await harness.create_endpoint(merchant_id, receiver.url)
        await harness.emit(merchant_id)
        before = harness.now()
        await wait_until(lambda: harness.rows("select 1 from delivery_attempts"))
        (attempt,) = await harness.rows("select * from delivery_attempts")
        assert (attempt["outcome"], attempt["http_status"]) == (outcome, status)
        assert "webhook-signature: v1," in attempt["request"]
        assert receiver.url in attempt["request"]
        assert attempt["answer"].startswith(f"HTTP {status}\n" if status else "")
        assert bool(attempt["error"]) is (status is None)
        (delivery,) = await harness.rows("select * from webhook_deliveries")
        assert (delivery["status"], delivery["attempts"], delivery["step"]) == ("PENDING", 1, 1)
        assert 0.9 * MINUTE <= delivery["try_at"] - attempt["at"] <= 1.1 * MINUTE + 60_000
        assert attempt["at"] >= before
        # The dispatcher has followed no redirect.
        assert {request.path for request in receiver.received} == {"/"}
        receiver.behave = lambda _: 200
        harness.ahead_ms += 2 * MINUTE
        await wait_until(lambda: receiver.accepted)
        assert receiver.accepted[0].body == receiver.received[0].body
        await wait_until(
            lambda: harness.rows("select 1 from webhook_deliveries where status='SUCCEEDED'")
        )


async def test_a_delivery_fails_after_ten_attempts_and_can_be_resent(
    harness: WebhookHarness,
) -> None:
    async with receiving(lambda _: 503) as receiver, harness.dispatching():
        merchant_id = await harness.create_merchant()
        endpoint, _ = await harness.create_endpoint(merchant_id, receiver.url)
        await harness.emit(merchant_id)
        for attempt in range(1, 11):
            await wait_until(
                lambda n=attempt: harness.rows(
                    "select 1 from delivery_attempts where number = $1", n
                )
            )
            (row,) = await harness.rows("select status, try_at from webhook_deliveries")
            if attempt < 10:
                harness.ahead_ms += row["try_at"] - harness.now() + 1
        assert await harness.count_statuses() == {"FAILED": 1}
        assert len(receiver.received) == 10
        now = harness.now()
        (event,) = await harness.rows("select id from events")
        receiver.behave = lambda _: 200
        await harness.db.run(
            lambda tx: webhooks.resend(tx, merchant_id, endpoint.id, event["id"], now)
        )
        await wait_until(lambda: receiver.accepted)
        await wait_until(lambda: harness.rows("select 1 from delivery_attempts where number = 11"))


@pytest.mark.parametrize("step", [1, len(schedule.WAITS_MS)])
async def test_a_resend_during_a_failing_attempt_stays_due(
    harness: WebhookHarness, step: int
) -> None:
    merchant_id = await harness.create_merchant()
    endpoint, _ = await harness.create_endpoint(merchant_id, "http://127.0.0.9:9009/")
    await harness.emit(merchant_id)
    await harness.db.run(
        lambda tx: tx.execute("update webhook_deliveries set step = $1, attempts = $1", step)
    )
    now = harness.now()
    async with harness.db.connection() as tx:
        (due,) = await queries.DUE.all(
            tx, merchant_id=[merchant_id], endpoint_id=[endpoint.id], host=["127.0.0.9"],
            room=[1], now=now, sending=[],
        )  # fmt: skip
    attempt = await sending.attempt(harness.outgoing, SECRET_KEY, due, now, 5)
    assert attempt.outcome == "unreachable"
    await harness.db.run(
        lambda tx: webhooks.resend(tx, merchant_id, endpoint.id, due.event_id, now)
    )
    results = Results(harness.db, harness.now)
    results.add(result_of(due, attempt, now))
    await results.write({})
    assert await harness.rows("select status, step, try_at, attempts from webhook_deliveries") == [
        {"status": "PENDING", "step": 0, "try_at": now, "attempts": step + 1}
    ]


async def test_the_newest_attempts_of_each_delivery_are_kept(harness: WebhookHarness) -> None:
    merchant_id = await harness.create_merchant()
    endpoint, _ = await harness.create_endpoint(merchant_id, "http://127.0.0.9:9009/")
    await harness.emit(merchant_id, 3)
    events = [row["id"] for row in await harness.rows("select id from events order by id")]
    counts = dict(zip(events, (KEPT_ATTEMPTS + 5, KEPT_ATTEMPTS, 2), strict=True))
    for event, count in counts.items():
        await harness.rows(
            "insert into delivery_attempts select $1, $2, $3, n, 1, 1, 'refused', 500, '', '', ''"
            " from generate_series(1, $4) as n",
            merchant_id, endpoint.id, event, count,
        )  # fmt: skip
        await harness.rows(
            "update webhook_deliveries set attempts = $2 where event_id = $1", event, count
        )
    async with harness.db.connection() as tx:
        due_deliveries = await queries.DUE.all(
            tx, merchant_id=[merchant_id], endpoint_id=[endpoint.id], host=["127.0.0.9"],
            room=[3], now=harness.now(), sending=[],
        )  # fmt: skip
    results, now = Results(harness.db, harness.now), harness.now()
    for due in due_deliveries:
        attempt = await sending.attempt(harness.outgoing, SECRET_KEY, due, now, 5)
        results.add(result_of(due, attempt, now))
    await results.write({})
    rows = await harness.rows(
        "select event_id, min(number) as first, max(number) as last from delivery_attempts"
        " group by 1 order by 1"
    )
    assert [(row["event_id"], row["first"], row["last"]) for row in rows] == [
        (event, max(1, count + 2 - KEPT_ATTEMPTS), count + 1) for event, count in counts.items()
    ]


async def test_an_address_that_the_deployment_has_forbidden_since_is_never_connected_to(
    harness: WebhookHarness, database_url: str
) -> None:
    from opentill.outgoing.client import Outgoing, Policy

    async with receiving() as receiver:
        merchant_id = await harness.create_merchant()
        await harness.create_endpoint(merchant_id, receiver.url)
        await harness.emit(merchant_id)
        await harness.outgoing.close()
        harness.outgoing = Outgoing(Policy())
        async with harness.dispatching():
            await wait_until(lambda: harness.rows("select from delivery_attempts"))
        (attempt,) = await harness.rows("select outcome, error from delivery_attempts")
        assert attempt["outcome"] == "forbidden"
        assert attempt["error"]
        assert receiver.received == []


async def test_hanging_endpoints_do_not_delay_others(harness: WebhookHarness) -> None:
    """Two of twelve endpoints hang for longer than the test takes."""
    async with receiving() as healthy_receiver, receiving(lambda _: "hang") as hanging_receiver:
        merchant_ids = [await harness.create_merchant() for _ in range(12)]
        for number, merchant_id in enumerate(merchant_ids):
            await harness.create_endpoint(
                merchant_id, hanging_receiver.url if number in (0, 5) else healthy_receiver.url
            )
        async with harness.dispatching(timeout_s=120.0, drain_s=0.1):
            for merchant_id in merchant_ids:
                await harness.emit(merchant_id, 20)
            await wait_until(lambda: len(healthy_receiver.accepted_event_ids()) == 200)
            assert 2 <= hanging_receiver.max_open_requests <= 2 * 32
            assert not hanging_receiver.accepted


async def test_healthy_endpoints_are_leased_before_failing_ones(harness: WebhookHarness) -> None:
    owner = await harness.create_merchant()
    created = [await harness.create_endpoint(owner, f"http://127.0.0.1:9009/{n}") for n in range(4)]
    *failing, healthy = [endpoint.id for endpoint, _ in created]
    await harness.rows(
        "update endpoint_leases set failing_since = 1 where endpoint_id = any ($1)", failing
    )
    await harness.emit(owner)

    async def take_leases(now: int, limit: int, failing_limit: int) -> set[str]:
        async with harness.db.connection() as tx:
            leases = await queries.TAKE_LEASES.all(
                tx,
                now=harness.now(),
                real_now=now,
                owner="me",
                until=now + 1,
                limit=limit,
                failing_limit=failing_limit,
                full_hosts=[],
                per_host=LEASES_PER_HOST,
            )
        return {lease.endpoint_id for lease in leases}

    assert await take_leases(1, 1, 1) == {healthy}
    assert await take_leases(1, 4, 0) == set()
    assert len(await take_leases(1, 4, 2)) == 2
    endpoint_ids = await take_leases(2, 4, 2)
    assert len(endpoint_ids) == 3
    assert healthy in endpoint_ids


def test_an_endpoint_pauses_for_longer_the_longer_it_has_failed() -> None:
    def pause_s(failed_for_ms: int) -> float:
        host = HostLease("shop.example.com", HostLimit())
        lease = EndpointLease(LeaseRow("mer_1", "whe_1", 1000), host, 0.0, 1000 + failed_for_ms)
        lease.adapt(_FAILED_ATTEMPT, 0.0)
        return lease.paused_until

    assert pause_s(0) <= 0.1
    assert 5 <= pause_s(60_000) <= 15
    assert pause_s(86_400_000) == 30


_FAILED_ATTEMPT = DeliveryAttempt(
    merchant_id="mer_1", endpoint_id="whe_1", event_id="evt_1", number=1, at=1, duration_ms=1,
    outcome="unreachable", http_status=None, request="", response="", error="",
)  # fmt: skip


async def test_an_endpoint_gets_at_most_32_concurrent_attempts(harness: WebhookHarness) -> None:
    async with receiving(lambda _: "late") as receiver, harness.dispatching():
        merchant_id = await harness.create_merchant()
        await harness.create_endpoint(merchant_id, receiver.url)
        await harness.emit(merchant_id, 120)  # more events than the dispatcher may send at once
        async with harness.dispatching():  # a second worker must not double the limit
            await wait_until(lambda: len(receiver.accepted_event_ids()) == 120)
        assert receiver.max_open_requests <= 32
        assert len(receiver.received) == 120


async def test_a_graceful_stop_sends_nothing_twice(harness: WebhookHarness) -> None:
    async with receiving() as receiver:
        merchant_id = await harness.create_merchant()
        await harness.create_endpoint(merchant_id, receiver.url)
        await harness.emit(merchant_id, 400)
        while len(receiver.accepted_event_ids()) < 400:
            request_count = len(receiver.received)
            async with harness.dispatching():
                await wait_until(lambda n=request_count: len(receiver.received) > n)
        assert len(receiver.received) == 400
        for leases in ("endpoint_leases", "host_leases"):
            assert await harness.rows(f"select until from {leases}") == [{"until": 0}]


async def test_every_event_arrives_despite_failures_and_killed_dispatchers(
    fork_server: ForkServer, harness: WebhookHarness
) -> None:
    rng = random.Random(7)
    async with receiving(failing_behavior(rng, 0.3)) as receiver:
        await deliver_with_killed_dispatchers(fork_server, harness, receiver, 120, 2, lease_s=1.5)
        await assert_all_arrived(harness, receiver)


def test_a_received_request_has_the_id_of_its_event() -> None:
    assert ReceivedRequest("/", {"webhook-id": "evt_1"}, b"", 0).event_id == "evt_1"
