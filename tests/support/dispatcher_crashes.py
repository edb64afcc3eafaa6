"""Delivers events with dispatchers that are killed, to a receiver that fails at times."""

import asyncio
import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

from support.commands import ForkedProcess, ForkServer
from support.webhook_harness import WebhookHarness, wait_until
from support.webhook_receiver import ReceivedRequest, Receiver

MINUTE: Final = 60_000
_PROGRAM: Final = Path(__file__).with_name("dispatcher_process.py")
_STDERR: Final = 2


def failing_behavior(rng: random.Random, share: float) -> Any:
    """Return a behavior that fails a share of the requests, at most five for each event.

    So no delivery fails for good, which takes ten attempts.
    """
    requests: Counter[str] = Counter()

    def behave(request: ReceivedRequest) -> int | str:
        requests[request.event_id] += 1
        if requests[request.event_id] > 5 or rng.random() >= share:
            return 200
        return rng.choice((500, "reset", "hang", 302))

    return behave


def _start_process(
    fork_server: ForkServer, harness: WebhookHarness, lease_s: float
) -> ForkedProcess:
    """Start a dispatcher in a process that can be killed."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return fork_server.start_logged(
        [str(_PROGRAM), harness.url, "1", str(lease_s)],
        os.environ | {"PYTHONPATH": paths}, Path.cwd(), _STDERR,
    )  # fmt: skip


async def deliver_with_killed_dispatchers(
    fork_server: ForkServer,
    harness: WebhookHarness,
    receiver: Receiver,
    events: int,
    kills: int,
    lease_s: float,
) -> None:
    """Emit events, kill the dispatcher ``kills`` times, and wait until no delivery is pending."""
    merchant_ids = [await harness.create_merchant() for _ in range(5)]
    for merchant_id in merchant_ids:
        await harness.create_endpoint(merchant_id, receiver.url)
    process = _start_process(fork_server, harness, lease_s)
    try:
        for batch in range(kills + 1):
            for merchant_id in merchant_ids:
                await harness.emit(merchant_id, events // (kills + 1) // len(merchant_ids))
            target = len(receiver.received) + events // (kills + 1) // 2
            await wait_until(lambda n=target: len(receiver.received) >= n, 120)
            if batch < kills:
                process.kill()
                process.wait()
                process = _start_process(fork_server, harness, lease_s)
        end = asyncio.get_running_loop().time() + 600
        while (await harness.count_statuses()).get("PENDING"):
            assert asyncio.get_running_loop().time() < end, await harness.count_statuses()
            await asyncio.sleep(0.05)
            due = await harness.rows(
                "select count(*) as n from webhook_deliveries where try_at <= $1", harness.now()
            )
            if not due[0]["n"]:
                await harness.advance(40 * MINUTE)
    finally:
        process.kill()
        process.wait()


async def assert_all_arrived(harness: WebhookHarness, receiver: Receiver) -> None:
    """Assert that every event arrived with its stored body, in at most ten attempts."""
    rows = await harness.rows("select id, body from events")
    bodies = {row["id"]: row["body"].encode() for row in rows}
    assert all(request.body == bodies[request.event_id] for request in receiver.received)
    failed = await harness.rows("select event_id from webhook_deliveries where status = 'FAILED'")
    assert receiver.accepted_event_ids() | {row["event_id"] for row in failed} == set(bodies)
    assert not failed
    attempts = await harness.rows("select max(number) as most from delivery_attempts")
    assert attempts[0]["most"] <= 10
