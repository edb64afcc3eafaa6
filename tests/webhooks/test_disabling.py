"""An endpoint that fails for five days is disabled, and can be enabled again."""

import asyncio

import pytest

from opentill import webhooks
from opentill.webhooks import jobs
from support.webhook_harness import WebhookHarness, wait_until
from support.webhook_receiver import receiving

DAY = 24 * 60 * 60_000
DISABLED = "select disabled_reason from webhook_endpoints where status = 'DISABLED'"


async def _enable(harness: WebhookHarness, merchant_id: str, endpoint_id: str) -> None:
    fields, check = (
        webhooks.EndpointFields(status="ENABLED"),
        webhooks.UrlCheck(harness.outgoing.check),
    )
    now = harness.now()
    await harness.db.run(
        lambda tx: webhooks.update(tx, merchant_id, endpoint_id, fields, check, now)
    )


@pytest.mark.parametrize(
    ("status", "failing_ms", "reason"),
    [(410, 0, "it responded with 410 Gone"), (500, 5 * DAY, "five days without a success")],
)
async def test_a_failing_endpoint_is_disabled_and_resumes_when_it_is_enabled(
    harness: WebhookHarness, status: int, failing_ms: int, reason: str
) -> None:
    async with receiving(lambda _: status) as receiver, harness.dispatching():
        merchant_id = await harness.create_merchant()
        endpoint, _ = await harness.create_endpoint(merchant_id, receiver.url)
        await harness.emit(merchant_id)
        if failing_ms:
            failing = "select 1 from endpoint_leases where failing_since > 0"
            await wait_until(lambda: harness.rows(failing))
            harness.ahead_ms += failing_ms
        await wait_until(lambda: harness.rows(DISABLED))
        assert (await harness.rows(DISABLED))[0]["disabled_reason"] == reason
        (audit,) = await harness.rows(
            "select action, who, subject, reason from audit_log where subject = $1", endpoint.id
        )
        assert list(audit.values()) == ["webhooks disable", "opentill", endpoint.id, reason]
        request_count = len(receiver.received)
        harness.ahead_ms += DAY
        await harness.emit(merchant_id)
        # The second event gets no delivery, because the endpoint is disabled.
        assert await harness.count_statuses() == {"PENDING": 1}
        await asyncio.sleep(0.5)
        assert len(receiver.received) == request_count
        receiver.behave = lambda _: 200
        await _enable(harness, merchant_id, endpoint.id)
        await wait_until(lambda: receiver.accepted)


async def test_a_success_restarts_the_five_days(harness: WebhookHarness) -> None:
    responses: list[int] = [500, 200, 500]
    async with receiving(lambda _: responses.pop(0)) as receiver, harness.dispatching():
        merchant_id = await harness.create_merchant()
        await harness.create_endpoint(merchant_id, receiver.url)
        for count in (1, 2, 3):
            await harness.emit(merchant_id)
            await wait_until(
                lambda n=count: harness.rows("select from delivery_attempts offset $1", n - 1)
            )
            harness.ahead_ms += 3 * DAY if count > 1 else 1000
        assert await harness.rows("select from webhook_endpoints where status = 'ENABLED'")


async def test_enabling_an_endpoint_restarts_the_five_days(harness: WebhookHarness) -> None:
    async with receiving(lambda _: 500) as receiver, harness.dispatching():
        merchant_id = await harness.create_merchant()
        endpoint, _ = await harness.create_endpoint(merchant_id, receiver.url)
        await harness.emit(merchant_id, 20)
        await wait_until(lambda: len(receiver.received) >= 6)
        harness.ahead_ms += 5 * DAY
        await wait_until(lambda: harness.rows(DISABLED))
        request_count = len(receiver.received)
        await _enable(harness, merchant_id, endpoint.id)
        await wait_until(lambda: len(receiver.received) >= request_count + 3)
        await asyncio.sleep(0.5)
        assert not await harness.rows(DISABLED)


async def test_an_attempt_from_before_an_endpoint_was_enabled_does_not_disable_it(
    harness: WebhookHarness,
) -> None:
    responses: list[int | str] = [410, "slowly gone"]
    async with (
        receiving(lambda _: responses.pop(0) if responses else 200) as receiver,
        harness.dispatching(timeout_s=60.0),
    ):
        merchant_id = await harness.create_merchant()
        endpoint, _ = await harness.create_endpoint(merchant_id, receiver.url)
        await harness.emit(merchant_id, 2)
        await wait_until(lambda: harness.rows(DISABLED))
        await wait_until(lambda: len(receiver.received) == 2)
        assert receiver.open_requests == 1
        await _enable(harness, merchant_id, endpoint.id)
        receiver.gone.set()
        await wait_until(lambda: harness.rows("select from delivery_attempts offset 1"))
        await harness.emit(merchant_id)
        await wait_until(lambda: receiver.accepted)
        assert not await harness.rows(DISABLED)


async def test_deliveries_to_a_failing_endpoint_do_not_count_as_late(
    harness: WebhookHarness,
) -> None:
    """The age of the queue shows whether workers run, not whether a shop's server is up."""
    merchant_id = await harness.create_merchant()
    await harness.create_endpoint(merchant_id, "http://127.0.0.1:9009/")
    await harness.emit(merchant_id)
    now = harness.now() + 3_600_000
    async with harness.db.connection() as tx:
        assert (await jobs.measure_backlog(tx, now))[1] >= 3_600_000
        await tx.execute("update endpoint_leases set failing_since = 1")
        assert await jobs.measure_backlog(tx, now) == (1, 0)
    await harness.create_endpoint(merchant_id, "http://127.0.0.1:9009/other")
    await harness.emit(merchant_id)
    async with harness.db.connection() as tx:
        assert 3_590_000 < (await jobs.measure_backlog(tx, now))[1] <= 3_600_000
