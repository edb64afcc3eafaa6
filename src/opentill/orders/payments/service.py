"""Paying an order through a gateway: intent committed, gateway called, result committed.

The first attempt of an order, and its usual result, are one statement each (decision 0119): a
transaction of its own, in place of one that locks the order, reads it and its last attempt, and
writes. If the order has changed since it was read, nothing is written, and the order is read again
under its lock.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

import msgspec
import structlog

from opentill.core import metrics
from opentill.core.errors import Invalid
from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.db.database import Db, Tx, once_committed
from opentill.gateways import Gateways, candidates, observe_call
from opentill.gateways.model import (
    Expires,
    Gateway,
    Method,
    PaymentOutcome,
    PaymentRequest,
)
from opentill.orders import service, transitions
from opentill.orders.model import (
    DAY_MS,
    OPERATOR,
    NewAttempt,
    Order,
    PaymentAttempt,
)
from opentill.orders.payments import queries
from opentill.orders.payments.model import Payer, PaymentIntent
from opentill.orders.payments.outcomes import FIRST_CHECK_MS, WAITS, apply_to
from opentill.orders.queries import INSERT_ATTEMPT
from opentill.orders.transitions import Change, transition

# An order, the attempt to pay it if there is one, and whether that is new.
_Begun: TypeAlias = tuple[Order, PaymentAttempt | None, bool]
_log: Final = structlog.get_logger()
_LONGEST_WAIT_MS: Final = 3_600_000
_MOST_GATEWAYS: Final = 3  # that one payment is sent to, while its customer waits
_PATIENCE_MS: Final = 12_000  # after which no further gateway is tried
# The age of an attempt from which on it is not sent: the call could outlast the first check.
_LATEST_MS: Final = FIRST_CHECK_MS - 11_000  # calls last up to ten seconds


def return_url(public_url: str, attempt: PaymentAttempt, session_id: str) -> str:
    """Return where a gateway sends the customer back to."""
    lang = f"?lang={attempt.locale}" if attempt.locale else ""
    return f"{public_url}/checkout/{session_id}/return/{attempt.id}{lang}"


def callback_url(public_url: str, gateway: str) -> str:
    """Return where a gateway reports to."""
    return f"{public_url}/gateways/{gateway}/callback"


async def submit(
    db: Db,
    gateways: Mapping[str, Gateway],
    intent: PaymentIntent,
    public_url: str,
    now: int,
    *,
    untried: Order | None = None,
) -> PaymentAttempt | None:
    """Start to pay an order, and return its attempt; None if nobody can pay the order any more.

    Harmless when it comes twice: while an attempt is on its way to the gateway or waits there,
    that one is returned. A gateway that surely was not reached is followed by the next that takes
    the method, in an attempt of its own; an unknown outcome never is. An attempt that took too long
    to be stored is not sent: the request could arrive after the worker has asked the gateway, which
    did not know the payment then. ``untried`` is the order as the caller has just read it, without
    an attempt: then intent and result are a statement each, as long as nothing else happens to the
    order. Raises Invalid on ``method`` for one that no gateway takes.
    """
    started_ns = time.monotonic_ns()
    begun: _Begun | None = None
    if untried is not None:
        begun = await _begin_untried(db, gateways, intent, untried, now)
    if begun is None:
        begun = await db.run(lambda tx: _begin(tx, gateways, intent, now))
    order, attempt, fresh = begun
    sent: Order | None = as_sent(order)
    tried: tuple[str, ...] = ()
    while attempt is not None and fresh:
        waited_ms = (time.monotonic_ns() - started_ns) // 1_000_000
        if now + waited_ms - attempt.created_at > _LATEST_MS:
            late = PaymentOutcome(status="UNREACHABLE", reason="not_sent")
            return await _apply(db, attempt, late, now)
        request = _request(order, attempt, intent, public_url)
        paying = gateways[attempt.gateway].pay(request)
        outcome = await observe_call(attempt.gateway, "pay", paying)
        if isinstance(gateways, Gateways):
            gateways.record_reachability(attempt.gateway, reached=outcome.status != "UNREACHABLE")
        waited_ms = (time.monotonic_ns() - started_ns) // 1_000_000
        tried = (*tried, attempt.gateway)
        if outcome.status != "UNREACHABLE" or waited_ms > _PATIENCE_MS:
            return await _apply(db, attempt, outcome, now, sent)
        sent = None
        at = max(now + waited_ms, attempt.created_at + 1)
        go_on = partial(_go_on, before=attempt, outcome=outcome, tried=tried, now=at)
        attempt, fresh = await db.run(partial(go_on, gateways=gateways, intent=intent))
    return attempt


async def _last(tx: Tx, intent: PaymentIntent) -> tuple[Order, PaymentAttempt | None]:
    """Return an order, locked, and the latest attempt to pay it."""
    order = await service.lock(tx, intent.merchant_id, intent.order_id)
    return order, await service.last_attempt(tx, order.merchant_id, order.id)


async def _begin(
    tx: Tx, gateways: Mapping[str, Gateway], intent: PaymentIntent, now: int
) -> _Begun:
    """Record the first attempt, unless one is under way; the last value says whether it is new."""
    order, last = await _last(tx, intent)
    if order.status != "PENDING":
        return order, last, False
    if last is not None and (last.status == "PENDING" or last.waits_for_customer(intent.method)):
        await queries.SET_CUSTOMER.run(
            tx,
            merchant_id=order.merchant_id,
            id=order.id,
            customer_email=intent.payer.email,
            customer_name=intent.payer.known_name,
        )
        return order, last, False
    able = candidates(gateways, intent.method, order.currency)
    if not able:
        raise Invalid("method", "method must be one of the payment methods on offer")
    first = await start_attempt(tx, order, able[0], intent.method, intent.payer, now)
    return order, first, True


async def _begin_untried(
    db: Db, gateways: Mapping[str, Gateway], intent: PaymentIntent, seen: Order, now: int
) -> _Begun | None:
    """Record the first attempt of an order as ``_begin``; None where that is to look closer."""
    able = candidates(gateways, intent.method, seen.currency)
    if seen.status != "PENDING" or not able:
        return None
    first = await db.autocommit(
        lambda tx: start_first_attempt(tx, seen, able[0], intent.method, intent.payer, now)
    )
    return None if first is None else (seen, first, True)


async def _go_on(
    tx: Tx,
    *,
    gateways: Mapping[str, Gateway],
    intent: PaymentIntent,
    before: PaymentAttempt,
    outcome: PaymentOutcome,
    tried: Sequence[str],
    now: int,
) -> tuple[PaymentAttempt, bool]:
    """End an attempt that never arrived, and record one through the next gateway if there is one.

    None is recorded if the customer, in another tab, or a callback was faster. The last value says
    whether the attempt is new.
    """
    ended = await apply_to(tx, before, outcome, now)
    order, last = await _last(tx, intent)
    overtaken = last is None or last.id != ended.id or order.status != "PENDING"
    able = candidates(gateways, intent.method, order.currency)
    others = [name for name in able if name not in tried]
    if ended.status != "DECLINED" or overtaken or not others or len(tried) >= _MOST_GATEWAYS:
        return ended, False
    following = await start_attempt(tx, order, others[0], intent.method, intent.payer, now)
    return following, True


def _request(
    order: Order, attempt: PaymentAttempt, intent: PaymentIntent, public_url: str
) -> PaymentRequest:
    return PaymentRequest(
        attempt_id=attempt.id,
        method=attempt.method,
        amount=Money(order.amount_minor, order.currency),
        description=order.product_name,
        merchant_name=intent.merchant_name,
        customer_email=intent.payer.email,
        customer_name=intent.payer.name,
        payer_ip=intent.payer.ip,
        return_url=return_url(public_url, attempt, order.checkout_id),
        callback_url=callback_url(public_url, attempt.gateway),
        locale=intent.payer.locale,
        expires_at=intent.expires_at,
    )


async def _apply(
    db: Db,
    attempt: PaymentAttempt,
    outcome: PaymentOutcome,
    now: int,
    sent: Order | None = None,
) -> PaymentAttempt:
    """Apply the outcome that the attempt's own gateway reported.

    ``sent`` is the order as the intent left it, where the outcome is that of the call itself.
    """
    if sent is not None and outcome.status in ("ACTION_REQUIRED", "PENDING"):
        accepted = await db.autocommit(lambda tx: accept_sent(tx, sent, attempt, outcome, now))
        if accepted is not None:
            return accepted
    return await db.run(lambda tx: apply_to(tx, attempt, outcome, now))


async def ask(
    db: Db, gateways: Mapping[str, Gateway], attempt: PaymentAttempt, now: int
) -> PaymentAttempt:
    """Ask the gateway what became of an attempt, apply the outcome and return the attempt.

    At most once in two seconds over all processes; in between, the attempt is returned as it is.
    """
    gateway = gateways.get(attempt.gateway)
    if gateway is None:
        _log.error("gateway gone", attempt=attempt.id, gateway=attempt.gateway)
        return attempt
    if _for_the_operator(attempt):
        return attempt
    if not await may_ask(db, attempt, now):
        return attempt
    asking = gateway.find_payment(attempt.id, attempt.provider_ref)
    outcome = await observe_call(attempt.gateway, "find_payment", asking)
    return await _apply(db, attempt, _asked(outcome), now)


def _asked(outcome: PaymentOutcome) -> PaymentOutcome:
    """Return UNKNOWN for UNREACHABLE: a failed enquiry says nothing about the payment itself."""
    if outcome.status == "UNREACHABLE":
        return PaymentOutcome(status="UNKNOWN", reason=outcome.reason)
    return outcome


async def close(
    db: Db, gateways: Mapping[str, Gateway], attempt: PaymentAttempt, now: int
) -> PaymentAttempt:
    """Close the gateway's page of an attempt whose order is paid or closed; ask about any other.

    So nobody pays late. A payment that arrives all the same counts, or is given back.
    """
    gateway = gateways.get(attempt.gateway)
    if (
        not _for_the_operator(attempt)
        and isinstance(gateway, Expires)
        and await _is_over(db, attempt)
    ):
        closing = gateway.expire(attempt.id, attempt.provider_ref)
        outcome = await observe_call(attempt.gateway, "expire", closing)
        return await _apply(db, attempt, _asked(outcome), now)
    return await ask(db, gateways, attempt, now)


async def _is_over(db: Db, attempt: PaymentAttempt) -> bool:
    async with db.connection() as tx:
        order = await service.find(tx, attempt.merchant_id, attempt.order_id)
    return order.status not in ("CREATING", "PENDING")


def next_check(attempt: PaymentAttempt, now: int) -> int | None:
    """Return when to ask about an attempt again (Unix ms), at growing intervals; None: never.

    The gateway is asked about an unknown outcome until it is known, and about an attempt that waits
    for its customer daily after two days and never after 30: no provider keeps a page open for so
    long. Nobody is asked about a payment that the operator confirms.
    """
    if _for_the_operator(attempt):
        return None
    age = now - attempt.created_at
    if attempt.status == "ACTION_REQUIRED" and age > 2 * DAY_MS:
        return now + DAY_MS if age <= 30 * DAY_MS else None
    first = {"ACTION_REQUIRED": 60_000, "SUBMITTED": 5_000, "DUPLICATE": 5_000}
    wait = first.get(attempt.status, 2_000) << min(attempt.checks, 12)
    return now + min(wait, _LONGEST_WAIT_MS)


def _for_the_operator(attempt: PaymentAttempt) -> bool:
    return attempt.gateway == OPERATOR and attempt.status == "ACTION_REQUIRED"


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
    attempt = await INSERT_ATTEMPT.one(tx, new, now=now)
    await transition(tx, Change(of_payer, "submitted", cause), now)
    once_committed(tx, partial(metrics.count_started_attempt, gateway, method))
    return attempt


async def start_first_attempt(
    tx: Tx, order: Order, gateway: str, method: Method, payer: Payer, now: int
) -> PaymentAttempt | None:
    """Record the intent as ``start_attempt`` does, of an order that nobody tried to pay.

    The order is not locked: None, and nothing is written, if it changed since it was read. By one
    statement, which may be a transaction of its own.
    """
    new, of_payer, cause = to_send(order, gateway, method, payer, now)
    attempt = await transitions.submit(tx, of_payer, new, cause, now)
    if attempt is not None:
        once_committed(tx, partial(metrics.count_started_attempt, gateway, method))
    return attempt


def as_sent(order: Order) -> Order:
    """Return an order as the intent to pay it leaves it."""
    return msgspec.structs.replace(
        order, status="CREATING", history_number=order.history_number + 1
    )


async def accept_sent(
    tx: Tx, sent: Order, attempt: PaymentAttempt, outcome: PaymentOutcome, now: int
) -> PaymentAttempt | None:
    """Apply that the customer must act, or that the outcome comes later, as ``outcomes.apply_to``.

    ``sent`` is the order as the intent left it, not locked: None, and nothing is written, if it
    changed since, or if the outcome is another one.
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
                check_at=now + WAITS[status],
            )
            return await transitions.accept(tx, sent, accepted, now)
        case _:
            return None


EVERY_MS: Final = 2_000


async def may_ask(db: Db, attempt: PaymentAttempt, now: int) -> bool:
    """Return whether to ask an attempt's gateway now; nobody else may for the next two seconds.

    Where somebody has asked within the last two seconds, the worker asks when they are over.
    """
    async with db.connection() as tx:
        if await queries.TAKE_TURN.run(
            tx, merchant_id=attempt.merchant_id, id=attempt.id, now=now, every_ms=EVERY_MS
        ):
            return True
        await queries.ASK_SOON.run(
            tx, merchant_id=attempt.merchant_id, id=attempt.id, every_ms=EVERY_MS
        )
    return False
