"""The secrets and headers with which events are signed."""

import asyncio

import pytest
import structlog
from standardwebhooks.webhooks import Webhook

from opentill import webhooks
from opentill.client import WebhookInvalid, verify_webhook
from opentill.core.encryption import encrypt
from opentill.db.clock import now_ms
from opentill.webhooks import signing
from support.webhook_harness import SECRET_KEY, WebhookHarness, wait_until
from support.webhook_receiver import receiving

MINUTE = 60_000

DAY = 24 * 60 * MINUTE


async def test_for_24_hours_after_a_rotation_both_secrets_sign(harness: WebhookHarness) -> None:
    async with receiving() as receiver, harness.dispatching():
        merchant_id = await harness.create_merchant()
        endpoint, old_secret = await harness.create_endpoint(merchant_id, receiver.url)
        now = harness.now()
        _, new_secret = await harness.db.run(
            lambda tx: webhooks.rotate_secret(tx, merchant_id, endpoint.id, SECRET_KEY, now)
        )
        await harness.emit(merchant_id)
        await wait_until(lambda: receiver.accepted)
        request = receiver.accepted[0]
        for secret in (old_secret, new_secret):
            Webhook(secret).verify(request.body, request.headers)
        ms = int(request.headers["x-svc-timestamp"])
        assert request.headers["x-svc-signature"] == signing.own_signature(
            new_secret, ms, request.body
        )
        assert request.headers["x-svc-signature-old"] == signing.own_signature(
            old_secret, ms, request.body
        )
        harness.ahead_ms += DAY + 1
        await harness.emit(merchant_id)
        await wait_until(lambda: len(receiver.accepted) == 2)
        request = receiver.accepted[1]
        Webhook(new_secret).verify(request.body, request.headers)
        assert " " not in request.headers["webhook-signature"]
        assert "x-svc-signature-old" not in request.headers


async def test_each_of_several_rotated_secrets_signs_for_its_own_24_hours(
    harness: WebhookHarness,
) -> None:
    async with receiving() as receiver, harness.dispatching():
        merchant_id = await harness.create_merchant()
        endpoint, first_secret = await harness.create_endpoint(merchant_id, receiver.url)

        async def rotate() -> str:
            now = harness.now()
            _, secret = await harness.db.run(
                lambda tx: webhooks.rotate_secret(tx, merchant_id, endpoint.id, SECRET_KEY, now)
            )
            return secret

        second_secret = await rotate()
        harness.ahead_ms += 60 * MINUTE
        third_secret = await rotate()
        for valid, expired in (
            ([third_secret, second_secret, first_secret], []),
            ([third_secret, second_secret], [first_secret]),
        ):
            request_count = len(receiver.accepted)
            await harness.emit(merchant_id)
            await wait_until(
                lambda request_count=request_count: len(receiver.accepted) > request_count
            )
            request = receiver.accepted[-1]
            for secret in valid:
                Webhook(secret).verify(request.body, request.headers)
                assert verify_webhook(request.body, request.headers, secret).type == "order.paid"
                own_headers = {
                    name: value for name, value in request.headers.items() if "svc" in name
                }
                assert verify_webhook(request.body, own_headers, secret).type == "order.paid"
            for secret in expired:
                with pytest.raises(WebhookInvalid):
                    verify_webhook(request.body, request.headers, secret)
            harness.ahead_ms += DAY - 60 * MINUTE


async def test_a_deployment_may_change_the_prefix_of_signature_headers(
    harness: WebhookHarness,
) -> None:
    async with receiving() as receiver, harness.dispatching(header_prefix="X-Acme-"):
        merchant_id = await harness.create_merchant()
        _, secret = await harness.create_endpoint(merchant_id, receiver.url)
        await harness.emit(merchant_id)
        await wait_until(lambda: receiver.accepted)
        request = receiver.accepted[-1]
        assert not [name for name in request.headers if "svc" in name.lower()]
        own_headers = {
            name: value for name, value in request.headers.items() if "acme" in name.lower()
        }
        assert set(own_headers) == {"x-acme-signature", "x-acme-timestamp"}
        event = verify_webhook(request.body, own_headers, secret, header_prefix="X-Acme-")
        assert event.type == "order.paid"
        with pytest.raises(WebhookInvalid):
            verify_webhook(request.body, own_headers, secret)
        # The prefix does not apply to the headers of Standard Webhooks.
        assert verify_webhook(request.body, request.headers, secret).type == "order.paid"


async def test_a_secret_that_cannot_be_decrypted_delays_no_other_endpoint(
    harness: WebhookHarness,
) -> None:
    async with receiving() as receiver, harness.dispatching(lease_s=4.0):
        merchant_id = await harness.create_merchant()
        broken, _ = await harness.create_endpoint(merchant_id, f"{receiver.url}/broken")
        await harness.create_endpoint(merchant_id, f"{receiver.url}/good")
        async with harness.db.connection() as tx:
            await tx.execute(
                "update webhook_endpoints set secret = $1 where id = $2",
                encrypt("another-key-0123456", "x", "whsec_x"),
                broken.id,
            )
        await harness.emit(merchant_id, 5)
        await wait_until(lambda: len(receiver.accepted) == 5)
        await wait_until(lambda: _are_paused_for_long(harness, [broken.id]))
        assert {request.path for request in receiver.received} == {"/good"}
        deliveries = await harness.rows(
            "select status, attempts from webhook_deliveries where endpoint_id = $1", broken.id
        )
        assert deliveries == [{"status": "PENDING", "attempts": 0}] * 5


async def test_unsigned_deliveries_keep_their_attempts_until_the_key_is_restored(
    harness: WebhookHarness,
) -> None:
    """A dispatcher with another key cannot decrypt the endpoints' secrets."""
    async with receiving() as receiver:
        merchant_id = await harness.create_merchant()
        ids = [(await harness.create_endpoint(merchant_id, receiver.url))[0].id for _ in range(2)]
        await harness.emit(merchant_id, 20)
        untouched = "select count(*) as n from webhook_deliveries where attempts = 0 and step = 0"
        with structlog.testing.capture_logs() as log_lines:
            async with harness.dispatching(
                secret_key="another-key-another-key-another-01", lease_s=4.0
            ):
                await wait_until(lambda: _are_paused_for_long(harness, ids))
        (error,) = [
            line for line in log_lines if "webhook" in line["event"]
        ]  # one line reports all endpoints
        assert (error["event"], error["log_level"]) == ("webhooks cannot be signed", "error")
        assert "OPENTILL_SECRET_KEY" in error["reason"]
        assert await harness.count_statuses() == {"PENDING": 40}
        assert (await harness.rows(untouched))[0]["n"] == 40
        leases = await harness.rows("select * from endpoint_leases where failing_since is not null")
        assert (leases, receiver.received) == ([], [])

        async with harness.db.connection() as tx:
            # Ends the pause of the endpoints.
            await tx.execute("update endpoint_leases set until = 0")
        async with harness.dispatching():
            await wait_until(
                lambda: len(receiver.accepted_event_ids()) == 20 and len(receiver.accepted) == 40
            )
            await wait_until(lambda: _all_succeeded(harness))
    attempts = await harness.rows("select max(attempts) as most from webhook_deliveries")
    assert attempts[0]["most"] == 1


async def test_unsigned_deliveries_are_retried(harness: WebhookHarness) -> None:
    async with receiving() as receiver:
        merchant_id = await harness.create_merchant()
        endpoint, _ = await harness.create_endpoint(merchant_id, receiver.url)
        await harness.emit(merchant_id)
        async with harness.dispatching(
            secret_key="another-key-another-key-another-01", unsigned_s=1
        ):
            await asyncio.sleep(0.5)
            purpose = f"webhook secret {merchant_id} {endpoint.id}"
            encrypted = encrypt("another-key-another-key-another-01", purpose, "whsec_" + "A" * 32)
            async with harness.db.connection() as tx:
                await tx.execute("update webhook_endpoints set secret = $1", encrypted)
            await wait_until(lambda: receiver.accepted)


async def _are_paused_for_long(harness: WebhookHarness, endpoint_ids: list[str]) -> bool:
    """Return whether these endpoints pause for much longer than a lease of 4 s."""
    leases = "select until from endpoint_leases where endpoint_id = any ($1::text[])"
    return all(row["until"] > now_ms() + 20_000 for row in await harness.rows(leases, endpoint_ids))


async def _all_succeeded(harness: WebhookHarness) -> bool:
    return await harness.count_statuses() == {"SUCCEEDED": 40}
