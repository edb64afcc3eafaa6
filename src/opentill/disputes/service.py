"""Open and end disputes, as a gateway or the operator reports.

Opening or ending a dispute locks its order first, so that the two always agree. Notes, evidence and
deadlines do not affect the order, and lock at most the dispute.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import msgspec
import structlog

from opentill import orders, webhooks
from opentill.core import money
from opentill.core.errors import Invalid, or_not_found
from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.core.notes import MOST_NOTES, NotesFull, clean_note
from opentill.db.database import Tx
from opentill.disputes import events, model, queries
from opentill.disputes.model import (
    BY_EVENT,
    REPORTED,
    Dispute,
    Event,
    Note,
    Status,
    Transition,
    Unmatched,
    transitions_to,
)
from opentill.disputes.unmatched import (
    close_matched,
    find_unmatched,
    is_newer,
    refusal_of_reopening,
    store,
)
from opentill.gateways.model import GatewayDisputeEvent
from opentill.orders import Change, Order, PaymentAttempt
from opentill.orders.statuses import Status as OrderStatus

_log: Final = structlog.get_logger()
_LISTED: Final = 500
_RETURNS_MONEY: Final = ("WON", "RECOVERED")


async def find(tx: Tx, merchant_id: str, dispute_id: str) -> Dispute:
    """Return a dispute. Raises NotFound."""
    return or_not_found(await queries.BY_ID.first(tx, merchant_id=merchant_id, id=dispute_id))


async def find_anywhere(tx: Tx, dispute_id: str) -> Dispute:
    """Return a dispute of any merchant, for the operator. Raises NotFound."""
    dispute = await queries.ANYWHERE.first(tx, id=dispute_id)
    return or_not_found(dispute, f"there is no dispute {dispute_id}")


async def search(tx: Tx, merchant_id: str | None, status: Status | None) -> list[Dispute]:
    """Return the latest disputes for the operator, newest first."""
    return await queries.SEARCH.all(tx, merchant_id=merchant_id, status=status, limit=_LISTED)


async def list_for_order(tx: Tx, merchant_id: str, order_id: str) -> list[Dispute]:
    """Return the disputes of an order, newest first."""
    return await queries.OF_ORDER.all(tx, merchant_id=merchant_id, order_id=order_id)


async def newest_of_orders(
    tx: Tx, merchant_id: str, order_ids: Sequence[str]
) -> dict[str, Dispute]:
    """Return the newest dispute of each order that has one."""
    rows = await queries.NEWEST_OF_ORDERS.all(tx, merchant_id=merchant_id, order_id=order_ids)
    return {row.order_id: row for row in rows}


async def list_notes(tx: Tx, dispute: Dispute) -> list[Note]:
    """Return a dispute's notes, oldest first."""
    return await queries.NOTES.all(tx, merchant_id=dispute.merchant_id, dispute_id=dispute.id)


async def add_note(
    tx: Tx,
    merchant_id: str,
    dispute_id: str,
    text: str,
    who: str,
    now: int,
    *,
    by_merchant: bool = False,
) -> Note:
    """Append a note, such as the evidence sent to the bank. Notes never change.

    ``by_merchant``: a member of the merchant wrote it. Raises NotFound, Invalid on ``note``, and
    NotesFull.
    """
    text = clean_note(text)
    # The lock keeps concurrent notes from getting the same number.
    dispute = or_not_found(await queries.LOCKED.first(tx, merchant_id=merchant_id, id=dispute_id))
    if len(await list_notes(tx, dispute)) >= MOST_NOTES:
        raise NotesFull
    note = await queries.ADD_NOTE.first(
        tx,
        merchant_id=merchant_id,
        dispute_id=dispute_id,
        now=now,
        who=who,
        note=text,
        by_merchant=by_merchant,
    )
    return or_not_found(note)


async def set_deadline(
    tx: Tx, merchant_id: str, dispute_id: str, respond_by: int, now: int
) -> Dispute:
    """Set the deadline for evidence (Unix ms). Raises NotFound, Invalid if the dispute ended."""
    dispute = await find(tx, merchant_id, dispute_id)
    changed = await queries.SET_RESPOND_BY.first(
        tx, merchant_id=merchant_id, id=dispute_id, respond_by=respond_by, now=now
    )
    if changed is None:
        raise Invalid("dispute", f"dispute must be open: this one is {dispute.status}")
    return changed


async def open_manually(
    tx: Tx,
    merchant_id: str,
    order_id: str,
    *,
    who: str,
    reason: str,
    now: int,
    amount_minor: int | None = None,
) -> Dispute:
    """Open a dispute that the operator reports; by default about all that no refund holds.

    Raises NotFound, and Invalid for an order that cannot be disputed or an amount that exceeds the
    remaining one.
    """
    order = await orders.lock(tx, merchant_id, order_id)
    if refusal := _refusal(order):
        raise Invalid("orderId", refusal)
    disputable_minor = order.amount_minor - order.refund_held_minor
    if amount_minor is not None and not 0 < amount_minor <= disputable_minor:
        most = money.show(disputable_minor, order.currency)
        raise Invalid("amount", f"amount must be from 0.01 to {most}, what is left of the order")
    attempt = await orders.find_attempt(tx, merchant_id, order.paid_attempt_id or "")
    dispute, _ = await _open(tx, order, attempt, _Report(reason, who, None, amount_minor), now)
    return dispute


async def decide(
    tx: Tx, merchant_id: str, dispute_id: str, event: Event, *, who: str, reason: str, now: int
) -> Dispute:
    """Record that a dispute was won or lost, or a loss recovered, as the operator reports.

    Raises NotFound, and Invalid for a transition that is not in the table.
    """
    order_id = (await find(tx, merchant_id, dispute_id)).order_id
    order = await orders.lock(tx, merchant_id, order_id)
    dispute = await find(tx, merchant_id, dispute_id)
    transition = BY_EVENT.get((dispute.status, event))
    if transition is None:
        raise Invalid("dispute", f"a dispute that is {dispute.status} cannot be {event}")
    cause = f"{dispute.id} by {who}: {reason}"
    after, _ = await _take(tx, order, dispute, transition, cause, now)
    return after


async def apply_outcome(
    tx: Tx, merchant_id: str, gateway_event: GatewayDisputeEvent, now: int, *, gateway: str
) -> Dispute | None:
    """Apply a gateway's event about a dispute. Idempotent; events may come in any order.

    An event that cannot be applied is recorded once in the order's history and stored as unmatched:

    - an event of a dispute whose order is unpaid, refunded or already disputed,
    - an event that contradicts an earlier one,
    - a newer event of a dispute that exists only as an unmatched event, once that was closed,
    - an event that returns money, once an operator has dismissed an unmatched event of its dispute.

    A loss that exceeds the dispute's amount is stored as well: see ``_took_too_little``.
    ``gateway`` signed the event. Returns the dispute, None if there is none. Raises NotFound for an
    unknown attempt, and OfAnotherGateway.
    """
    attempt = await orders.find_reported_attempt(tx, gateway, merchant_id, gateway_event.attempt_id)
    order = await orders.lock(tx, merchant_id, attempt.order_id)
    ref = gateway_event.dispute_ref or attempt.id
    dispute = await queries.BY_REF.first(
        tx, merchant_id=merchant_id, gateway=attempt.gateway, gateway_ref=ref
    )
    unmatched = await find_unmatched(tx, attempt, ref)
    current = dispute.status if dispute else None
    transitions = transitions_to(REPORTED[gateway_event.status], current)
    refusal = _refusal_of_event(order, attempt, dispute, unmatched, gateway_event)
    if dispute is not None and transitions and gateway_event.status in _RETURNS_MONEY:
        refusal = refusal or _refusal_of_return(unmatched)
    if refusal is not None or transitions is None:
        refusal = refusal or f"{dispute.id if dispute else ref} is {current}"
        if unmatched is None or not unmatched.was_closed or is_newer(gateway_event, unmatched):
            await _refuse(tx, order, attempt, gateway_event, now, refusal=refusal, dispute=dispute)
        return dispute
    amount = gateway_event.amount
    minor = amount.minor if amount.currency == order.currency else None
    respond_by = gateway_event.respond_by
    who = f"{attempt.gateway} {ref}"
    report = _Report(gateway_event.reason[:500], who, ref, minor, respond_by)
    for transition in transitions:
        if dispute is None:
            dispute, order = await _open(tx, order, attempt, report, now)
        else:
            cause = f"{dispute.id} by {report.who}"
            dispute, order = await _take(tx, order, dispute, transition, cause, now)
    if transitions and dispute is not None:
        await _compare_amounts(tx, order, dispute, gateway_event, now)
    if dispute is not None and (transitions or gateway_event.status == "LOST"):
        if _took_too_little(order, dispute, gateway_event):
            amount_text = money.named(dispute.amount_minor, dispute.currency)
            refusal = f"{dispute.id} took {amount_text}: refunds that have not succeeded held more"
            await store(tx, attempt, ref, gateway_event, now, refusal=refusal, dispute=dispute)
        else:
            await close_matched(tx, dispute, now)
    if dispute is not None and respond_by is not None and dispute.respond_by != respond_by:
        changed = await queries.SET_RESPOND_BY.first(
            tx, merchant_id=merchant_id, id=dispute.id, respond_by=respond_by, now=now
        )
        dispute = changed or dispute
    return dispute


def _refusal_of_event(
    order: Order,
    attempt: PaymentAttempt,
    dispute: Dispute | None,
    unmatched: Unmatched | None,
    gateway_event: GatewayDisputeEvent,
) -> str | None:
    """Return why an event cannot be applied now; ``unmatched`` is the dispute's unmatched event."""
    if dispute is not None:
        if dispute.order_id != order.id:
            return f"{dispute.id}, of another order, has this reference"
        return refusal_of_reopening(dispute, gateway_event)
    if unmatched is not None and unmatched.was_closed:
        return f"an earlier report was closed: {unmatched.was_closed}"
    return _refusal(order, attempt)


def _refusal_of_return(unmatched: Unmatched | None) -> str | None:
    """Return a refusal if an operator may have returned a dispute's money already, else None."""
    if unmatched is None or unmatched.dismissed_by is None:
        return None
    return f"an earlier report was closed: {unmatched.dismissed_by}"


async def _refuse(
    tx: Tx,
    order: Order,
    attempt: PaymentAttempt,
    gateway_event: GatewayDisputeEvent,
    now: int,
    *,
    refusal: str,
    dispute: Dispute | None,
) -> None:
    """Store an event that cannot be applied, and record it once in the order's history."""
    ref = gateway_event.dispute_ref or attempt.id
    _log.warning("dispute unmatched", order=order.id, dispute=ref, refusal=refusal)
    event = f"dispute_{REPORTED[gateway_event.status].lower()}_unmatched"
    await _note_once(tx, order, event, f"{ref}: {refusal}", now)
    await store(tx, attempt, ref, gateway_event, now, refusal=refusal, dispute=dispute)


async def _compare_amounts(
    tx: Tx, order: Order, dispute: Dispute, gateway_event: GatewayDisputeEvent, now: int
) -> None:
    """Record in the order's history if the gateway's amount differs from the dispute's."""
    reported = gateway_event.amount
    if (reported.minor, reported.currency) == (dispute.amount_minor, dispute.currency):
        return
    cause = (
        f"{dispute.id}: the gateway names {money.named(reported.minor, reported.currency)},"
        f" disputed is {money.named(dispute.amount_minor, dispute.currency)}"
    )
    await _note_once(tx, order, "dispute_amount_differs", cause, now)


def _took_too_little(order: Order, dispute: Dispute, gateway_event: GatewayDisputeEvent) -> bool:
    """Whether a lost dispute cost more at the gateway than the ledger took from the merchant.

    A dispute does not take the part of the order that refunds hold when it opens. If such a refund
    fails, the merchant gets its part back, although the bank has taken it.
    """
    reported = gateway_event.amount
    is_more = reported.currency != order.currency or dispute.amount_minor < _round(reported)
    taken_minor = dispute.amount_minor + order.refunded_minor
    return dispute.status == "LOST" and is_more and taken_minor < order.amount_minor


def _round(amount: Money) -> int:
    """Return an amount rounded to hundredths, the precision of all our amounts."""
    return money.times(amount.minor, Decimal(1), amount.currency, amount.currency)


async def _note_once(tx: Tx, order: Order, event: str, cause: str, now: int) -> None:
    """Add an event to the order's history, unless it is there already with the same cause."""
    lines = await orders.history(tx, order.merchant_id, order.id)
    if (event, cause) not in [(line.event, line.cause) for line in lines]:
        await orders.note(tx, order, event, cause, now)


def _refusal(order: Order, attempt: PaymentAttempt | None = None) -> str | None:
    """Return why an order cannot be disputed now, None if it can."""
    if attempt is not None and order.paid_at and attempt.id != order.paid_attempt_id:
        return f"orderId must be paid by the disputed attempt, not by {order.paid_attempt_id}"
    if not orders.can(order, "disputed"):
        return f"orderId must be an order that is PAID or SETTLED: this one is {order.status}"
    return None


class _Report(msgspec.Struct, frozen=True):
    """A report that a payment is disputed: the reason, and who reports it.

    ``gateway_ref`` is the provider's id of the dispute, None if the operator opens it.
    ``amount_minor`` is in the order's currency, None for everything not refunded.
    """

    reason: str
    who: str
    gateway_ref: str | None
    amount_minor: int | None
    respond_by: int | None = None


async def _open(
    tx: Tx, order: Order, attempt: PaymentAttempt, report: _Report, now: int
) -> tuple[Dispute, Order]:
    """Open a dispute of a locked order, of at most the part that no refund holds."""
    amount = disputable_minor = order.amount_minor - order.refund_held_minor
    if report.amount_minor is not None:
        amount = max(0, min(_round(Money(report.amount_minor, order.currency)), disputable_minor))
    dispute = await queries.INSERT.one(
        tx,
        merchant_id=order.merchant_id,
        id=new_id("dp"),
        order_id=order.id,
        attempt_id=attempt.id,
        gateway=attempt.gateway,
        gateway_ref=report.gateway_ref,
        amount_minor=amount,
        currency=order.currency,
        debit_minor=model.debit(order, amount),
        fee_minor=0 if order.paid_directly else order.dispute_fee_minor,
        debit_currency=order.settled_currency,
        disputed_from=order.status,
        reason=report.reason,
        respond_by=report.respond_by,
        now=now,
    )
    transition = BY_EVENT[None, "opened"]
    await _emit(tx, order, dispute, transition, now)
    cause = f"{dispute.id} by {report.who}: {report.reason}"
    change = Change(order, transition.order_event, cause, posted=model.opened(dispute))
    return dispute, await orders.transition(tx, change, now)


async def _emit(tx: Tx, order: Order, dispute: Dispute, transition: Transition, now: int) -> None:
    """Emit the event of a transition; ``order`` is the dispute's order before the transition."""
    order = await orders.with_paid_livemode(tx, order)
    await webhooks.emit(tx, [events.event_of(order, dispute, transition, now)])


async def _take(
    tx: Tx, order: Order, dispute: Dispute, transition: Transition, cause: str, now: int
) -> tuple[Dispute, Order]:
    """Take a transition of a dispute whose order is locked."""
    offset = dispute.offset_minor
    if transition.event == "lost" and order.reserve_status == "HELD":
        offset = min(order.reserve_minor, dispute.loss_minor)
    after = await queries.TRANSITION.one(
        tx,
        merchant_id=dispute.merchant_id,
        id=dispute.id,
        source=dispute.status,
        target=transition.target,
        now=now,
        offset_minor=offset,
    )
    await _emit(tx, order, after, transition, now)
    match transition.event:
        case "won":
            posted, back_to = model.won(dispute), dispute.disputed_from
            change = Change(order, transition.order_event, cause, posted=posted, back_to=back_to)
        case "lost":
            change = _loss(order, after, cause)
        case _:
            change = await _recovery(tx, order, after, cause, now)
    order = await orders.transition(tx, change, now)
    # A refund of the whole order was in progress when the dispute opened, and has succeeded since.
    if order.refunded_minor == order.amount_minor and orders.can(order, "refunded_in_full"):
        order = await orders.transition(tx, Change(order, "refunded_in_full", dispute.id), now)
    return after, order


def _loss(order: Order, dispute: Dispute, cause: str) -> Change:
    """Return the order's transition by a lost dispute; the reserve covers a part of the loss."""
    offset = dispute.offset_minor
    released = order.reserve_minor - offset if offset else 0
    charged = msgspec.structs.replace(
        order,
        charged_back_minor=order.charged_back_minor + dispute.loss_minor,
        reserve_status="OFFSET" if offset else order.reserve_status,
    )
    return Change(charged, "dispute_lost", cause, posted=model.lost(dispute, offset, released))


async def _recovery(tx: Tx, order: Order, dispute: Dispute, cause: str, now: int) -> Change:
    """Return the order's transition by a recovery, after settling the order's pending money."""
    # Settle the pending money first, since the recovery pays to available.
    if order.settle_at is not None:
        await orders.settle_one(tx, order.merchant_id, order.id, now, dispute.id)
        order = await orders.lock(tx, order.merchant_id, order.id)
    offset = dispute.offset_minor
    recovered = msgspec.structs.replace(
        order,
        charged_back_minor=order.charged_back_minor - dispute.loss_minor,
        reserve_minor=offset or order.reserve_minor,
        reserve_status="HELD" if offset else order.reserve_status,
    )
    # Money that went to the merchant directly is not in a balance, so the order never settles.
    back_to: OrderStatus | None = "PAID" if order.paid_directly else None
    posted = model.recovered(dispute)
    return Change(recovered, "recovered", cause, posted=posted, back_to=back_to)
