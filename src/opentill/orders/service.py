"""What can be done with orders and their payment attempts, and how outcomes are applied."""

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import Final, Literal

import msgspec
import structlog

from opentill import merchants, rates
from opentill.core import metrics, money
from opentill.core.errors import or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Tx, once_committed
from opentill.db.query import Statement
from opentill.gateways.model import (
    Method,
    OfAnotherGateway,
    PaymentOutcome,
    PaymentStatus,
    RefundOutcome,
)
from opentill.orders import cards, epay_numbers, queries, transition_queries
from opentill.orders.confirmation import confirmation, count_ended
from opentill.orders.model import (
    FINAL,
    UNDECIDED,
    AttemptStatus,
    Event,
    HistoryRow,
    NewAttempt,
    NewOrder,
    Order,
    Payer,
    PaymentAttempt,
)
from opentill.orders.notes import note
from opentill.orders.transitions import Change, can, take, transition

_log: Final = structlog.get_logger()

FIRST_CHECK_MS: Final = 15_000  # longer than any call to a gateway lasts
ACTION_CHECK_MS: Final = 60_000
PENDING_CHECK_MS: Final = 2_000
WAITS: Final = {"ACTION_REQUIRED": ACTION_CHECK_MS, "PENDING": PENDING_CHECK_MS}
# The status of an attempt that failed, and the event of its order, by the outcome.
_ENDS: Final[dict[PaymentStatus, tuple[AttemptStatus, Event]]] = {
    "DECLINED": ("DECLINED", "declined"),
    "UNREACHABLE": ("DECLINED", "declined"),
    "NOT_FOUND": ("DECLINED", "declined"),
    "REFUSED": ("REFUSED", "refused"),
    "VOIDED": ("VOIDED", "voided"),
}


async def find(tx: Tx, merchant_id: str, order_id: str) -> Order:
    """Return an order. Raises NotFound."""
    return or_not_found(await queries.BY_ID.first(tx, merchant_id=merchant_id, id=order_id))


async def of_ids(tx: Tx, merchant_id: str, ids: Sequence[str]) -> dict[str, Order]:
    """Return those of some orders that a merchant has, by their ids."""
    found = await queries.OF_IDS.all(tx, merchant_id=merchant_id, ids=list(ids))
    return {order.id: order for order in found}


async def newest(tx: Tx, merchant_id: str, limit: int) -> list[Order]:
    """Return the newest orders of a merchant, newest first."""
    return await queries.NEWEST.all(tx, merchant_id=merchant_id, limit=limit)


async def exists(tx: Tx, merchant_id: str, order_id: str) -> bool:
    """Return whether a merchant has an order."""
    return bool(await queries.EXISTS.get(tx, merchant_id=merchant_id, id=order_id))


async def find_anywhere(tx: Tx, order_id: str) -> Order:
    """Return an order of whichever merchant, for the operator. Raises NotFound."""
    found = await queries.ANYWHERE.first(tx, id=order_id)
    return or_not_found(found, f"there is no order {order_id}")


async def history(tx: Tx, merchant_id: str, order_id: str) -> list[HistoryRow]:
    """Return all that happened to an order, oldest first."""
    return await queries.HISTORY.all(tx, merchant_id=merchant_id, order_id=order_id)


async def last_attempt(tx: Tx, merchant_id: str, order_id: str) -> PaymentAttempt | None:
    """Return the latest attempt to pay an order, None if nobody tried."""
    return await queries.LAST_ATTEMPT.first(tx, merchant_id=merchant_id, order_id=order_id)


async def attempts(tx: Tx, merchant_id: str, order_id: str) -> list[PaymentAttempt]:
    """Return all attempts to pay an order, oldest first: at most fifty (decision 0030)."""
    return await queries.ATTEMPTS.all(tx, merchant_id=merchant_id, order_id=order_id)


async def find_attempt(tx: Tx, merchant_id: str, attempt_id: str) -> PaymentAttempt:
    """Return an attempt. Raises NotFound."""
    return or_not_found(await queries.ATTEMPT.first(tx, merchant_id=merchant_id, id=attempt_id))


async def attempt_of(tx: Tx, gateway: str, merchant_id: str, attempt_id: str) -> PaymentAttempt:
    """Return the attempt that a gateway reports about, if it went through that gateway.

    Every report about a payment, refund or dispute is checked here (decision 0032). Raises
    NotFound, and OfAnotherGateway for an attempt that went through another gateway.
    """
    attempt = await find_attempt(tx, merchant_id, attempt_id)
    if attempt.gateway != gateway:
        raise OfAnotherGateway(gateway, attempt.gateway)
    return attempt


async def lock(tx: Tx, merchant_id: str, order_id: str) -> Order:
    """Return an order, locked until the end of ``tx``. Raises NotFound."""
    return or_not_found(await queries.LOCKED.first(tx, merchant_id=merchant_id, id=order_id))


async def place(tx: Tx, new: NewOrder, now: int) -> bool:
    """Place an order, PENDING, with the session that it is paid in, OPEN.

    Returns whether it did: not for a merchant that may not charge. Raises CapabilityOff where that
    shows only afterwards, and the transaction is to be rolled back.
    """
    placed = bool(await transition_queries.PLACE.run(tx, new, now=now))
    if placed and Statement.distributes:
        await merchants.require(tx, new.merchant_id, "charge")
    return placed


async def set_payment_link(tx: Tx, merchant_id: str, order_id: str, link_id: str) -> None:
    """Note which payment link opened the session of an order that was just placed."""
    await queries.SET_PAYMENT_LINK.run(
        tx, merchant_id=merchant_id, id=order_id, payment_link_id=link_id
    )


async def set_method(tx: Tx, merchant_id: str, checkout_id: str, method: Method | None) -> None:
    """Set the only method that a session can be paid by; None: the customer chooses."""
    await queries.SET_METHOD.run(
        tx, merchant_id=merchant_id, checkout_id=checkout_id, method=method
    )


async def merchant_of(tx: Tx, public_id: str) -> str:
    """Return the merchant of a session, an attempt or a payment link's slug. Raises NotFound."""
    return or_not_found(await queries.MERCHANT_OF.get(tx, id=public_id))


def to_send(
    order: Order, gateway: str, method: Method, payer: Payer, now: int
) -> tuple[NewAttempt, Order, str]:
    """Return an attempt to be stored, the order with its payer, and the cause for its history."""
    attempt = NewAttempt(
        merchant_id=order.merchant_id,
        id=new_id("att"),
        order_id=order.id,
        gateway=gateway,
        method=method,
        status="SUBMITTED",
        amount_minor=order.amount_minor,
        currency=order.currency,
        locale=payer.locale,
        payer_ip=payer.ip,
        check_at=now + FIRST_CHECK_MS,
    )
    of_payer = msgspec.structs.replace(
        order, customer_email=payer.email, customer_name=payer.known_name, payer_ip=payer.ip
    )
    return attempt, of_payer, f"{attempt.id} by {method} through {gateway}"


async def start_attempt(
    tx: Tx, order: Order, gateway: str, method: Method, payer: Payer, now: int
) -> PaymentAttempt:
    """Record the intent to pay a locked order through a gateway: the attempt, SUBMITTED.

    To be committed before the gateway is called: whatever becomes of the call, the worker asks the
    gateway by the attempt's id until the outcome is known.
    """
    new, of_payer, cause = to_send(order, gateway, method, payer, now)
    attempt = await queries.INSERT_ATTEMPT.one(tx, new, now=now)
    await transition(tx, Change(of_payer, "submitted", cause), now)
    once_committed(tx, partial(metrics.count_started_attempt, gateway, method))
    return attempt


async def apply_outcome(
    tx: Tx, merchant_id: str, attempt_id: str, outcome: PaymentOutcome, now: int, *, gateway: str
) -> PaymentAttempt:
    """Apply the outcome of an attempt: from a response, a callback or a query, however often.

    ``gateway`` is the one that reports it. Raises NotFound for an unknown attempt, and
    OfAnotherGateway.
    """
    seen = await attempt_of(tx, gateway, merchant_id, attempt_id)
    return await apply_to(tx, seen, outcome, now)


async def apply_to(
    tx: Tx, seen: PaymentAttempt, outcome: PaymentOutcome, now: int
) -> PaymentAttempt:
    """Apply the outcome that an attempt's own gateway reports of it, as ``apply_outcome`` does.

    ``seen`` may be out of date: the attempt is read again with the order's lock.
    """
    if outcome.status == "SUCCEEDED":
        await epay_numbers.lock_number(tx, seen.merchant_id, seen.order_id)
    order = await lock(tx, seen.merchant_id, seen.order_id)
    attempt = await find_attempt(tx, seen.merchant_id, seen.id)
    match outcome.status:
        case "SUCCEEDED":
            return await _received(tx, order, attempt, outcome, now)
        case "ACTION_REQUIRED" | "PENDING" as status:
            return await _accepted(tx, order, attempt, outcome, status, now)
        case _ if _ends(attempt, outcome, now):
            return await _ended(tx, order, attempt, outcome, now)
        case _:  # UNKNOWN, or NOT_FOUND though the gateway has known the attempt: ask again
            _log.warning("attempt unknown", attempt=attempt.id, reason=outcome.reason)
            return attempt


def _ends(attempt: PaymentAttempt, outcome: PaymentOutcome, now: int) -> bool:
    """Return whether an attempt failed by an outcome.

    NOT_FOUND counts only once the call to the gateway has surely ended: before, the request may
    still arrive.
    """
    if outcome.status == "NOT_FOUND":
        return attempt.status == "SUBMITTED" and now - attempt.created_at >= FIRST_CHECK_MS
    return outcome.status in _ENDS


async def write_attempt(
    tx: Tx,
    attempt: PaymentAttempt,
    status: AttemptStatus,
    outcome: PaymentOutcome,
    check_at: int | None,
    now: int,
) -> PaymentAttempt:
    """Write the status of an attempt, with what its outcome says, and return it."""
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


async def _received(
    tx: Tx, order: Order, attempt: PaymentAttempt, outcome: PaymentOutcome, now: int
) -> PaymentAttempt:
    """Apply that money was received: it pays the order, or it is to be given back."""
    card = outcome.card
    if attempt.status in FINAL:
        if card and attempt.status == "SUCCEEDED" and attempt.card_last4 is None:
            await cards.keep(tx, order, attempt, card)  # another report has confirmed it without
        return attempt
    amount = outcome.amount
    if amount and (amount.minor, amount.currency) != (attempt.amount_minor, attempt.currency):
        got = money.named(amount.minor, amount.currency)
        _log.error("amount differs", attempt=attempt.id, got=got)
        if attempt.reason != "amount_differs":
            cause = f"{attempt.id}: {got} instead of the amount due"
            await note(tx, order, "amount_differs", cause, now)
        differs = PaymentOutcome(status="UNKNOWN", reason="amount_differs")
        return await write_attempt(tx, attempt, attempt.status, differs, None, now)
    paid_beside = await epay_numbers.find_paid_beside(tx, order)
    if paid_beside is None and can(order, "confirmed"):
        paid = await write_attempt(tx, attempt, "SUCCEEDED", outcome, None, now)
        hkd = await _hkd_rate(tx, order, outcome)
        order = msgspec.structs.replace(order, hkd_exchange_rate=hkd)
        await take(tx, [confirmation(order, attempt, outcome, now)], now)
        if card:
            await cards.keep(tx, order, attempt, card)
        return paid
    cause = f"{attempt.id} is given back"
    if paid_beside is not None:
        cause += f": {paid_beside} was paid under the same out_trade_no"
        order = await _close_beside(tx, order, paid_beside, now)
    await note(tx, order, "duplicate_payment", cause, now)
    return await write_attempt(tx, attempt, "DUPLICATE", outcome, now, now)


async def _close_beside(tx: Tx, order: Order, paid_order_id: str, now: int) -> Order:
    """Close and return an order whose number another one paid: nobody is to pay it again."""
    reason = f"{paid_order_id} was paid under the same out_trade_no"
    if can(order, "accepted"):
        order = await transition(tx, Change(order, "accepted", reason), now)
    if can(order, "expired"):
        order = await transition(tx, Change(order, "expired", reason, reason=reason), now)
    return order


async def _hkd_rate(tx: Tx, order: Order, outcome: PaymentOutcome) -> Decimal | None:
    """Return the order's rate to HKD when it was opened, if the payment is cleared in HKD.

    It is only shown: None where no rate was known.
    """
    if outcome.clearing_currency != "HKD":
        return None
    if order.settled_currency == "HKD":
        return order.exchange_rate
    return await rates.find(tx, order.currency, "HKD", order.created_at)


async def _accepted(
    tx: Tx,
    order: Order,
    attempt: PaymentAttempt,
    outcome: PaymentOutcome,
    status: Literal["ACTION_REQUIRED", "PENDING"],
    now: int,
) -> PaymentAttempt:
    """Apply that the customer must act, or that the outcome comes later."""
    stale = attempt.status == "PENDING" and status == "ACTION_REQUIRED"
    if attempt.status not in UNDECIDED or stale or attempt.status == status:
        return attempt
    written = await write_attempt(tx, attempt, status, outcome, now + WAITS[status], now)
    if attempt.status == "SUBMITTED" and order.status == "CREATING":
        await transition(tx, Change(order, "accepted", attempt.id), now)
    return written


async def _ended(
    tx: Tx, order: Order, attempt: PaymentAttempt, outcome: PaymentOutcome, now: int
) -> PaymentAttempt:
    """Apply that the attempt failed: the order can be paid by another one, or is closed."""
    if attempt.status not in UNDECIDED:
        return attempt
    status, event = _ENDS[outcome.status]
    written = await write_attempt(tx, attempt, status, outcome, None, now)
    reason = outcome.reason or outcome.status.lower()
    cause = f"{attempt.id}: {reason}"
    # While another attempt is on its way to its gateway, a decline of this one leaves the order.
    waits_for_other = order.status == "CREATING" and attempt.status != "SUBMITTED"
    if can(order, event) and not (waits_for_other and event == "declined"):
        await transition(tx, Change(order, event, cause, reason=reason), now)
    else:
        await note(tx, order, event, cause, now)
    return written


async def given_back(
    tx: Tx,
    attempt: PaymentAttempt,
    outcome: RefundOutcome,
    now: int,
    *,
    by_operator: bool = False,
) -> None:
    """Apply the outcome of giving a duplicate payment back, from a response or a callback.

    A gateway that refuses for good is not asked again: the operator sees it in the order's history.
    So it is where the gateway says afterwards that giving back has failed, such as for a customer's
    account that is closed. Then only the operator says that it was given back all the same.
    Repeated and late outcomes change nothing.
    """
    order = await lock(tx, attempt.merchant_id, attempt.order_id)
    current = await queries.ATTEMPT.first(tx, merchant_id=attempt.merchant_id, id=attempt.id)
    if current is None or current.status not in ("DUPLICATE", "GIVEN_BACK"):
        return
    is_back = current.status == "GIVEN_BACK"
    if outcome.status == "SUCCEEDED" and not is_back:
        if current.check_at is None and not by_operator:
            # It may be late, and have failed since. If not, somebody has given it back elsewhere.
            _log.error(
                "duplicate said to be given back", attempt=attempt.id, by=outcome.provider_ref
            )
            return
        cause = f"{attempt.id} {outcome.provider_ref}".strip()
        done = PaymentOutcome(status="SUCCEEDED")
        await write_attempt(tx, current, "GIVEN_BACK", done, None, now)
        await note(tx, order, "payment_given_back", cause, now)
    elif outcome.status == "REFUSED" and (is_back or current.check_at is not None):
        if is_back and await _is_noted(tx, order, "payment_not_given_back", attempt.id):
            return  # the operator has given it back since
        _log.error(
            "duplicate not given back",
            attempt=attempt.id, was=current.status, reason=outcome.reason,
        )  # fmt: skip
        reason = outcome.reason or "refused"
        key = {"merchant_id": attempt.merchant_id, "id": attempt.id}
        if is_back:
            await queries.CAME_BACK.run(tx, **key, reason=reason, now=now)
        else:
            await queries.STOP_GIVING_BACK.run(tx, **key, reason=reason)
        cause = f"{attempt.id}: {reason}"
        await note(tx, order, "payment_not_given_back", cause, now)


async def _is_noted(tx: Tx, order: Order, event: str, beginning: str) -> bool:
    """Return whether the order's history has an event whose cause begins so."""
    lines = await history(tx, order.merchant_id, order.id)
    return any(line.event == event and line.cause.startswith(beginning) for line in lines)


def settled_share(order: Order, amount_minor: int) -> int:
    """Return what a part of an order is in the currency that it settles in, in minor units."""
    currencies = order.currency, order.settled_currency
    return money.times(amount_minor, order.exchange_rate, *currencies)
