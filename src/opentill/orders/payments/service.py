"""Paying an order through a gateway: commit the intent, call the gateway, commit the result.

Recording an attempt takes one statement, and so does its usual result. Each is a transaction of its
own and needs no lock (decision 0119). If the order has changed since it was read, the statement
writes nothing, and the order is read again.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import structlog

from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.db.database import Db, Tx
from opentill.gateways import (
    Gateways,
    PassedOver,
    PaymentFacts,
    Route,
    callback_url,
    find_routes,
    observe_call,
)
from opentill.gateways.choice import Obstacle, RouteReason, find_misfit
from opentill.gateways.deposits import takes_deposits
from opentill.gateways.model import (
    Captures,
    Expires,
    Gateway,
    PaymentOutcome,
    PaymentRequest,
)
from opentill.orders import service, transitions
from opentill.orders.model import (
    DAY_MS,
    OPERATOR,
    Order,
    PaymentAttempt,
)
from opentill.orders.payments import deposit_addresses, prepaid, queries, reservations
from opentill.orders.payments.account_health import judge_call
from opentill.orders.payments.intents import after_intent, start_unlocked
from opentill.orders.payments.model import PaymentIntent
from opentill.orders.payments.outcomes import FIRST_CHECK_MS, accept, apply_to_attempt

_log: Final = structlog.get_logger()
# Outcomes of a query that say that nobody has paid so far.
_UNPAID: Final = ("ACTION_REQUIRED", "NOT_FOUND")
_LONGEST_WAIT_MS: Final = 3_600_000
_NOT_OFFERED: Final = "method must be one of the payment methods on offer"
_EXHAUSTED: Final = "method must be another one: its accounts have reached their limits of the day"
_MOST_GATEWAYS: Final = 3  # at most this many gateways are tried while the customer waits
_MAX_FAILOVER_MS: Final = (
    12_000  # this long after the customer submitted, no other gateway is tried
)
# An attempt that is older than this is not sent to its gateway. The call takes up to 10 seconds, so
# the worker might already query the gateway (FIRST_CHECK_MS) while the request is on its way.
_LATEST_CALL_MS: Final = FIRST_CHECK_MS - 11_000
QUERY_INTERVAL_MS: Final = 2_000


class OrderState(NamedTuple):
    """An order and its latest attempt, if there is one, as they were read."""

    order: Order
    last_attempt: PaymentAttempt | None


class _Start(NamedTuple):
    """An order, its attempt if there is one, and whether that attempt is new."""

    order: Order
    attempt: PaymentAttempt | None
    is_new: bool


def return_url(public_url: str, attempt: PaymentAttempt, session_id: str) -> str:
    """Return the address to which a gateway sends the customer back."""
    lang = f"?lang={attempt.locale}" if attempt.locale else ""
    return f"{public_url}/checkout/{session_id}/return/{attempt.id}{lang}"


async def submit(
    db: Db,
    gateways: Mapping[str, Gateway],
    intent: PaymentIntent,
    public_url: str,
    now: int,
    *,
    seen: OrderState | None = None,
) -> PaymentAttempt | None:
    """Start to pay an order, and return its attempt; None if the order can no longer be paid.

    Idempotent: an attempt that is on its way to the gateway, or waits there for its customer, is
    returned. If a gateway was surely not reached, or its account refuses payments, the next one
    that takes the method is tried, in an attempt of its own; after an unknown outcome none is.
    An attempt that took too long to be stored is not sent: the request could arrive after the
    worker has queried the gateway, which did not know the payment then. ``seen`` is the order as
    the caller has just read it. Raises Invalid on ``method`` if no gateway takes it.
    """
    started_ns = time.monotonic_ns()
    order, attempt, is_new = await _start(db, gateways, intent, seen, now)
    sent_order: Order | None = after_intent(order)
    tried: tuple[str, ...] = ()
    while attempt is not None and is_new:
        waited_ms = (time.monotonic_ns() - started_ns) // 1_000_000
        if now + waited_ms - attempt.created_at > _LATEST_CALL_MS:
            late = PaymentOutcome(status="UNREACHABLE", reason="not_sent")
            return await _apply(db, attempt, late, now)
        address = await _reserve_address(db, gateways[attempt.gateway], attempt, intent, now)
        report_to = callback_url(public_url, gateways, attempt.gateway)
        request = _request(order, attempt, intent, public_url, report_to, address)
        paying = gateways[attempt.gateway].pay(request)
        called_ns = time.monotonic_ns()
        outcome = await observe_call(attempt.gateway, "pay", paying)
        call_ms = (time.monotonic_ns() - called_ns) // 1_000_000
        if isinstance(gateways, Gateways):
            gateways.record_reachability(attempt.gateway, reached=outcome.status != "UNREACHABLE")
        has_failed = await judge_call(db, gateways, attempt.gateway, outcome, call_ms, now)
        is_refused = has_failed and outcome.status == "DECLINED"  # the account, not the customer
        waited_ms = (time.monotonic_ns() - started_ns) // 1_000_000
        tried = (*tried, attempt.gateway)
        may_move = outcome.status == "UNREACHABLE" or is_refused
        if not may_move or waited_ms > _MAX_FAILOVER_MS:
            return await _apply(db, attempt, outcome, now, sent_order)
        sent_order = None
        try_next = partial(
            _try_next_gateway,
            gateways=gateways,
            intent=intent,
            unreached=attempt,
            outcome=outcome,
            tried=tried,
            now=max(now + waited_ms, attempt.created_at + 1),
        )
        attempt, is_new = await db.run(try_next)
    return attempt


async def _start(
    db: Db,
    gateways: Mapping[str, Gateway],
    intent: PaymentIntent,
    seen: OrderState | None,
    now: int,
) -> _Start:
    """Record an attempt, unless the order has one in progress or cannot be paid any more."""
    state = seen
    # Accounts that have reached their limit of the day, or whose fee the prepaid balance lacks.
    exhausted: list[PassedOver] = []
    while True:
        if state is None:
            state = await db.read(partial(_read, intent=intent))
        order, last = state
        if order.status != "PENDING":
            return _Start(order, last, is_new=False)
        if last is not None and (
            last.status == "PENDING" or last.waits_for_customer(intent.method)
        ):
            await db.autocommit(partial(_set_customer, intent=intent))
            return _Start(order, last, is_new=False)
        routes = _find_routes(gateways, intent, order, exhausted)
        if not routes:
            has_limit = any(each.why == "DAY_LIMIT" for each in exhausted)
            raise Invalid("method", _EXHAUSTED if has_limit else _NOT_OFFERED)
        name, reason = routes[0]
        if isinstance(gateways, Gateways):
            gateways.record_trial(name)
        chosen = reservations.choose(
            gateways, name, order, intent.method, reason.after(exhausted), now
        )
        starting = partial(
            start_unlocked,
            order=order,
            gateway=name,
            method=intent.method,
            payer=intent.payer,
            now=now,
            chosen=chosen,
        )
        attempt = await db.autocommit(starting)
        if attempt is not None:
            return _Start(order, attempt, is_new=True)
        finding = partial(
            reservations.find_obstacle, gateways=gateways, name=name, order=order, chosen=chosen
        )
        if (obstacle := await db.read(finding)) is not None:
            exhausted.append(PassedOver(name, obstacle))
        state = None  # the order may have changed since it was read: read it again


def _find_routes(
    gateways: Mapping[str, Gateway],
    intent: PaymentIntent,
    order: Order,
    passed: Sequence[PassedOver] = (),
) -> list[Route]:
    """Return the accounts for a payment, the preferred first, without those that were passed."""
    payment = PaymentFacts(
        method=intent.method,
        currency=order.currency,
        amount_minor=order.amount_minor,
        merchant_id=order.merchant_id,
        on_phone=intent.payer.on_phone,
        fee=prepaid.find_fee(gateways, order, intent.method),
    )
    if intent.account is None:
        routes = find_routes(gateways, payment)
    else:
        fits = intent.account in gateways and find_misfit(gateways, intent.account, payment) is None
        routes = [Route(intent.account, RouteReason("TEST"))] if fits else []
    names = {each.account for each in passed}
    return [route for route in routes if route.account not in names] if names else routes


async def _read(tx: Tx, intent: PaymentIntent) -> OrderState:
    """Read an order and its latest attempt.

    The order is read first: if an attempt starts between the two reads, the order is out of date,
    which the statements that write detect.
    """
    order = await service.find(tx, intent.merchant_id, intent.order_id)
    return OrderState(order, await service.last_attempt(tx, order.merchant_id, order.id))


async def _set_customer(tx: Tx, intent: PaymentIntent) -> None:
    """Store the payer's name and email address from the form, while the order is PENDING."""
    await queries.SET_CUSTOMER.run(
        tx,
        merchant_id=intent.merchant_id,
        id=intent.order_id,
        customer_email=intent.payer.email,
        customer_name=intent.payer.order_name,
    )


async def _try_next_gateway(
    tx: Tx,
    *,
    gateways: Mapping[str, Gateway],
    intent: PaymentIntent,
    unreached: PaymentAttempt,
    outcome: PaymentOutcome,
    tried: Sequence[str],
    now: int,
) -> tuple[PaymentAttempt, bool]:
    """End an attempt that did not reach its gateway, and record one through the next, if any.

    No attempt is recorded if a callback, or the customer in another tab, was faster. The second
    value says whether the returned attempt is new.
    """
    ended = await apply_to_attempt(tx, unreached, outcome, now)
    order = await service.lock(tx, intent.merchant_id, intent.order_id)
    last = await service.last_attempt(tx, order.merchant_id, order.id)
    is_overtaken = last is None or last.id != ended.id or order.status != "PENDING"
    passed = [PassedOver(name, "UNREACHABLE") for name in tried[:-1]]
    why: Obstacle = "UNREACHABLE" if outcome.status == "UNREACHABLE" else "BROKEN"
    passed.append(PassedOver(tried[-1], why))
    others = _find_routes(gateways, intent, order, passed)
    if ended.status != "DECLINED" or is_overtaken or len(tried) >= _MOST_GATEWAYS:
        return ended, False
    for name, reason in others:
        chosen = reservations.choose(
            gateways, name, order, intent.method, reason.after(passed), now
        )
        attempt = await start_unlocked(tx, order, name, intent.method, intent.payer, now, chosen)
        if attempt is not None:
            return attempt, True
        obstacle = await reservations.find_obstacle(
            tx, gateways=gateways, name=name, order=order, chosen=chosen
        )
        if obstacle is None:
            raise transitions.NotLocked(order)
        passed.append(PassedOver(name, obstacle))
    return ended, False


async def _reserve_address(
    db: Db, gateway: Gateway, attempt: PaymentAttempt, intent: PaymentIntent, now: int
) -> str | None:
    """Reserve the address at which a payment in tokens arrives; None for other gateways."""
    if not takes_deposits(gateway):
        return None
    reserving = partial(
        deposit_addresses.reserve,
        gateway=gateway,
        attempt=attempt,
        expires_at=intent.expires_at,
        now=now,
    )
    return await db.run(reserving)


def _request(
    order: Order,
    attempt: PaymentAttempt,
    intent: PaymentIntent,
    public_url: str,
    report_to: str,
    address: str | None,
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
        callback_url=report_to,
        locale=intent.payer.locale,
        expires_at=intent.expires_at,
        on_phone=intent.payer.on_phone,
        address=address,
    )


async def _apply(
    db: Db,
    attempt: PaymentAttempt,
    outcome: PaymentOutcome,
    now: int,
    sent_order: Order | None = None,
) -> PaymentAttempt:
    """Apply the outcome that the attempt's own gateway reported.

    If the outcome is the response to a recorded intent, ``sent_order`` is the order as the intent
    left it. Such an outcome can usually be applied without a lock. None: lock the order.
    """
    if sent_order is not None and outcome.status in ("ACTION_REQUIRED", "PENDING"):
        accepted = await db.autocommit(lambda tx: accept(tx, sent_order, attempt, outcome, now))
        if accepted is not None:
            return accepted
    return await db.run(lambda tx: apply_to_attempt(tx, attempt, outcome, now))


async def query_attempt(
    db: Db, gateways: Mapping[str, Gateway], attempt: PaymentAttempt, now: int
) -> PaymentAttempt:
    """Query the gateway about an attempt, apply the outcome and return the attempt.

    Within two seconds of the last query, by any process, the attempt is returned as it is.
    """
    gateway = gateways.get(attempt.gateway)
    if gateway is None:
        _log.error("gateway gone", attempt=attempt.id, gateway=attempt.gateway)
        return attempt
    if _awaits_operator(attempt) or not await may_query(db, attempt, now):
        return attempt
    querying = gateway.find_payment(attempt.id, attempt.provider_ref)
    outcome = await observe_call(attempt.gateway, "find_payment", querying)
    queried = await _apply(db, attempt, _query_outcome(outcome), now)
    if queried.status == "ACTION_REQUIRED" and outcome.status in _UNPAID:
        await reservations.release_unpaid(db, queried)
    return queried


def _query_outcome(outcome: PaymentOutcome) -> PaymentOutcome:
    """Return the outcome of a query: UNKNOWN instead of UNREACHABLE.

    A query that did not reach the gateway says nothing about the payment itself.
    """
    if outcome.status == "UNREACHABLE":
        return PaymentOutcome(status="UNKNOWN", reason=outcome.reason)
    return outcome


async def close_page(
    db: Db, gateways: Mapping[str, Gateway], attempt: PaymentAttempt, now: int
) -> PaymentAttempt:
    """Close the gateway's page if the attempt's order is paid or closed, else query the attempt.

    Closing the page prevents late payments. A late payment that still arrives pays the closed
    order, or is sent back. While a gateway of ``Captures`` may still take the money, the attempt
    stays as it is, so that the worker queries it again.
    """
    gateway = gateways.get(attempt.gateway)
    if _awaits_operator(attempt) or not isinstance(gateway, Expires):
        return await query_attempt(db, gateways, attempt, now)
    order = await _find_order(db, attempt)
    if not order.is_over:
        return await query_attempt(db, gateways, attempt, now)
    closing = gateway.expire(attempt.id, attempt.provider_ref)
    outcome = await observe_call(attempt.gateway, "expire", closing)
    may_be_taken = isinstance(gateway, Captures) and now < order.updated_at + gateway.capture_ms
    if outcome.status == "DECLINED" and may_be_taken:
        return attempt
    return await _apply(db, attempt, _query_outcome(outcome), now)


async def _find_order(db: Db, attempt: PaymentAttempt) -> Order:
    async with db.connection() as tx:
        return await service.find(tx, attempt.merchant_id, attempt.order_id)


def next_check(attempt: PaymentAttempt, now: int) -> int | None:
    """Return when to query an attempt again (Unix ms), at growing intervals; None: never.

    An attempt with an unknown outcome is queried until the outcome is known. One that waits for its
    customer is queried daily after two days, and never after 30: no provider keeps a page open for
    so long. A payment that the operator confirms is not queried at all.
    """
    if _awaits_operator(attempt):
        return None
    age = now - attempt.created_at
    if attempt.status == "ACTION_REQUIRED" and age > 2 * DAY_MS:
        return now + DAY_MS if age <= 30 * DAY_MS else None
    first_wait = {"ACTION_REQUIRED": 60_000, "SUBMITTED": 5_000, "DUPLICATE": 5_000}
    wait = first_wait.get(attempt.status, 2_000) << min(attempt.checks, 12)
    return now + min(wait, _LONGEST_WAIT_MS)


def _awaits_operator(attempt: PaymentAttempt) -> bool:
    return attempt.gateway == OPERATOR and attempt.status == "ACTION_REQUIRED"


async def may_query(db: Db, attempt: PaymentAttempt, now: int) -> bool:
    """Claim the right to query an attempt's gateway: False if it was claimed in the last 2 seconds.

    In that case, the worker queries the gateway as soon as the two seconds have passed.
    """
    key = {"merchant_id": attempt.merchant_id, "id": attempt.id}
    interval = {"every_ms": QUERY_INTERVAL_MS}
    async with db.connection() as tx:
        if await queries.CLAIM_QUERY.run(tx, **key, now=now, **interval):
            return True
        await queries.QUERY_SOON.run(tx, **key, **interval)
    return False
