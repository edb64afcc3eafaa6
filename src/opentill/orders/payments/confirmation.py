"""Confirming payments: the transition by which a received payment pays its order.

Every payment that a gateway reports is confirmed by ``confirm``: by itself (``outcomes``), or in a
batch with payments that gateways report at the same time (``confirm_many``). A batch takes usual
reports only: the attempt is undecided, the order can be paid, and the amount is the one that was
due. Any other report (a second payment, another amount, money that clears in HKD, an Epay order
whose number other orders have too) is applied in a transaction of its own, by
``outcomes.apply_outcome``. Locks are taken in the order of ids, and orders are locked before
balances, so that batches of several processes cannot deadlock.
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from opentill.core import metrics
from opentill.db.database import Tx, after_commit
from opentill.gateways.model import PaymentOutcome
from opentill.merchants.fee_schedule import Scope
from opentill.orders.livemode import of_gateway
from opentill.orders.model import UNDECIDED, AttemptStatus, Order, PaymentAttempt, due_at
from opentill.orders.payments import day_limits, epay_numbers, prepaid, queries
from opentill.orders.payments.model import Report
from opentill.orders.pricing import with_fee_of
from opentill.orders.settlement.movements import received
from opentill.orders.transitions import Change, Payment, can, take

BATCH: Final = 64  # one transaction applies at most this many reports
ENDS: Final = ("SUCCEEDED", "DECLINED", "REFUSED", "VOIDED", "DUPLICATE")


class ReceivedPayment(NamedTuple):
    """A payment that its gateway reports as received: the locked order, its attempt, the report."""

    order: Order
    attempt: PaymentAttempt
    outcome: PaymentOutcome


def confirmation(
    order: Order, attempt: PaymentAttempt, outcome: PaymentOutcome, now: int
) -> Change:
    """Return the transition by which a payment pays a locked order, with its method's fee."""
    method = outcome.method or attempt.method
    payment = Scope(method=method, currency=order.currency)
    priced = with_fee_of(order, payment)
    live = of_gateway(attempt.gateway)
    paid_directly = attempt.prepaid_minor is not None
    settles_at = due_at(now, order.settlement_delay_days, order.settlement_calendar)
    paid = msgspec.structs.replace(
        priced,
        payment_method=method,
        paid_attempt_id=attempt.id,
        payer_ip=attempt.payer_ip,
        paid_at=now,
        due_at=None if paid_directly else settles_at,
        paid_directly=paid_directly,
        livemode=order.livemode if live is None else live,
    )
    card = outcome.card
    return Change(
        order=paid,
        event="confirmed",
        cause=f"{attempt.id} confirmed by {attempt.gateway}",
        posted=received(paid),
        payment=Payment(
            attempt_id=attempt.id,
            attempt_before=attempt.status,
            provider_ref=outcome.provider_ref,
            reason=outcome.reason,
            card_brand=None if card is None else card.brand,
            card_last4=None if card is None else card.last4,
        ),
    )


async def confirm(tx: Tx, payments: Collection[ReceivedPayment], now: int) -> list[PaymentAttempt]:
    """Confirm payments of different orders; return the attempts that paid, as they were before.

    A payment whose order or attempt changed since it was read is left out.
    """
    orders = await take(tx, [confirmation(*payment, now) for payment in payments], now)
    attempts = {(attempt.merchant_id, attempt.id): attempt for _, attempt, _ in payments}
    paying = [attempts[_key(order)] for order in orders]
    for attempt in paying:
        count_ended(tx, attempt, "SUCCEEDED")
    await prepaid.end_reservations(tx, [(order, attempts[_key(order)]) for order in orders])
    await day_limits.count_again(tx, paying)
    return paying


def _key(order: Order) -> tuple[str, str]:
    """Return the key of the attempt that pays an order."""
    return order.merchant_id, order.paid_attempt_id or ""


async def confirm_many(tx: Tx, reports: Sequence[Report], now: int) -> set[tuple[str, str]]:
    """Confirm the payments of usual reports; return the keys of the confirmed reports.

    The other reports have changed nothing; the caller must apply each by itself. The transaction
    waits for each lock at most half a second.
    """
    attempts = await queries.ATTEMPTS_OF_GATEWAYS.all(
        tx,
        gateway=[report.gateway for report in reports],
        id=[report.gateway_event.attempt_id for report in reports],
    )
    by_key = {(attempt.gateway, attempt.id): attempt for attempt in attempts}
    orders = await _lock_orders(tx, attempts)
    payments: dict[tuple[str, str], ReceivedPayment] = {}  # of each order, the first report
    for report in reports:
        attempt = by_key.get(report.key)
        if attempt is None:
            continue
        key = (attempt.merchant_id, attempt.order_id)
        if key in orders:
            payment = ReceivedPayment(orders[key], attempt, report.gateway_event.outcome)
            if _is_usual(payment):
                payments.setdefault(key, payment)
    paying = await confirm(tx, payments.values(), now)
    return {(attempt.gateway, attempt.id) for attempt in paying}


async def _lock_orders(tx: Tx, attempts: Sequence[PaymentAttempt]) -> dict[tuple[str, str], Order]:
    """Lock the orders of attempts; return those whose Epay number no other order has.

    The result is by merchant and order id. An order that shares its number can only be confirmed
    under the locks of all orders with that number.
    """
    keys = sorted({(attempt.merchant_id, attempt.order_id) for attempt in attempts})
    if not keys:
        return {}
    locked = await queries.LOCK_MANY.all(
        tx,
        merchant_id=[merchant_id for merchant_id, _ in keys],
        id=[order_id for _, order_id in keys],
    )
    shared = await epay_numbers.find_sharing_number(tx, locked)
    orders = {(order.merchant_id, order.id): order for order in locked}
    return {key: order for key, order in orders.items() if key not in shared}


def count_ended(tx: Tx, attempt: PaymentAttempt, status: AttemptStatus) -> None:
    """If ``status`` ends the attempt, count the attempt in the metrics once ``tx`` is committed."""
    if status not in ENDS:
        return
    count = partial(metrics.count_ended_attempt, attempt.gateway, attempt.method, status)
    after_commit(tx, count)


def _is_usual(payment: ReceivedPayment) -> bool:
    """Whether a report can be applied in a batch; the module's docstring says which reports can."""
    order, attempt, outcome = payment
    amount = outcome.amount
    due = (attempt.amount_minor, attempt.currency)
    return (
        outcome.status == "SUCCEEDED"
        and attempt.status in UNDECIDED
        and can(order, "confirmed")
        and (amount is None or (amount.minor, amount.currency) == due)
        and outcome.clearing_currency != "HKD"
    )
