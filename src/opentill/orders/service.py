"""The life of an order: taking steps, and hearing what became of its attempts."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import structlog

from opentill import ledger, rates, webhooks
from opentill.core.errors import Invalid, NotFound
from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.gateways.model import Method, OfAnotherGateway, PaymentOutcome, RefundOutcome
from opentill.ledger import Movement
from opentill.orders import events, queries
from opentill.orders.fees import with_fee_of
from opentill.orders.livemode import of_gateway
from opentill.orders.model import (
    BACK,
    BY_EVENT,
    FINAL,
    UNDECIDED,
    AttemptStatus,
    Event,
    Line,
    Order,
    PaymentAttempt,
    Status,
    due_at,
    received,
)

_log: Final = structlog.get_logger()

FIRST_CHECK_MS: Final = 15_000  # longer than any call to a gateway lasts
ACTION_CHECK_MS: Final = 60_000
PENDING_CHECK_MS: Final = 2_000


async def find(tx: Tx, merchant_id: str, order_id: str) -> Order:
    """Return an order. Raises NotFound."""
    order = await queries.BY_ID.first(tx, merchant_id=merchant_id, id=order_id)
    if order is None:
        raise NotFound
    return order


async def exists(tx: Tx, merchant_id: str, order_id: str) -> bool:
    """Tell whether a merchant has an order."""
    return bool(await queries.EXISTS.get(tx, merchant_id=merchant_id, id=order_id))


async def find_anywhere(tx: Tx, order_id: str) -> Order:
    """Return an order of whichever merchant, for the operator. Raises NotFound."""
    order = await queries.ANYWHERE.first(tx, id=order_id)
    if order is None:
        raise NotFound(reason=f"there is no order {order_id}")
    return order


async def history(tx: Tx, merchant_id: str, order_id: str) -> list[Line]:
    """Return all that happened to an order, oldest first."""
    return await queries.HISTORY.all(tx, merchant_id=merchant_id, order_id=order_id)


async def last_attempt(tx: Tx, merchant_id: str, order_id: str) -> PaymentAttempt | None:
    """Return the latest attempt to pay an order, None if nobody tried."""
    return await queries.LAST_ATTEMPT.first(tx, merchant_id=merchant_id, order_id=order_id)


async def find_attempt(tx: Tx, merchant_id: str, attempt_id: str) -> PaymentAttempt:
    """Return an attempt. Raises NotFound."""
    attempt = await queries.ATTEMPT.first(tx, merchant_id=merchant_id, id=attempt_id)
    if attempt is None:
        raise NotFound
    return attempt


async def attempt_of(tx: Tx, gateway: str, merchant_id: str, attempt_id: str) -> PaymentAttempt:
    """Return an attempt that went through a gateway, for what that gateway says of it.

    All that gateways say of payments, refunds and disputes comes by here (decision 0032). Raises
    NotFound, and OfAnotherGateway for an attempt that went elsewhere.
    """
    attempt = await find_attempt(tx, merchant_id, attempt_id)
    if attempt.gateway != gateway:
        raise OfAnotherGateway(gateway, attempt.gateway)
    return attempt


async def lock(tx: Tx, merchant_id: str, order_id: str) -> Order:
    """Return an order and keep everyone else from changing it until the end of ``tx``."""
    order = await queries.LOCKED.first(tx, merchant_id=merchant_id, id=order_id)
    if order is None:
        raise NotFound
    return order


async def transition(  # noqa: PLR0913 - a transition and what becomes known with it
    tx: Tx,
    order: Order,
    event: Event,
    cause: str,
    now: int,
    *,
    method: Method | None = None,
    attempt: PaymentAttempt | None = None,
    email: str | None = None,
    name: str | None = None,
    payer_ip: str | None = None,
    hkd_rate: Decimal | None = None,
    back_to: Status | None = None,
    posted: Sequence[Movement] | None = None,
    reason: str | None = None,
    livemode: bool | None = None,
) -> Order:
    """Take a transition of a locked order: new status, history, session, events, postings.

    The one place that assigns an order's status (``settlement`` assigns those of a batch).
    ``posted``: the postings of another feature, all in the table. ``back_to``: where a won dispute
    puts the order. ``method`` decides the fee. ``reason``: what the merchant is told of the end, if
    not the cause. Raises Invalid on ``orderId`` for a transition that is not in the table.
    """
    row = BACK.get(back_to) if back_to else BY_EVENT.get((order.status, event))
    if row is None or (row.source, row.event) != (order.status, event):
        raise Invalid("orderId", f"an order that is {order.status} cannot be {event}")
    paid = event == "confirmed"
    if paid and method:
        order = with_fee_of(order, method)
    moves = received(order) if paid else list(posted or ())
    if any(move.type not in row.postings for move in moves):
        msg = f"{event} cannot post {[move.type for move in moves]}"
        raise ValueError(msg)
    due = due_at(now, order.settlement_delay_days, order.settlement_calendar) if paid else None
    moved = await queries.STEP.one(
        tx,
        merchant_id=order.merchant_id,
        id=order.id,
        source=row.source,
        target=row.target,
        now=now,
        event=event,
        cause=cause,
        session_status=row.session,
        paid_at=now if paid else None,
        payment_method=method,
        paid_attempt_id=attempt.id if paid and attempt else None,
        customer_email=email,
        customer_name=name,
        payer_ip=payer_ip,
        due_at=due,
        platform_fee_rate=order.platform_fee_rate if paid else None,
        platform_fee_minor=order.platform_fee_minor if paid else None,
        net_settled_minor=order.net_settled_minor if paid else None,
        hkd_exchange_rate=hkd_rate,
        livemode=livemode,
    )
    emitted = [
        events.event_of(moved, type_, cause if reason is None else reason, now)
        for type_ in row.emits
        if type_ != "order.settled" or order.settled_at is None
    ]
    await webhooks.emit(tx, emitted)
    if moves:
        await ledger.post(tx, order.merchant_id, order.settled_currency, moves, now)
    return moved


def can(order: Order, event: Event) -> bool:
    """Tell whether the table has a step from where the order stands."""
    return (order.status, event) in BY_EVENT


async def note(tx: Tx, order: Order, event: str, cause: str, now: int) -> None:
    """Write something that happened to an order, without a step, into its history."""
    await queries.NOTE.run(
        tx, merchant_id=order.merchant_id, id=order.id, now=now, event=event, cause=cause
    )


async def merchant_of(tx: Tx, public_id: str) -> str:
    """Return whose a session or attempt is. Raises NotFound."""
    merchant_id = await queries.MERCHANT_OF.get(tx, id=public_id)
    if merchant_id is None:
        raise NotFound
    return merchant_id


async def start_attempt(  # noqa: PLR0913 - what an attempt is
    tx: Tx,
    order: Order,
    *,
    gateway: str,
    method: Method,
    email: str,
    name: str | None,
    locale: str,
    payer_ip: str,
    now: int,
) -> PaymentAttempt:
    """Write down that a gateway is about to be asked for an order's payment.

    To be committed before the call: whatever happens then, the worker asks the gateway by the
    attempt's id until it knows.
    """
    attempt = await queries.INSERT_ATTEMPT.one(
        tx,
        merchant_id=order.merchant_id,
        id=new_id("att"),
        order_id=order.id,
        gateway=gateway,
        method=method,
        status="SUBMITTED",
        amount_minor=order.amount_minor,
        currency=order.currency,
        locale=locale,
        payer_ip=payer_ip,
        check_at=now + FIRST_CHECK_MS,
        now=now,
    )
    cause = f"{attempt.id} by {method} through {gateway}"
    await transition(
        tx, order, "submitted", cause, now, email=email, name=name or "", payer_ip=payer_ip
    )
    return attempt


async def apply_outcome(  # noqa: PLR0911 - a row for each answer
    tx: Tx, merchant_id: str, attempt_id: str, outcome: PaymentOutcome, now: int, *, gateway: str
) -> PaymentAttempt:
    """Apply what a gateway says of an attempt, wherever it says it and however often.

    ``gateway`` is the one that says it. Raises NotFound for an attempt that is not there, and
    OfAnotherGateway.
    """
    seen = await attempt_of(tx, gateway, merchant_id, attempt_id)
    order = await lock(tx, merchant_id, seen.order_id)
    attempt = await queries.ATTEMPT.first(tx, merchant_id=merchant_id, id=attempt_id) or seen
    match outcome.status:
        case "SUCCEEDED":
            return await _received(tx, order, attempt, outcome, now)
        case "ACTION_REQUIRED":
            return await _accepted(tx, order, attempt, outcome, "ACTION_REQUIRED", now)
        case "PENDING":
            return await _accepted(tx, order, attempt, outcome, "PENDING", now)
        case "DECLINED" | "UNREACHABLE":
            return await _ended(tx, order, attempt, outcome, "DECLINED", "declined", now)
        # Only once the call has surely ended: before, it may be about to arrive.
        case "NOT_FOUND" if (
            attempt.status == "SUBMITTED" and now - attempt.created_at >= FIRST_CHECK_MS
        ):
            return await _ended(tx, order, attempt, outcome, "DECLINED", "declined", now)
        case "REFUSED":
            return await _ended(tx, order, attempt, outcome, "REFUSED", "refused", now)
        case "VOIDED":
            return await _ended(tx, order, attempt, outcome, "VOIDED", "voided", now)
        case _:  # UNKNOWN, or NOT_FOUND of what the gateway once knew: ask again
            _log.warning("attempt unknown", attempt=attempt.id, reason=outcome.reason)
            return attempt


async def _write(
    tx: Tx,
    attempt: PaymentAttempt,
    status: AttemptStatus,
    outcome: PaymentOutcome,
    check_at: int | None,
    now: int,
) -> PaymentAttempt:
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
    return written or attempt


async def _received(
    tx: Tx, order: Order, attempt: PaymentAttempt, outcome: PaymentOutcome, now: int
) -> PaymentAttempt:
    """Money came in. It is never lost: it pays the order, or it is given back."""
    if attempt.status in FINAL:
        return attempt
    amount = outcome.amount
    if amount and (amount.minor, amount.currency) != (attempt.amount_minor, attempt.currency):
        got = _named(amount)
        _log.error("amount differs", attempt=attempt.id, got=got)
        if attempt.reason != "amount_differs":
            cause = f"{attempt.id}: {got} instead of the amount due"
            await note(tx, order, "amount_differs", cause, now)
        differs = PaymentOutcome(status="UNKNOWN", reason="amount_differs")
        return await _write(tx, attempt, attempt.status, differs, None, now)
    cause = f"{attempt.id} confirmed by {attempt.gateway}"
    if (order.status, "confirmed") in BY_EVENT:
        paid = await _write(tx, attempt, "SUCCEEDED", outcome, None, now)
        method = outcome.method or attempt.method
        hkd = await _hkd_rate(tx, order, outcome)
        await transition(
            tx, order, "confirmed", cause, now,
            method=method, attempt=attempt, payer_ip=attempt.payer_ip, hkd_rate=hkd,
            livemode=of_gateway(attempt.gateway),
        )  # fmt: skip
        return paid
    await note(tx, order, "duplicate_payment", f"{attempt.id} is given back", now)
    return await _write(tx, attempt, "DUPLICATE", outcome, now, now)


def _named(amount: Money) -> str:
    """Write what a gateway names: any currency, and fractions that two decimals cannot show."""
    try:
        return f"{amount.text} {amount.currency}"
    except (KeyError, ValueError):
        return f"{amount.minor} minor units of {amount.currency}"


async def _hkd_rate(tx: Tx, order: Order, outcome: PaymentOutcome) -> Decimal | None:
    """What the order's currency was worth in HKD when it was opened, if it is cleared in HKD.

    Shown, not reckoned with: None where no rate was known.
    """
    if outcome.clearing_currency != "HKD":
        return None
    return await rates.find(tx, order.currency, "HKD", order.created_at)


async def _accepted(
    tx: Tx,
    order: Order,
    attempt: PaymentAttempt,
    outcome: PaymentOutcome,
    status: AttemptStatus,
    now: int,
) -> PaymentAttempt:
    """The customer must act, or the answer comes later."""
    stale = attempt.status == "PENDING" and status == "ACTION_REQUIRED"
    if attempt.status not in UNDECIDED or stale or attempt.status == status:
        return attempt
    wait = ACTION_CHECK_MS if status == "ACTION_REQUIRED" else PENDING_CHECK_MS
    written = await _write(tx, attempt, status, outcome, now + wait, now)
    if attempt.status == "SUBMITTED" and order.status == "CREATING":
        await transition(tx, order, "accepted", attempt.id, now)
    return written


async def _ended(
    tx: Tx,
    order: Order,
    attempt: PaymentAttempt,
    outcome: PaymentOutcome,
    status: AttemptStatus,
    event: Event,
    now: int,
) -> PaymentAttempt:
    """The attempt came to nothing: the customer may try again, or not."""
    if attempt.status not in UNDECIDED:
        return attempt
    written = await _write(tx, attempt, status, outcome, None, now)
    reason = outcome.reason or outcome.status.lower()
    cause = f"{attempt.id}: {reason}"
    # Another attempt may be on its way while this one ends: an order waits for the one submitted.
    waits_for_other = order.status == "CREATING" and attempt.status != "SUBMITTED"
    if (order.status, event) in BY_EVENT and not (waits_for_other and event == "declined"):
        await transition(tx, order, event, cause, now, reason=reason)
    else:
        await note(tx, order, event, cause, now)
    return written


async def given_back(tx: Tx, attempt: PaymentAttempt, outcome: RefundOutcome, now: int) -> None:
    """Take in what the attempt's gateway says of giving a duplicate payment back.

    If it refuses for good it is not asked again: an operator finds it in the order's history.
    """
    order = await lock(tx, attempt.merchant_id, attempt.order_id)
    current = await queries.ATTEMPT.first(tx, merchant_id=attempt.merchant_id, id=attempt.id)
    if current is None or current.status != "DUPLICATE":
        return
    if outcome.status == "SUCCEEDED":
        done = PaymentOutcome(status="SUCCEEDED")
        await _write(tx, current, "GIVEN_BACK", done, None, now)
        cause = f"{attempt.id} {outcome.provider_ref}".strip()
        await note(tx, order, "payment_given_back", cause, now)
    elif outcome.status == "REFUSED" and current.check_at is not None:
        _log.error("duplicate not given back", attempt=attempt.id, reason=outcome.reason)
        reason = outcome.reason or "refused"
        await queries.STOP_GIVING_BACK.run(
            tx, merchant_id=attempt.merchant_id, id=attempt.id, reason=reason, now=now
        )
        cause = f"{attempt.id}: {reason}"
        await note(tx, order, "payment_not_given_back", cause, now)


async def confirm_manually(
    tx: Tx,
    merchant_id: str,
    order_id: str,
    who: str,
    reason: str,
    now: int,
    *,
    livemode: bool | None = None,
) -> Order:
    """Say as the operator that the money of an order arrived, for example by bank transfer.

    ``livemode``: whether real money can be paid in this deployment; events say it too.
    """
    order = await lock(tx, merchant_id, order_id)
    if (order.status, "confirmed") not in BY_EVENT:
        raise Invalid("orderId", f"an order that is {order.status} cannot be confirmed")
    waiting = await queries.BY_HAND.first(tx, merchant_id=merchant_id, order_id=order.id)
    if waiting is not None:
        come = PaymentOutcome(status="SUCCEEDED")
        attempt: PaymentAttempt | None = await _write(tx, waiting, "SUCCEEDED", come, None, now)
    else:
        attempt = await queries.INSERT_ATTEMPT.one(
            tx,
            merchant_id=merchant_id,
            id=new_id("att"),
            order_id=order.id,
            gateway="manual",
            method="BANK_TRANSFER",
            status="SUCCEEDED",
            amount_minor=order.amount_minor,
            currency=order.currency,
            locale="en",
            payer_ip=order.payer_ip,
            check_at=None,
            now=now,
        )
    cause = f"confirmed by {who}: {reason}"
    return await transition(
        tx, order, "confirmed", cause, now,
        method="BANK_TRANSFER", attempt=attempt, livemode=livemode,
    )  # fmt: skip


async def revoke_manually(
    tx: Tx, merchant_id: str, order_id: str, who: str, reason: str, now: int
) -> Order:
    """Void an unpaid order as the operator: nobody can pay it any more."""
    order = await lock(tx, merchant_id, order_id)
    return await transition(tx, order, "voided", f"revoked by {who}: {reason}", now, reason=reason)
