"""Dispute events that cannot be applied to their order: stored, tried again, shown to the operator.

A gateway may report a second dispute while one is open, or a dispute before its payment. The money
that it takes must not be forgotten, though the table of transitions has no row for the event. A
loss of which a dispute could take a part only is stored as well.

What an operator has dismissed is dealt with, perhaps by an adjustment, and what was closed because
no money had moved in the end is over: no report of such a dispute is applied any more. A newer one
is for a person. Of a dispute that is known, so is a report that gives money back after an operator
has dismissed one of it: what was corrected would be corrected twice.
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


async def last_kept(tx: Tx, attempt: PaymentAttempt, ref: str) -> Unmatched | None:
    """Return the last unmatched event of a dispute, closed or not; its order is locked."""
    return await queries.UNMATCHED.first(
        tx, merchant_id=attempt.merchant_id, gateway=attempt.gateway, gateway_ref=ref
    )


async def keep(
    tx: Tx,
    attempt: PaymentAttempt,
    ref: str,
    gateway_event: GatewayDisputeEvent,
    now: int,
    *,
    refusal: str,
    known: Dispute | None,
) -> None:
    """Store a gateway event that was refused, once; ``ref`` is the provider's name of the dispute.

    The order is locked. ``known`` is the dispute, if there is one. Where there is none, and the
    dispute is won or recovered before an earlier event of it was closed, no money has moved in the
    end: the event is closed at once.
    """
    key = {"merchant_id": attempt.merchant_id, "gateway": attempt.gateway, "gateway_ref": ref}
    before = await last_kept(tx, attempt, ref)
    if before is not None and not is_new(before, gateway_event):
        if before.status == gateway_event.status and before.refusal != refusal:
            await queries.CHANGE_REFUSAL.run(tx, **key, refusal=refusal)
        return
    closed_before = None
    if before is not None:
        closed_before = before.was_closed if known is None else before.dismissed_by
    await queries.KEEP_UNMATCHED.run(
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
    undone = known is None and closed_before is None
    if undone and gateway_event.status in ("WON", "RECOVERED"):
        closed_by = CLOSED_AS_UNDONE.format(gateway_event.status.lower())
        await queries.CLOSE_UNMATCHED.first(tx, **key, now=now, closed_by=closed_by)
    elif gateway_event.status in ATTENTION:
        _log.error(
            "dispute matches no order",
            order=attempt.order_id, dispute=ref, status=gateway_event.status, refusal=refusal,
        )  # fmt: skip


def is_new(before: Unmatched, gateway_event: GatewayDisputeEvent) -> bool:
    """Return whether an event is newer than the stored one; repeated and late events are not."""
    return (
        before.status != gateway_event.status
        and transitions_to(REPORTED[gateway_event.status], REPORTED[before.status]) != ()
    )


def why_not_again(dispute: Dispute, gateway_event: GatewayDisputeEvent) -> str | None:
    """Return that a gateway has opened a dispute again that was decided, None if it has not.

    A late report that it was opened has the deadline that is known already; a new one is later than
    that, and later than the decision.
    """
    if gateway_event.status != "OPENED" or dispute.closed_at is None:
        return None
    known_until = max(dispute.respond_by or 0, dispute.closed_at)
    if (gateway_event.respond_by or 0) <= known_until:
        return None
    return f"{dispute.id} is {dispute.status}, and the gateway takes evidence again"


async def matched(tx: Tx, dispute: Dispute, now: int) -> None:
    """Close the unmatched event of a dispute that has been applied to its order after all."""
    if dispute.gateway_ref is None:
        return
    key = {
        "merchant_id": dispute.merchant_id,
        "gateway": dispute.gateway,
        "gateway_ref": dispute.gateway_ref,
    }
    kept = await queries.UNMATCHED.first(tx, **key)
    if kept is not None and transitions_to(REPORTED[kept.status], dispute.status) == ():
        closed_by = CLOSED_AS_MATCHED.format(dispute.id)
        await queries.CLOSE_UNMATCHED.first(tx, **key, now=now, closed_by=closed_by)


async def dismiss(
    tx: Tx, merchant_id: str, gateway: str, ref: str, who: str, now: int
) -> Unmatched:
    """Close an unmatched dispute event that the operator has dealt with. Raises NotFound."""
    closed = await queries.CLOSE_UNMATCHED.first(
        tx, merchant_id=merchant_id, gateway=gateway, gateway_ref=ref, now=now, closed_by=who
    )
    return or_not_found(
        closed, f"there is no unmatched dispute {ref} of {gateway} at {merchant_id}"
    )


async def unmatched(tx: Tx, merchant_id: str | None = None) -> list[Unmatched]:
    """Return the latest unmatched events that nobody closed, newest first."""
    return await queries.SEARCH_UNMATCHED.all(tx, merchant_id=merchant_id, limit=_LISTED)


async def count_unmatched(tx: Tx) -> int:
    """Return how many unmatched disputes moved money at a gateway."""
    return await queries.COUNT_UNMATCHED.get(tx, statuses=list(ATTENTION)) or 0
