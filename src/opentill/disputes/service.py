"""What can be done with disputes: open and end them, as a gateway or the operator reports.

Whoever opens or ends a dispute has locked its order first, so that the two always agree. Notes,
evidence and the deadline of one say nothing about its order, and lock at most the dispute.
"""

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
from opentill.db.database import Db, Tx
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
from opentill.disputes.unmatched import is_new, keep, last_kept, matched, why_not_again
from opentill.gateways.model import GatewayDisputeEvent
from opentill.orders import Change, Order, PaymentAttempt

_log: Final = structlog.get_logger()
_LISTED: Final = 500
_GIVES_BACK: Final = ("WON", "RECOVERED")  # what the dispute took
MOST_COUNTED: Final = 100


async def find(tx: Tx, merchant_id: str, dispute_id: str) -> Dispute:
    """Return a dispute. Raises NotFound."""
    return or_not_found(await queries.BY_ID.first(tx, merchant_id=merchant_id, id=dispute_id))


async def find_anywhere(tx: Tx, dispute_id: str) -> Dispute:
    """Return a dispute of whichever merchant, for the operator. Raises NotFound."""
    found = await queries.ANYWHERE.first(tx, id=dispute_id)
    return or_not_found(found, f"there is no dispute {dispute_id}")


async def search(tx: Tx, merchant_id: str | None, status: Status | None) -> list[Dispute]:
    """Return the latest disputes for the operator, newest first."""
    return await queries.SEARCH.all(tx, merchant_id=merchant_id, status=status, limit=_LISTED)


async def of_order(tx: Tx, merchant_id: str, order_id: str) -> list[Dispute]:
    """Return the disputes of an order, newest first."""
    return await queries.OF_ORDER.all(tx, merchant_id=merchant_id, order_id=order_id)


async def count_open(tx: Tx, merchant_id: str) -> int:
    """Return how many of a merchant's disputes are open; MOST_COUNTED stands for more too."""
    return await queries.OPEN.get(tx, merchant_id=merchant_id, limit=MOST_COUNTED) or 0


async def notes(tx: Tx, dispute: Dispute) -> list[Note]:
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
    """Append a note, such as the evidence sent to the bank; it is never changed afterwards.

    ``by_merchant``: a member of the merchant writes it. Raises NotFound, Invalid on ``note``, and
    NotesFull.
    """
    text = clean_note(text)
    # The lock numbers its notes one by one.
    dispute = or_not_found(await queries.LOCKED.first(tx, merchant_id=merchant_id, id=dispute_id))
    if len(await notes(tx, dispute)) >= MOST_NOTES:
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
    """Name until when evidence counts (Unix ms). Raises NotFound, and Invalid unless it is open."""
    dispute = await find(tx, merchant_id, dispute_id)
    set_ = await queries.SET_RESPOND_BY.first(
        tx, merchant_id=merchant_id, id=dispute_id, respond_by=respond_by, now=now
    )
    if set_ is None:
        raise Invalid("dispute", f"dispute must be open: this one is {dispute.status}")
    return set_


async def page(
    db: Db,
    merchant_id: str,
    status: Status | None,
    within: tuple[int, int],
    number: int,
    size: int,
) -> tuple[list[Dispute], int]:
    """Return a page (from 1) of a merchant's disputes, and how many there are in all.

    ``within`` are inclusive Unix ms of their opening. With a status, newest first; without one,
    those that are open come before all others.
    """
    filters = {} if status is None else {"status": status}
    lists = queries.LISTS[tuple(filters)]
    of_list = {"merchant_id": merchant_id, "since": within[0], "until": within[1], **filters}
    rows = queries.OPEN_FIRST if status is None else lists.newest
    async with db.snapshot() as tx:
        total = await lists.counted.get(tx, **of_list) or 0
        found = await rows.all(tx, **of_list, limit=size, offset=(number - 1) * size)
    return found, total


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
    """Open a dispute as the operator; without an amount, of all that is left of the order.

    Raises NotFound, and Invalid for an order that cannot be disputed or an amount that is more
    than what is left.
    """
    order = await orders.lock(tx, merchant_id, order_id)
    if refusal := _refusal(order):
        raise Invalid("orderId", refusal)
    left = order.amount_minor - order.refund_held_minor
    if amount_minor is not None and not 0 < amount_minor <= left:
        most = money.show(left, order.currency)
        raise Invalid("amount", f"amount must be from 0.01 to {most}, what is left of the order")
    attempt = await orders.find_attempt(tx, merchant_id, order.paid_attempt_id or "")
    opened, _ = await _open(tx, order, attempt, _Report(reason, who, None, amount_minor), now)
    return opened


async def decide(
    tx: Tx, merchant_id: str, dispute_id: str, event: Event, *, who: str, reason: str, now: int
) -> Dispute:
    """Record as the operator that a dispute is won or lost, or that a lost one was recovered.

    Raises NotFound, and Invalid for a transition that is not in the table.
    """
    seen = await find(tx, merchant_id, dispute_id)
    order = await orders.lock(tx, merchant_id, seen.order_id)
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
    """Apply a gateway's event about a dispute, however often and in whatever order events come.

    An event that cannot be applied is noted once in the order's history, stored as unmatched, and
    changes nothing else: a dispute of an order that is not paid, is refunded or disputed already,
    an event that contradicts what was applied before, and a newer one of a dispute that an operator
    has dismissed (of a known one only what gives money back). A loss that is more than the dispute
    took is stored too: see ``_took_too_little``. ``gateway`` is the one that signed the event.
    Returns the dispute, None if there is none. Raises NotFound for an unknown attempt, and
    OfAnotherGateway.
    """
    attempt = await orders.find_reported_attempt(tx, gateway, merchant_id, gateway_event.attempt_id)
    order = await orders.lock(tx, merchant_id, attempt.order_id)
    ref = gateway_event.dispute_ref or attempt.id
    dispute = await queries.BY_REF.first(
        tx, merchant_id=merchant_id, gateway=attempt.gateway, gateway_ref=ref
    )
    kept = await last_kept(tx, attempt, ref)
    current = dispute.status if dispute else None
    transitions = transitions_to(REPORTED[gateway_event.status], current)
    refusal = _why_not(order, attempt, dispute, kept, gateway_event)
    if dispute is not None and transitions and gateway_event.status in _GIVES_BACK:
        refusal = refusal or _why_not_given_back(kept)
    if refusal is not None or transitions is None:
        why = refusal or f"{dispute.id if dispute else ref} is {current}"
        if kept is None or not kept.was_closed or is_new(kept, gateway_event):
            await _refuse(tx, order, attempt, gateway_event, now, why=why, known=dispute)
        return dispute
    amount = gateway_event.amount
    named = amount.minor if amount.currency == order.currency else None
    by = gateway_event.respond_by
    report = _Report(gateway_event.reason[:500], f"{attempt.gateway} {ref}", ref, named, by)
    for transition in transitions:
        if dispute is None:
            dispute, order = await _open(tx, order, attempt, report, now)
        else:
            cause = f"{dispute.id} by {report.who}"
            dispute, order = await _take(tx, order, dispute, transition, cause, now)
    if transitions and dispute is not None:
        await _compare(tx, order, dispute, gateway_event, now)
    if dispute is not None and (transitions or gateway_event.status == "LOST"):
        if _took_too_little(order, dispute, gateway_event):
            why = f"{dispute.id} took {_shown(dispute)}: refunds that have not succeeded held more"
            await keep(tx, attempt, ref, gateway_event, now, refusal=why, known=dispute)
        else:
            await matched(tx, dispute, now)
    if dispute is not None and by is not None and dispute.respond_by != by:
        ids = {"merchant_id": merchant_id, "id": dispute.id}
        dispute = await queries.SET_RESPOND_BY.first(tx, **ids, respond_by=by, now=now) or dispute
    return dispute


def _why_not(
    order: Order,
    attempt: PaymentAttempt,
    dispute: Dispute | None,
    kept: Unmatched | None,
    gateway_event: GatewayDisputeEvent,
) -> str | None:
    """Return why no event of a dispute can be applied to its order now, None if one can.

    ``kept`` is the last event of the dispute that was stored as unmatched.
    """
    if dispute is not None:
        is_of_order = dispute.order_id == order.id
        if not is_of_order:
            return f"{dispute.id}, of another order, has this reference"
        return why_not_again(dispute, gateway_event)
    if kept is not None and kept.was_closed:
        return f"an earlier report was closed: {kept.was_closed}"
    return _refusal(order, attempt)


def _why_not_given_back(kept: Unmatched | None) -> str | None:
    """Return why a known dispute gives no money back now: an operator may have done so already."""
    if kept is None or kept.dismissed_by is None:
        return None
    return f"an earlier report was closed: {kept.dismissed_by}"


async def _refuse(
    tx: Tx,
    order: Order,
    attempt: PaymentAttempt,
    gateway_event: GatewayDisputeEvent,
    now: int,
    *,
    why: str,
    known: Dispute | None,
) -> None:
    """Store a gateway event that cannot be applied, and note it once in the order's history."""
    ref = gateway_event.dispute_ref or attempt.id
    _log.warning("dispute unmatched", order=order.id, dispute=ref, refusal=why)
    event = f"dispute_{REPORTED[gateway_event.status].lower()}_unmatched"
    await _note_once(tx, order, event, f"{ref}: {why}", now)
    await keep(tx, attempt, ref, gateway_event, now, refusal=why, known=known)


async def _compare(
    tx: Tx, order: Order, dispute: Dispute, gateway_event: GatewayDisputeEvent, now: int
) -> None:
    """Note it if the gateway reports another amount than the dispute has."""
    named = gateway_event.amount
    if (named.minor, named.currency) == (dispute.amount_minor, dispute.currency):
        return
    text = money.named(named.minor, named.currency)
    cause = f"{dispute.id}: the gateway names {text}, disputed is {_shown(dispute)}"
    await _note_once(tx, order, "dispute_amount_differs", cause, now)


def _shown(dispute: Dispute) -> str:
    return money.named(dispute.amount_minor, dispute.currency)


def _took_too_little(order: Order, dispute: Dispute, gateway_event: GatewayDisputeEvent) -> bool:
    """Return whether the gateway lost more by a dispute than the ledger did.

    So it is where refunds held a part of the order when the dispute opened, until they succeed: a
    refund that fails gives its part back to the merchant, though the bank has taken it.
    """
    named = gateway_event.amount
    is_more = named.currency != order.currency or dispute.amount_minor < _whole(named)
    taken = dispute.amount_minor + order.refunded_minor
    return dispute.status == "LOST" and is_more and taken < order.amount_minor


def _whole(named: Money) -> int:
    """Return an amount in whole hundredths, as everything that is shown."""
    return money.times(named.minor, Decimal(1), named.currency, named.currency)


async def _note_once(tx: Tx, order: Order, event: str, cause: str, now: int) -> None:
    """Note what a gateway reports, unless the order's history has it already."""
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
    """That a payment is disputed: why, and who says so.

    ``gateway_ref`` is the provider's name of the dispute, None where the operator opens it.
    ``amount_minor`` is in the order's currency, None for all that is left.
    """

    reason: str
    who: str
    gateway_ref: str | None
    amount_minor: int | None
    respond_by: int | None = None


async def _open(
    tx: Tx, order: Order, attempt: PaymentAttempt, report: _Report, now: int
) -> tuple[Dispute, Order]:
    """Open a dispute of a locked order, of at most what no refund holds."""
    amount = left = order.amount_minor - order.refund_held_minor
    if report.amount_minor is not None:
        amount = max(0, min(_whole(Money(report.amount_minor, order.currency)), left))
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
        fee_minor=order.dispute_fee_minor,
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
    """Emit the event of a transition; ``order`` is as it was before."""
    noted = await orders.with_paid_livemode(tx, order)
    await webhooks.emit(tx, [events.event_of(noted, dispute, transition, now)])


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
            won, back_to = model.won(dispute), dispute.disputed_from
            change = Change(order, transition.order_event, cause, posted=won, back_to=back_to)
        case "lost":
            change = _loss(order, after, cause)
        case _:
            change = await _recovery(tx, order, after, cause, now)
    moved = await orders.transition(tx, change, now)
    # A refund of the whole order was under way when the dispute opened, and has succeeded since.
    if moved.refunded_minor == moved.amount_minor and orders.can(moved, "refunded_in_full"):
        moved = await orders.transition(tx, Change(moved, "refunded_in_full", dispute.id), now)
    return after, moved


def _loss(order: Order, dispute: Dispute, cause: str) -> Change:
    """Return how a lost dispute charges its order back, with what the reserve covers."""
    offset = dispute.offset_minor
    released = order.reserve_minor - offset if offset else 0
    charged = msgspec.structs.replace(
        order,
        charged_back_minor=order.charged_back_minor + dispute.loss_minor,
        reserve_status="OFFSET" if offset else order.reserve_status,
    )
    return Change(charged, "dispute_lost", cause, posted=model.lost(dispute, offset, released))


async def _recovery(tx: Tx, order: Order, dispute: Dispute, cause: str, now: int) -> Change:
    """Return how an order takes back what its bank returned: it is settled, whatever it was."""
    if order.settle_at is not None:  # what the order left in pending is carried over first
        await orders.settle_one(tx, order.merchant_id, order.id, now, dispute.id)
        order = await orders.lock(tx, order.merchant_id, order.id)
    offset = dispute.offset_minor
    recovered = msgspec.structs.replace(
        order,
        charged_back_minor=order.charged_back_minor - dispute.loss_minor,
        reserve_minor=offset or order.reserve_minor,
        reserve_status="HELD" if offset else order.reserve_status,
    )
    return Change(recovered, "recovered", cause, posted=model.recovered(dispute))
