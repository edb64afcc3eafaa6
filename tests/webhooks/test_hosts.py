"""Limits for each host apply across endpoints, merchants and workers."""

import asyncio
import time

import pytest

from opentill import webhooks, worker
from opentill.context import App
from opentill.core.settings import Settings
from opentill.db.clock import now_ms
from opentill.webhooks import dispatch_queries as queries
from opentill.webhooks.hosts import LEASES_PER_HOST, HostLease, HostLimit
from support.api_server import ApiServer, Shop, error_of, serving
from support.webhook_harness import SECRET_KEY, WebhookHarness, wait_until
from support.webhook_receiver import ReceivedRequest, receiving


async def _create_endpoints(harness: WebhookHarness, url: str, merchants: int, events: int) -> None:
    """Create merchants with the maximum of endpoints, and emit events of each merchant."""
    owners = [await harness.create_merchant() for _ in range(merchants)]
    for owner in owners:
        for number in range(16):
            await harness.create_endpoint(owner, f"{url}/{number}")
    for owner in owners:
        await harness.emit(owner, events)


async def test_the_concurrency_limit_of_a_host_holds_across_workers(
    harness: WebhookHarness,
) -> None:
    limit = HostLimit(at_once=8, per_second=0)
    async with receiving(lambda _: "late") as receiver:
        await _create_endpoints(harness, receiver.url, 2, 2)  # these endpoints have 64 deliveries
        async with harness.dispatching(host_limit=limit), harness.dispatching(host_limit=limit):
            await wait_until(lambda: len(receiver.accepted) == 64)
        assert receiver.max_open_requests <= 8
        assert len(receiver.received) == 64


async def test_the_rate_limit_of_a_host_holds(harness: WebhookHarness) -> None:
    async with receiving() as receiver:
        await _create_endpoints(harness, receiver.url, 2, 4)  # these endpoints have 128 deliveries
        started = time.monotonic()
        async with harness.dispatching(host_limit=HostLimit(at_once=32, per_second=40)):
            await wait_until(lambda: len(receiver.accepted) == 128)
        # The limit allows a burst of 40 deliveries, 40 more in each second, and the first delivery.
        assert 40 * (time.monotonic() - started + 1) + 1 >= 128
        assert len(receiver.received) == 128


async def test_a_hanging_endpoint_leaves_room_for_others_of_its_host(
    harness: WebhookHarness,
) -> None:
    def respond(request: ReceivedRequest) -> int | str:
        return "hang" if request.path == "/0" else 200

    async with receiving(respond) as receiver:
        await _create_endpoints(harness, receiver.url, 1, 6)
        async with harness.dispatching(
            host_limit=HostLimit(at_once=1, per_second=0), timeout_s=120.0, drain_s=0.1
        ):
            await wait_until(lambda: len(receiver.accepted) == 15 * 6)
        assert receiver.max_open_requests <= 4


async def test_more_endpoints_than_a_host_has_leases_take_turns(
    harness: WebhookHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other endpoints get their turn although the first ones always have deliveries."""
    for name, value in (("LEASES_PER_HOST", 4), ("HOST_TURN_S", 0.2)):
        monkeypatch.setattr(f"opentill.webhooks.held_leases.{name}", value)
    async with receiving() as receiver:
        await _create_endpoints(harness, receiver.url, 1, 40)
        async with harness.dispatching(host_limit=HostLimit(at_once=4, per_second=0)):
            await wait_until(lambda: len({request.path for request in receiver.received}) == 16)


async def test_an_endpoint_with_a_new_url_is_served_by_the_worker_of_its_new_host(
    harness: WebhookHarness,
) -> None:
    owner = await harness.create_merchant()
    endpoint, _ = await harness.create_endpoint(owner, "http://127.0.0.9:9009/")
    await harness.emit(owner)
    async with harness.db.connection() as tx:
        (lease,) = await queries.TAKE_LEASES.all(
            tx,
            now=harness.now(),
            real_now=1,
            owner="one",
            until=100,
            limit=9,
            failing_limit=9,
            full_hosts=[],
            per_host=LEASES_PER_HOST,
        )
        assert lease.host == "127.0.0.9"

        async def count_due() -> int:
            rows = await queries.DUE.all(
                tx, merchant_id=[owner], endpoint_id=[endpoint.id], host=[lease.host], room=[9],
                now=harness.now(), sending=[],
            )  # fmt: skip
            return len(rows)

        async def take_hosts(worker_name: str, now: int) -> list[str]:
            leases = await queries.TAKE_LEASES.all(
                tx, now=harness.now(), real_now=now, owner=worker_name, until=now + 100,
                limit=9, failing_limit=9, full_hosts=[], per_host=LEASES_PER_HOST,
            )  # fmt: skip
            return [lease.host for lease in leases]

        assert await count_due() == 1
        other_merchant = await harness.create_merchant()
        await harness.create_endpoint(other_merchant, "https://127.0.0.9:8443/hook")
        await harness.emit(other_merchant)
        assert await take_hosts("two", 50) == []  # the worker "one" has the lease of this host
        fields, check = (
            webhooks.EndpointFields(url="http://127.0.0.8/"),
            webhooks.UrlCheck(harness.outgoing.check),
        )
        await webhooks.update(tx, owner, endpoint.id, fields, check, harness.now())
        assert await count_due() == 0
        assert sorted(await take_hosts("two", 101)) == ["127.0.0.8", "127.0.0.9"]
        assert await queries.RENEW_HOSTS.all(tx, host=["127.0.0.9"], until=[300], owner="one") == []


@pytest.mark.parametrize(("url", "host"), [
    ("https://shop.example.com/hook", "shop.example.com"),
    ("https://SHOP.example.com:8443", "shop.example.com"),
    ("HTTPS://shop.example.com?x=https://other.example.com/", "shop.example.com"),
    ("http://127.0.0.1:80/a:b@c", "127.0.0.1"),
    ("http://[::1]:8080/x", "[::1]"),
])  # fmt: skip
async def test_the_name_of_a_host_excludes_its_port(
    harness: WebhookHarness, url: str, host: str
) -> None:
    async with harness.db.connection() as tx:
        stored_host = await tx.fetchval(
            f"select {queries._HOST} from (select $1::text as url) e", url
        )
    assert stored_host == host


def test_the_burst_of_a_host_is_one_second() -> None:
    host = HostLease("shop.example.com", HostLimit(at_once=1000, per_second=8))

    def count_attempts(now_s: float) -> int:
        count = 0
        while host.has_room(now_s):
            host.begin(now_s)
            count += 1
        return count

    assert [count_attempts(at) for at in (1000.0, 1000.5, 1001.0, 2000.0)] == [9, 4, 4, 9]


def test_resends_are_counted_per_merchant(api_server: ApiServer) -> None:
    with serving(api_server.settings, limit_resends_per_minute=3) as limited:
        shop, other_shop = limited.create_shop(), limited.create_shop()
        endpoints = {owner: owner.create_endpoint() for owner in (shop, other_shop)}

        def resend(owner: Shop, **body: object) -> int:
            path = f"/v1/webhook-endpoints/{endpoints[owner]['id']}/resend"
            response = owner.post(path, body)
            if response.status_code == 429:
                error_of(response)
                assert 1 <= int(response.headers["retry-after"]) <= 61
                assert response.headers["ratelimit-policy"] == '"default";q=3;w=60'
            return response.status_code

        assert [resend(shop, since=0) for _ in range(5)] == [200] * 3 + [429] * 2
        assert resend(shop, eventId="evt_nothing") == 429
        assert resend(other_shop, since=0) == 200
        assert shop.get("/v1/events").status_code == 200


async def test_a_graceful_stop_releases_hosts(harness: WebhookHarness) -> None:
    async with receiving() as receiver:
        owner = await harness.create_merchant()
        await harness.create_endpoint(owner, receiver.url)
        await harness.emit(owner)
        async with harness.dispatching(lease_s=120.0):
            await wait_until(lambda: receiver.accepted)
        assert [row["until"] for row in await harness.rows("select until from host_leases")] == [0]


async def test_leases_from_before_the_clock_was_set_back_delay_nothing(
    harness: WebhookHarness,
) -> None:
    """A worker took the leases while its clock was a year ahead, and has ended since."""
    async with receiving() as receiver:
        owner = await harness.create_merchant()
        await harness.create_endpoint(owner, receiver.url)
        await harness.emit(owner)
        next_year = now_ms() + 365 * 86_400_000
        async with harness.db.connection() as tx:
            await tx.execute("insert into host_leases values ('127.0.0.1', 'gone', $1)", next_year)
            await tx.execute("update endpoint_leases set owner = 'gone', until = $1", next_year)
        async with harness.dispatching():
            await wait_until(lambda: receiver.accepted, within_s=30)


CONFIGURED_LIMITS = [
    # Each row: settings, behavior of the receiver, number of events.
    ({"webhook_host_at_once": 2, "webhook_host_per_second": 0}, "slow", 8),
    ({"webhook_host_at_once": 32, "webhook_host_per_second": 1}, 200, 4),
]


@pytest.mark.parametrize(("limits", "behavior", "events"), CONFIGURED_LIMITS)
async def test_a_worker_uses_the_configured_host_limits_and_header_prefix(
    harness: WebhookHarness, limits: dict[str, int], behavior: int | str, events: int
) -> None:
    settings = Settings(
        database_url=harness.url, secret_key=SECRET_KEY, webhook_header_prefix="X-Acme-", **limits
    )
    app = App(
        settings=settings, db=harness.db, gateways={}, outgoing=harness.outgoing, clock=harness.now
    )  # fmt: skip
    stop = asyncio.Event()
    async with receiving(lambda _: behavior) as receiver:
        owner = await harness.create_merchant()
        for number in range(events):
            await harness.create_endpoint(owner, f"{receiver.url}/{number}")
        await harness.emit(owner)
        started = time.monotonic()
        worker_task = asyncio.create_task(worker.work(app, stop))
        try:
            await wait_until(lambda: len(receiver.accepted) == events)
            duration_s = time.monotonic() - started
        finally:
            stop.set()
            await worker_task
    assert receiver.max_open_requests <= limits["webhook_host_at_once"]
    per_second = limits["webhook_host_per_second"]
    assert not per_second or per_second * (duration_s + 1) + 1 >= events
    assert all("x-acme-signature" in request.headers for request in receiver.received)
    assert not any("x-svc-signature" in request.headers for request in receiver.received)
