"""Applying the outcome of a payment attempt, as its gateway reports it."""

from decimal import Decimal
from typing import Final, Literal

import msgspec
import structlog

from opentill import rates
from opentill.core import money
from opentill.db.database import Tx
from opentill.gateways.model import PaymentOutcome, PaymentStatus
from opentill.orders import cards, transitions
from opentill.orders.model import (
    FINAL,
    UNDECIDED,
    AttemptStatus,
    Event,
    Order,
    PaymentAttempt,
)
from opentill.orders.order_history import note
from opentill.orders.payments import day_limits, epay_numbers, prepaid, queries
from opentill.orders.payments.confirmation import ReceivedPayment, confirm, count_ended
from opentill.orders.service import find_attempt, find_reported_attempt, lock
from opentill.orders.transitions import Change, NotLocked, can, transition

_log: Final = structlog.get_logger()

# An attempt is first queried this long after its creation, when the call to its gateway has surely
# ended.
FIRST_CHECK_MS: Final = 15_000
# New status of an attempt → after how many milliseconds its gateway is queried again.
CHECK_AFTER_MS: Final = {"ACTION_REQUIRED": 60_000, "PENDING": 2_000}
# Outcome → the status that the failed attempt gets, and the event of its order.
_FAILURES: Final[dict[PaymentStatus, tuple[AttemptStatus, Event]]] = {
    "DECLINED": ("DECLINED", "declined"),
    "UNREACHABLE": ("DECLINED", "declined"),
    "NOT_FOUND": ("DECLINED", "declined"),
    "REFUSED": ("REFUSED", "refused"),
    "VOIDED": ("VOIDED", "voided"),
}


async def apply_outcome(
    tx: Tx, merchant_id: str, attempt_id: str, outcome: PaymentOutcome, now: int, *, gateway: str
) -> PaymentAttempt:
    """Apply the outcome of an attempt, from a response, a callback or a query. Idempotent.

    ``gateway`` reports the outcome. Raises NotFound for an unknown attempt, and OfAnotherGateway.
    """
    attempt = await find_reported_attempt(tx, gateway, merchant_id, attempt_id)
    return await apply_to_attempt(tx, attempt, outcome, now)


async def apply_to_attempt(
    tx: Tx, attempt: PaymentAttempt, outcome: PaymentOutcome, now: int
) -> PaymentAttempt:
    """Apply the outcome that an attempt's own gateway reports, as ``apply_outcome`` does.

    ``attempt`` may be out of date: it is read again once its order is locked.
    """
    if outcome.status == "SUCCEEDED":
        await epay_numbers.lock_number(tx, attempt.merchant_id, attempt.order_id)
    order = await lock(tx, attempt.merchant_id, attempt.order_id)
    attempt = await find_attempt(tx, attempt.merchant_id, attempt.id)
    match outcome.status:
        case "SUCCEEDED":
            return await _apply_payment(tx, order, attempt, outcome, now)
        case "ACTION_REQUIRED" | "PENDING" as status:
            return await _apply_acceptance(tx, order, attempt, outcome, status, now)
        case _ if _is_failure(attempt, outcome, now):
            return await _apply_failure(tx, order, attempt, outcome, now)
        case _:
            # The worker queries an attempt again if the outcome is UNKNOWN, or if it is NOT_FOUND
            # and either the request may still arrive or the gateway has already reported on the
            # attempt.
            if not _is_unopened(attempt, outcome):
                _log.warning("attempt unknown", attempt=attempt.id, reason=outcome.reason)
            return attempt


def _is_unopened(attempt: PaymentAttempt, outcome: PaymentOutcome) -> bool:
    """Whether the provider does not know the attempt because the customer has not opened it yet.

    Alipay creates a trade only when the customer opens its page or scans its code.
    """
    return outcome.status == "NOT_FOUND" and attempt.status == "ACTION_REQUIRED"


def _is_failure(attempt: PaymentAttempt, outcome: PaymentOutcome, now: int) -> bool:
    """Whether an outcome means that the attempt failed.

    NOT_FOUND is a failure only of a SUBMITTED attempt whose call to the gateway has surely ended:
    until then the request may still arrive.
    """
    if outcome.status == "NOT_FOUND":
        return attempt.status == "SUBMITTED" and now - attempt.created_at >= FIRST_CHECK_MS
    return outcome.status in _FAILURES


async def write_attempt(
    tx: Tx,
    attempt: PaymentAttempt,
    status: AttemptStatus,
    outcome: PaymentOutcome,
    check_at: int | None,
    now: int,
) -> PaymentAttempt:
    """Write the status of an attempt and the fields of its outcome; return the attempt."""
    written = await queries.UPDATE_ATTEMPT.first(
        tx,
        merchant_id=attempt.merchant_id,
        id=attempt.id,
        status=status,
        provider_ref=outcome.provider_ref,
        action_url=outcome.action_url,
        qr_text=outcome.qr_text,
        reason=outcome.reason,
        check_at=check_at,
        now=now,
    )
    if status != attempt.status:
        count_ended(tx, attempt, status)
    return written or attempt


async def _apply_payment(
    tx: Tx, order: Order, attempt: PaymentAttempt, outcome: PaymentOutcome, now: int
) -> PaymentAttempt:
    """Apply a payment: it pays the order, is to be sent back, or waits if its amount differs."""
    if attempt.status in FINAL:
        if outcome.card and attempt.status == "SUCCEEDED" and attempt.card_last4 is None:
            # The report that confirmed the payment did not contain the card.
            await cards.store_card(tx, order, attempt, outcome.card)
        return attempt
    amount = outcome.amount
    if amount and (amount.minor, amount.currency) != (attempt.amount_minor, attempt.currency):
        reported = money.named(amount.minor, amount.currency)
        _log.error("amount differs", attempt=attempt.id, got=reported)
        if attempt.reason != "amount_differs":
            cause = f"{attempt.id}: {reported} instead of the amount due"
            await note(tx, order, "amount_differs", cause, now)
        differs = PaymentOutcome(status="UNKNOWN", reason="amount_differs")
        return await write_attempt(tx, attempt, attempt.status, differs, None, now)
    other_paid_id = await epay_numbers.find_other_paid_order(tx, order)
    if other_paid_id is None and can(order, "confirmed"):
        hkd = await _find_hkd_rate(tx, order, outcome)
        order = msgspec.structs.replace(order, hkd_exchange_rate=hkd)
        if not await confirm(tx, [ReceivedPayment(order, attempt, outcome)], now):
            raise NotLocked(order)
        return await find_attempt(tx, attempt.merchant_id, attempt.id)
    cause = f"{attempt.id} is given back"
    if other_paid_id is not None:
        cause += f": {other_paid_id} was paid under the same out_trade_no"
        order = await _close_unpaid(tx, order, other_paid_id, now)
    await note(tx, order, "duplicate_payment", cause, now)
    await prepaid.release(tx, order, attempt)
    await day_limits.count_again(tx, [attempt])
    return await write_attempt(tx, attempt, "DUPLICATE", outcome, now, now)


async def _close_unpaid(tx: Tx, order: Order, paid_order_id: str, now: int) -> Order:
    """Close an order whose Epay number another order paid, so that it is not paid too."""
    reason = f"{paid_order_id} was paid under the same out_trade_no"
    if can(order, "accepted"):
        order = await transition(tx, Change(order, "accepted", reason), now)
    if can(order, "expired"):
        order = await transition(tx, Change(order, "expired", reason, reason=reason), now)
    return order


async def _find_hkd_rate(tx: Tx, order: Order, outcome: PaymentOutcome) -> Decimal | None:
    """Return the order's rate to HKD at its opening, None unless the payment clears in HKD.

    If there was no rate at that time, the result is None too, because the rate is only displayed.
    """
    if outcome.clearing_currency != "HKD":
        return None
    if order.settled_currency == "HKD":
        return order.exchange_rate
    return await rates.find(tx, order.currency, "HKD", order.created_at)


async def _apply_acceptance(
    tx: Tx,
    order: Order,
    attempt: PaymentAttempt,
    outcome: PaymentOutcome,
    status: Literal["ACTION_REQUIRED", "PENDING"],
    now: int,
) -> PaymentAttempt:
    """Apply an outcome after which the customer must act, or the gateway decides later."""
    is_stale = attempt.status == "PENDING" and status == "ACTION_REQUIRED"
    if attempt.status not in UNDECIDED or is_stale or attempt.status == status:
        return attempt
    if attempt.status == "SUBMITTED" and order.status == "CREATING":
        accepted = await accept(tx, order, attempt, outcome, now)
        if accepted is None:
            raise NotLocked(order)
        return accepted
    return await write_attempt(tx, attempt, status, outcome, now + CHECK_AFTER_MS[status], now)


async def accept(
    tx: Tx, order: Order, attempt: PaymentAttempt, outcome: PaymentOutcome, now: int
) -> PaymentAttempt | None:
    """Apply an outcome that does not end a SUBMITTED attempt.

    The customer must act, or the gateway decides later. ``order`` has the status CREATING because
    of this attempt, and need not be locked. Writes nothing and returns None
    if the order changed since it was read, or if the outcome ends the attempt.
    """
    match outcome.status:
        case "ACTION_REQUIRED" | "PENDING" as status:
            accepted = msgspec.structs.replace(
                attempt,
                status=status,
                provider_ref=outcome.provider_ref,
                action_url=outcome.action_url,
                qr_text=outcome.qr_text,
                reason=outcome.reason,
                check_at=now + CHECK_AFTER_MS[status],
            )
            return await transitions.accept(tx, order, accepted, now)
        case _:
            return None


async def _apply_failure(
    tx: Tx, order: Order, attempt: PaymentAttempt, outcome: PaymentOutcome, now: int
) -> PaymentAttempt:
    """Apply a failed attempt: another attempt may pay the order, or the order is closed."""
    if attempt.status not in UNDECIDED:
        return attempt
    status, event = _FAILURES[outcome.status]
    written = await write_attempt(tx, attempt, status, outcome, None, now)
    if outcome.card is not None:
        await cards.store_declined(tx, written, outcome.card)
    await prepaid.release(tx, order, attempt)
    await day_limits.release(tx, attempt)
    reason = outcome.reason or outcome.status.lower()
    cause = f"{attempt.id}: {reason}"
    # A decline does not change an order that waits for another attempt at its gateway.
    waits_for_other = order.status == "CREATING" and attempt.status != "SUBMITTED"
    if can(order, event) and not (waits_for_other and event == "declined"):
        await transition(tx, Change(order, event, cause, reason=reason), now)
    else:
        await note(tx, order, event, cause, now)
    return written
