"""Refund cases: refunds that staff must look at, stored until they are closed or recorded.

Money that left or returned at a provider without a matching refund of ours must not be forgotten.
The caller must hold the lock of the case's order.
"""

from typing import Final

import structlog

from opentill.core.errors import or_not_found
from opentill.db.database import Tx
from opentill.gateways.model import GatewayRefundEvent
from opentill.orders import PaymentAttempt
from opentill.refunds import queries
from opentill.refunds.model import Refund, RefundCase

_log: Final = structlog.get_logger()
_LISTED: Final = 500
_LONGEST_REASON: Final = 255


async def open_reversed(tx: Tx, refund: Refund, gateway: str, now: int) -> None:
    """Open the case of a refund that was reversed."""
    await queries.STORE_CASE.run(
        tx,
        merchant_id=refund.merchant_id,
        gateway=gateway,
        gateway_ref=refund.id,
        kind="REVERSED",
        order_id=refund.order_id,
        attempt_id=refund.attempt_id,
        refund_id=refund.id,
        status="REFUSED",
        amount_minor=refund.amount_minor,
        currency=refund.currency,
        reason=(refund.error_message or "")[:_LONGEST_REASON],
        refusal="",
        now=now,
    )
    _log.error(
        "refund reversed", order=refund.order_id, refund=refund.id, reason=refund.error_message
    )


async def find_unmatched(tx: Tx, attempt: PaymentAttempt, ref: str) -> RefundCase | None:
    """Return the case of a refund made at the provider, closed or not, and lock it."""
    return await queries.CASE.first(
        tx, merchant_id=attempt.merchant_id, gateway=attempt.gateway, gateway_ref=ref
    )


async def store_unmatched(
    tx: Tx, attempt: PaymentAttempt, report: GatewayRefundEvent, now: int, *, refusal: str
) -> None:
    """Store a report of a refund made at the provider that cannot be applied.

    If its case is open already, only ``refusal`` is updated.
    """
    if report.amount is None:
        raise AssertionError  # reports.apply_report rejects a report without its amount
    ref = report.outcome.provider_ref
    key = {"merchant_id": attempt.merchant_id, "gateway": attempt.gateway, "gateway_ref": ref}
    existing_case = await find_unmatched(tx, attempt, ref)
    is_open = existing_case is not None and existing_case.closed_at is None
    status = report.outcome.status
    if existing_case is not None and is_open and existing_case.status == status:
        if existing_case.refusal != refusal:
            await queries.CHANGE_REFUSAL.run(tx, **key, refusal=refusal)
        return
    await queries.STORE_CASE.run(
        tx,
        **key,
        kind="UNMATCHED",
        order_id=attempt.order_id,
        attempt_id=attempt.id,
        refund_id=None,
        status=status,
        amount_minor=report.amount.minor,
        currency=report.amount.currency,
        reason=report.outcome.reason[:_LONGEST_REASON],
        refusal=refusal,
        now=now,
    )
    _log.error(
        "refund at the provider matches no order",
        order=attempt.order_id, refund=ref, status=status, refusal=refusal,
    )  # fmt: skip


async def close_unmatched(
    tx: Tx, attempt: PaymentAttempt, ref: str, closed_by: str, now: int
) -> None:
    """Close the case of a refund made at the provider, if one is open."""
    await queries.CLOSE_CASE.first(
        tx,
        merchant_id=attempt.merchant_id,
        gateway=attempt.gateway,
        gateway_ref=ref,
        now=now,
        closed_by=closed_by,
    )


async def dismiss(
    tx: Tx, merchant_id: str, gateway: str, ref: str, who: str, now: int
) -> RefundCase:
    """Close a case that staff have dealt with. Raises NotFound."""
    closed = await queries.CLOSE_CASE.first(
        tx, merchant_id=merchant_id, gateway=gateway, gateway_ref=ref, now=now, closed_by=who
    )
    return or_not_found(closed, f"there is no open case of refund {ref} of {gateway}")


async def list_open(tx: Tx, merchant_id: str | None = None) -> list[RefundCase]:
    """Return the latest open cases, newest first."""
    return await queries.OPEN_CASES.all(tx, merchant_id=merchant_id, limit=_LISTED)


async def count_unmatched(tx: Tx) -> int:
    """Count the refunds that were made at a provider and are missing in the ledger."""
    return await queries.COUNT_UNMATCHED.get(tx) or 0
