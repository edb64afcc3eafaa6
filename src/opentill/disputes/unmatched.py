"""Dispute events that cannot be applied to their order: stored, retried and shown to staff.

A gateway may report a second dispute while one is open, or a dispute before its payment. The money
that it takes must not be forgotten, although the table of transitions has no row for the event. A
loss that exceeds the dispute's amount is stored as well.

An event may be closed by an operator, who may have adjusted the balance, or automatically because
no money had moved in the end. After that, no event of a dispute that exists only as an unmatched
event is applied: staff decide about newer ones. Events of an existing dispute are still applied;
but once an operator has dismissed one, events that return money are not, because the balance could
be corrected twice.
"""

from typing import Final

import structlog

from opentill.core.errors import or_not_found
from opentill.db.database import Tx
from opentill.disputes import queries
from opentill.disputes.model import (
    ATTENTION,
    CLOSED_AS_MATCHED,
    CLOSED_AS_UNDONE,
    REPORTED,
    Dispute,
    Unmatched,
    transitions_to,
)
from opentill.gateways.model import GatewayDisputeEvent
from opentill.orders import PaymentAttempt

_log: Final = structlog.get_logger()
_LISTED: Final = 500


async def find_unmatched(tx: Tx, attempt: PaymentAttempt, ref: str) -> Unmatched | None:
    """Lock and return a dispute's last unmatched event, closed or not.

    The caller must hold the order's lock.
    """
    return await queries.UNMATCHED.first(
        tx, merchant_id=attempt.merchant_id, gateway=attempt.gateway, gateway_ref=ref
    )


async def store(
    tx: Tx,
    attempt: PaymentAttempt,
    ref: str,
    gateway_event: GatewayDisputeEvent,
    now: int,
    *,
    refusal: str,
    dispute: Dispute | None,
) -> None:
    """Store an event that cannot be applied. Idempotent.

    ``ref`` is the provider's id of the dispute; ``dispute`` is our dispute, None if it does not
    exist. In that case, a win or a recovery means that no money has moved in the end: the event is
    closed at once, unless an earlier one was closed. The caller must hold the order's lock.
    """
    key = {"merchant_id": attempt.merchant_id, "gateway": attempt.gateway, "gateway_ref": ref}
    before = await find_unmatched(tx, attempt, ref)
    if before is not None and not is_newer(gateway_event, before):
        if before.status == gateway_event.status and before.refusal != refusal:
            await queries.CHANGE_REFUSAL.run(tx, **key, refusal=refusal)
        return
    closed_before = None
    if before is not None:
        closed_before = before.was_closed if dispute is None else before.dismissed_by
    await queries.STORE_UNMATCHED.run(
        tx,
        **key,
        order_id=attempt.order_id,
        attempt_id=attempt.id,
        status=gateway_event.status,
        amount_minor=gateway_event.amount.minor,
        currency=gateway_event.amount.currency,
        reason=gateway_event.reason[:500],
        respond_by=gateway_event.respond_by,
        refusal=refusal,
        closed_before=closed_before,
        now=now,
    )
    is_undone = dispute is None and closed_before is None
    if is_undone and gateway_event.status in ("WON", "RECOVERED"):
        closed_by = CLOSED_AS_UNDONE.format(gateway_event.status.lower())
        await queries.CLOSE_UNMATCHED.first(tx, **key, now=now, closed_by=closed_by)
    elif gateway_event.status in ATTENTION:
        _log.error(
            "dispute matches no order",
            order=attempt.order_id, dispute=ref, status=gateway_event.status, refusal=refusal,
        )  # fmt: skip


def is_newer(gateway_event: GatewayDisputeEvent, before: Unmatched) -> bool:
    """Whether an event is newer than the stored one; repeated and late events are not."""
    return (
        before.status != gateway_event.status
        and transitions_to(REPORTED[gateway_event.status], REPORTED[before.status]) != ()
    )


def refusal_of_reopening(dispute: Dispute, gateway_event: GatewayDisputeEvent) -> str | None:
    """Return a refusal if a gateway has reopened a dispute that was decided, else None.

    A late report of the opening repeats the deadline that is stored. A reopening has a deadline
    that is later than the stored deadline and later than the decision.
    """
    if gateway_event.status != "OPENED" or dispute.closed_at is None:
        return None
    latest = max(dispute.respond_by or 0, dispute.closed_at)
    if (gateway_event.respond_by or 0) <= latest:
        return None
    return f"{dispute.id} is {dispute.status}, and the gateway takes evidence again"


async def close_matched(tx: Tx, dispute: Dispute, now: int) -> None:
    """Close a dispute's unmatched event if the dispute has reached the event's status meanwhile."""
    if dispute.gateway_ref is None:
        return
    key = {
        "merchant_id": dispute.merchant_id,
        "gateway": dispute.gateway,
        "gateway_ref": dispute.gateway_ref,
    }
    unmatched = await queries.UNMATCHED.first(tx, **key)
    if unmatched is not None and transitions_to(REPORTED[unmatched.status], dispute.status) == ():
        closed_by = CLOSED_AS_MATCHED.format(dispute.id)
        await queries.CLOSE_UNMATCHED.first(tx, **key, now=now, closed_by=closed_by)


async def dismiss(
    tx: Tx, merchant_id: str, gateway: str, ref: str, who: str, now: int
) -> Unmatched:
    """Close an unmatched event that staff have dealt with. Raises NotFound."""
    closed = await queries.CLOSE_UNMATCHED.first(
        tx, merchant_id=merchant_id, gateway=gateway, gateway_ref=ref, now=now, closed_by=who
    )
    return or_not_found(
        closed, f"there is no unmatched dispute {ref} of {gateway} at {merchant_id}"
    )


async def list_unmatched(tx: Tx, merchant_id: str | None = None) -> list[Unmatched]:
    """Return the latest open unmatched events, newest first."""
    return await queries.SEARCH_UNMATCHED.all(tx, merchant_id=merchant_id, limit=_LISTED)


async def count_unmatched(tx: Tx) -> int:
    """Count the open unmatched events that moved money at a gateway."""
    return await queries.COUNT_UNMATCHED.get(tx, statuses=list(ATTENTION)) or 0
