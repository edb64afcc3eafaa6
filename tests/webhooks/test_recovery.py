"""When an endpoint works again, everything that waits for it is sent at once, in order."""

import time

from support.webhook_harness import WebhookHarness, wait_until
from support.webhook_receiver import ReceivedRequest, receiving

_MINUTE_MS = 60_000


async def _failed_attempts(harness: WebhookHarness) -> int:
    rows = await harness.rows("select 1 from delivery_attempts where outcome <> 'delivered'")
    return len(rows)


async def test_deliveries_that_wait_arrive_in_order_once_the_endpoint_works_again(
    harness: WebhookHarness,
) -> None:
    async with receiving(lambda _: 503) as receiver, harness.dispatching():
        merchant_id = await harness.create_merchant()
        await harness.create_endpoint(merchant_id, receiver.url)
        for _ in range(5):
            await harness.emit(merchant_id, 2)

        async def all_failed() -> bool:
            return await _failed_attempts(harness) == 10

        await wait_until(all_failed)
        harness.ahead_ms += 10_000  # an outage, after which the next attempts are a minute away
        waiting = [row["event_id"] for row in await harness.rows(
            "select event_id from webhook_deliveries where status = 'PENDING' order by event_id"
        )]  # fmt: skip
        assert len(waiting) == 10
        receiver.behave = lambda _: 200
        works_at = time.monotonic()
        await harness.emit(merchant_id)
        await wait_until(lambda: len(receiver.accepted) == 11)
        assert time.monotonic() - works_at < 60
    event_ids = [request.event_id for request in receiver.accepted]
    assert event_ids[1:] == waiting  # the first is the event that found out that it works
    assert await harness.count_statuses() == {"SUCCEEDED": 11}


async def test_an_event_that_is_always_refused_keeps_its_schedule(harness: WebhookHarness) -> None:
    refused: set[str] = set()

    def behave(request: ReceivedRequest) -> int:
        refused.update([request.event_id] if not refused else [])
        return 422 if request.event_id in refused else 200

    async with receiving(behave) as receiver, harness.dispatching():
        merchant_id = await harness.create_merchant()
        await harness.create_endpoint(merchant_id, receiver.url)
        await harness.emit(merchant_id)

        async def has_failed() -> bool:
            return await _failed_attempts(harness) == 1

        await wait_until(has_failed)
        for accepted in range(1, 6):
            await harness.emit(merchant_id)
            await wait_until(lambda number=accepted: len(receiver.accepted) == number)
        for _ in range(2):  # the attempt that follows the first success is the only early one
            await harness.emit(merchant_id)
        await wait_until(lambda: len(receiver.accepted) == 7)

        async def has_early() -> bool:
            return await _failed_attempts(harness) == 2

        await wait_until(has_early)
        (row,) = await harness.rows(
            "select step, attempts, try_at from webhook_deliveries where attempts = 2"
        )
        assert (row["step"], row["attempts"]) == (1, 2)
        assert row["try_at"] - harness.now() > 0.5 * _MINUTE_MS
        assert await _failed_attempts(harness) == 2


async def test_a_failed_test_does_not_count_as_a_failure_of_the_endpoint(
    harness: WebhookHarness,
) -> None:
    from opentill import webhooks

    async with receiving(lambda _: 500) as receiver, harness.dispatching():
        merchant_id = await harness.create_merchant()
        endpoint, _ = await harness.create_endpoint(merchant_id, receiver.url)
        ids, now = (merchant_id, endpoint.id), harness.now()
        await harness.db.run(lambda tx: webhooks.send_test(tx, *ids, now))

        async def is_over() -> bool:
            return await _failed_attempts(harness) == 1

        await wait_until(is_over)
        (lease,) = await harness.rows("select failing_since from endpoint_leases")
        assert lease["failing_since"] is None
