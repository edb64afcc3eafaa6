"""The worker's jobs for refunds.

They send refunds until the gateway reports their end, and retry to apply refunds that were made at
the provider and could not be applied to their order.
"""

from collections.abc import Mapping, Sequence

import structlog

from opentill import orders
from opentill.core.money import Money
from opentill.db import jobs
from opentill.db.database import Db, Tx
from opentill.gateways import callback_url, observe_call
from opentill.gateways.model import Gateway, GatewayRefundEvent, RefundOutcome, RefundRequest
from opentill.orders import PaymentAttempt
from opentill.refunds import queries, reports, service
from opentill.refunds.model import Refund, RefundCase

_log = structlog.get_logger()
_LEASE_MS = 60_000
_LONGEST_WAIT_MS = 3_600_000


async def gateways_due(db: Db, environment: Sequence[str], now: int) -> list[str]:
    """Return the gateways and accounts with due refunds, except those of ``environment``."""
    async with db.connection() as tx:
        due = await queries.GATEWAYS_DUE.all(tx, gateways=list(environment), now=now)
    return [row.gateway for row in due]


async def send_due(
    db: Db,
    gateways: Mapping[str, Gateway],
    public_url: str,
    now: int,
    batch: int = 50,
    only: jobs.GatewayFilter = jobs.EVERY_GATEWAY,
) -> int:
    """Send a batch of due refunds and return their number.

    The refund's id is the idempotency key, so a repeated request has no second effect, and its
    response reports the outcome of the first. For gateways without such keys, the request says
    whether it may have been sent before.
    """
    async with db.connection() as tx:
        due = await queries.CLAIM.all(tx, only, now=now, lease_until=now + _LEASE_MS, limit=batch)

    async def send(refund: Refund) -> None:
        async with db.connection() as tx:
            attempt = await orders.find_attempt(tx, refund.merchant_id, refund.attempt_id)
        gateway = gateways.get(attempt.gateway)
        after: Refund | None = refund
        if attempt.gateway == "manual":
            _log.warning("refund waits for the operator", refund=refund.id)
        elif gateway is None:
            _log.error("gateway gone", refund=refund.id, gateway=attempt.gateway)
        else:
            report_to = callback_url(public_url, gateways, attempt.gateway)
            after = await _send(db, gateway, refund, attempt, report_to, now)
        if after is not None and after.status == "PROCESSING":
            wait = min(2_000 << min(refund.tries, 12), _LONGEST_WAIT_MS)
            async with db.connection() as tx:
                await queries.TRY_AGAIN.run(
                    tx, merchant_id=refund.merchant_id, id=refund.id, try_at=now + wait
                )

    await jobs.each(due, send, lambda refund: refund.id)
    return len(due)


async def _send(
    db: Db, gateway: Gateway, refund: Refund, attempt: PaymentAttempt, report_to: str, now: int
) -> Refund | None:
    """Send one refund and apply the outcome. Returns None if it has ended since it was claimed."""
    key = {"merchant_id": refund.merchant_id, "id": refund.id}
    async with db.connection() as tx:
        sent_before = await queries.SENDING.get(tx, **key)
    if sent_before is None:
        return None
    request = RefundRequest(
        refund_id=refund.id,
        attempt_id=attempt.id,
        provider_ref=attempt.provider_ref,
        amount=Money(refund.amount_minor, refund.currency),
        reason=refund.reason,
        callback_url=report_to,
        repeated=sent_before,
    )
    outcome = await observe_call(attempt.gateway, "refund", gateway.refund(request))
    if outcome.status == "UNREACHABLE" and not sent_before:
        async with db.connection() as tx:
            await queries.NOT_SENT.run(tx, **key)
    return await db.run(
        lambda tx: service.apply_outcome(
            tx, refund.merchant_id, refund.id, outcome, now, gateway=attempt.gateway
        )
    )


async def match(db: Db, now: int, batch: int = 50) -> int:
    """Retry a batch of refunds made at the provider that could not be applied; return their number.

    A refund of a disputed order, for example, can be applied once the dispute is won.
    """
    async with db.connection() as tx:
        due = await queries.CLAIM_UNMATCHED.all(tx, now=now, limit=batch)

    async def apply(case: RefundCase) -> None:
        outcome = RefundOutcome(
            status=case.status, provider_ref=case.gateway_ref, reason=case.reason
        )
        report = GatewayRefundEvent(
            attempt_id=case.attempt_id,
            refund_id="",
            outcome=outcome,
            amount=Money(case.amount_minor, case.currency),
        )
        await db.run(
            lambda tx: reports.apply_report(tx, case.merchant_id, report, now, gateway=case.gateway)
        )

    await jobs.each(due, apply, lambda case: case.gateway_ref)
    return len(due)


async def make_due(tx: Tx, now: int) -> None:
    """Make all future tries of refunds and cases due now, after the clock was set back."""
    await queries.MAKE_DUE.run(tx, now=now)
    await queries.MAKE_CASES_DUE.run(tx, now=now)


async def unreported(tx: Tx, until: int, limit: int) -> list[Refund]:
    """Return refunds of all merchants, created until a time (Unix ms), whose end is unknown."""
    return await queries.UNREPORTED.all(tx, until=until, limit=limit)


async def count_due(tx: Tx, now: int) -> int:
    """Count the refunds that are due to be sent, up to 10,000."""
    return await queries.COUNT_DUE.get(tx, now=now) or 0


async def oldest_try(tx: Tx) -> int | None:
    """Return when the first refund is due to be sent (Unix ms); None if there is none."""
    return await queries.OLDEST_TRY.get(tx)
