"""Duplicate payments: the money of a second payment of an order is sent back to its customer.

The gateway is asked to do so by a refund request. If it refuses for good, does not report the
outcome, or is no longer in use, an operator sends the money back and records that here.
"""

from collections.abc import Container, Mapping
from typing import Final

import structlog

from opentill.core.errors import Invalid, NotFound
from opentill.core.money import Money
from opentill.db.database import Db, Tx
from opentill.gateways import callback_url, observe_call
from opentill.gateways.model import Gateway, PaymentOutcome, RefundOutcome, RefundRequest
from opentill.merchants import Actor
from opentill.orders import service
from opentill.orders.model import Order, PaymentAttempt
from opentill.orders.order_history import note
from opentill.orders.payments import queries
from opentill.orders.payments.outcomes import write_attempt
from opentill.orders.queries import ATTEMPT

_log: Final = structlog.get_logger()


def needs_manual_return(attempt: PaymentAttempt, reporting: Container[str]) -> bool:
    """Whether an attempt is a duplicate payment that its gateway may never send back.

    ``reporting`` are the gateways that always report the outcome of a refund by themselves.
    """
    is_refused = attempt.check_at is None
    return attempt.status == "DUPLICATE" and (is_refused or attempt.gateway not in reporting)


async def record_duplicate_return(
    tx: Tx,
    merchant_id: str,
    order_id: str,
    attempt_id: str,
    actor: Actor,
    now: int,
    *,
    reporting: Container[str],
) -> None:
    """Record as the operator that the money of a duplicate payment was sent back.

    Raises NotFound for an attempt of another order, and Invalid for one that does not need a manual
    return; ``reporting`` is as in ``needs_manual_return``.
    """
    await service.lock(tx, merchant_id, order_id)
    attempt = await service.find_attempt(tx, merchant_id, attempt_id)
    if attempt.order_id != order_id:
        raise NotFound
    if not needs_manual_return(attempt, reporting):
        reason = (
            "attempt must be a second payment that its gateway refused to return, "
            "or whose return it does not report"
        )
        raise Invalid("attempt", reason)
    outcome = RefundOutcome(status="SUCCEEDED", provider_ref=f"by {actor.who}: {actor.reason}")
    await apply_duplicate_return(tx, attempt, outcome, now, by_operator=True)


async def return_duplicate(
    db: Db, gateways: Mapping[str, Gateway], attempt: PaymentAttempt, public_url: str, now: int
) -> None:
    """Ask the gateway to send a duplicate payment back. The id of this refund is the attempt's."""
    gateway = gateways.get(attempt.gateway)
    if gateway is None:
        _log.error("gateway gone", attempt=attempt.id, gateway=attempt.gateway)
        return
    key = {"merchant_id": attempt.merchant_id, "id": attempt.id}
    is_first = bool(await db.run(lambda tx: queries.MARK_RETURN_SENT.run(tx, **key)))
    request = RefundRequest(
        refund_id=attempt.id,
        attempt_id=attempt.id,
        provider_ref=attempt.provider_ref,
        amount=Money(attempt.amount_minor, attempt.currency),
        reason="duplicate payment",
        callback_url=callback_url(public_url, gateways, attempt.gateway),
        repeated=not is_first,
    )
    outcome = await observe_call(attempt.gateway, "refund", gateway.refund(request))
    if is_first and outcome.status == "UNREACHABLE":
        await db.run(lambda tx: queries.UNMARK_RETURN_SENT.run(tx, **key))
    await db.run(lambda tx: apply_duplicate_return(tx, attempt, outcome, now))


async def apply_duplicate_return(
    tx: Tx,
    attempt: PaymentAttempt,
    outcome: RefundOutcome,
    now: int,
    *,
    by_operator: bool = False,
) -> None:
    """Apply the outcome of sending a duplicate payment back. Idempotent.

    If the gateway refuses for good, or reports later that a return has failed, for example because
    the customer's account is closed, it is not called again. The order's history shows this to the
    operator, who alone can then record the return.
    """
    order = await service.lock(tx, attempt.merchant_id, attempt.order_id)
    current = await ATTEMPT.first(tx, merchant_id=attempt.merchant_id, id=attempt.id)
    if current is None or current.status not in ("DUPLICATE", "GIVEN_BACK"):
        return
    is_returned = current.status == "GIVEN_BACK"
    if outcome.status == "SUCCEEDED" and not is_returned:
        if current.check_at is None and not by_operator:
            # Sending the money back failed before. Either this report is older than the failure, or
            # somebody has sent the money back at the provider: an operator must decide.
            _log.error(
                "duplicate said to be given back", attempt=attempt.id, by=outcome.provider_ref
            )
            return
        cause = f"{attempt.id} {outcome.provider_ref}".strip()
        success = PaymentOutcome(status="SUCCEEDED")
        await write_attempt(tx, current, "GIVEN_BACK", success, None, now)
        await note(tx, order, "payment_given_back", cause, now)
    elif outcome.status == "REFUSED" and (is_returned or current.check_at is not None):
        if is_returned and await _has_event(tx, order, "payment_not_given_back", attempt.id):
            return  # the failure is known, and the operator has sent the money back since then
        _log.error(
            "duplicate not given back",
            attempt=attempt.id, was=current.status, reason=outcome.reason,
        )  # fmt: skip
        reason = outcome.reason or "refused"
        key = {"merchant_id": attempt.merchant_id, "id": attempt.id}
        if is_returned:
            await queries.REOPEN_RETURN.run(tx, **key, reason=reason, now=now)
        else:
            await queries.STOP_RETURN.run(tx, **key, reason=reason)
        await note(tx, order, "payment_not_given_back", f"{attempt.id}: {reason}", now)


async def _has_event(tx: Tx, order: Order, event: str, beginning: str) -> bool:
    """Whether the order's history has an event whose cause begins with ``beginning``."""
    rows = await service.history(tx, order.merchant_id, order.id)
    return any(row.event == event and row.cause.startswith(beginning) for row in rows)
