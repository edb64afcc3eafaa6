"""Confirming many payments in one transaction, for gateways that report many at once.

A usual report is confirmed in a batch: its attempt waits, its order can be paid, and the amount is
the one that was due. Any other report (a second payment, another amount, money in HKD, an Epay
order that shares its number) is applied in a transaction of its own, by ``outcomes.apply_outcome``.
Locks are taken in the order of ids, orders before balances, so that batches of several processes
cannot deadlock.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from opentill.core import metrics
from opentill.db.database import Tx, once_committed
from opentill.gateways.model import GatewayPaymentEvent, PaymentOutcome
from opentill.merchants.fees import Scope
from opentill.orders.fees import with_fee_of
from opentill.orders.livemode import of_gateway
from opentill.orders.model import UNDECIDED, AttemptStatus, Order, PaymentAttempt, due_at
from opentill.orders.payments import epay_numbers, queries
from opentill.orders.payments.model import Report
from opentill.orders.settlement.movements import received
from opentill.orders.transitions import Change, Payment, can, take

MOST: Final = 64  # of one transaction
ENDS: Final = ("SUCCEEDED", "DECLINED", "REFUSED", "VOIDED", "DUPLICATE")


def confirmation(
    order: Order, attempt: PaymentAttempt, outcome: PaymentOutcome, now: int
) -> Change:
    """Return the transition by which a payment pays a locked order, with its method's fee.

    The attempt is to be SUCCEEDED in the same transaction.
    """
    method = outcome.method or attempt.method
    payment = Scope(method=method, currency=order.currency)
    priced = with_fee_of(order, payment)
    live = of_gateway(attempt.gateway)
    paid = msgspec.structs.replace(
        priced,
        payment_method=method,
        paid_attempt_id=attempt.id,
        payer_ip=attempt.payer_ip,
        paid_at=now,
        due_at=due_at(now, order.settlement_delay_days, order.settlement_calendar),
        livemode=order.livemode if live is None else live,
    )
    cause = f"{attempt.id} confirmed by {attempt.gateway}"
    return Change(order=paid, event="confirmed", cause=cause, posted=received(paid))


async def confirm_many(tx: Tx, reports: Sequence[Report], now: int) -> set[tuple[str, str]]:
    """Confirm the payments of usual reports; return the keys of the reports that are done.

    The others have changed nothing and are to be applied one by one. Waits half a second for each
    lock.
    """
    found = await queries.ATTEMPTS_OF_GATEWAYS.all(
        tx,
        gateway=[report.gateway for report in reports],
        id=[report.gateway_event.attempt_id for report in reports],
    )
    attempts = {(attempt.gateway, attempt.id): attempt for attempt in found}
    wanted = sorted({(attempt.merchant_id, attempt.order_id) for attempt in found})
    if not wanted:
        return set()
    locked = await queries.LOCK_MANY.all(
        tx,
        merchant_id=[merchant_id for merchant_id, _ in wanted],
        id=[order_id for _, order_id in wanted],
    )
    shared = await epay_numbers.with_shared_numbers(tx, locked)
    orders = {
        (order.merchant_id, order.id): order
        for order in locked
        if (order.merchant_id, order.id) not in shared
    }
    usual: dict[tuple[str, str], tuple[PaymentAttempt, Change]] = {}
    for report in reports:
        gateway_event, attempt = report.gateway_event, attempts.get(report.key)
        if attempt is None:
            continue
        key = (attempt.merchant_id, attempt.order_id)
        order = orders.get(key)
        if order is not None and key not in usual and _is_usual(gateway_event, attempt, order):
            outcome = gateway_event.outcome
            card = outcome.card
            payment = Payment(
                attempt_id=attempt.id,
                attempt_before=attempt.status,
                provider_ref=outcome.provider_ref,
                reason=outcome.reason,
                card_brand=None if card is None else card.brand,
                card_last4=None if card is None else card.last4,
            )
            change = confirmation(order, attempt, outcome, now)
            usual[key] = attempt, msgspec.structs.replace(change, payment=payment)
    moved = await take(tx, [change for _, change in usual.values()], now)
    paid = [usual[order.merchant_id, order.id][0] for order in moved]
    for attempt in paid:
        count_ended(tx, attempt, "SUCCEEDED")
    return {(attempt.gateway, attempt.id) for attempt in paid}


def count_ended(tx: Tx, attempt: PaymentAttempt, status: AttemptStatus) -> None:
    """Count for the metrics that an attempt came to an end, once that is committed."""
    if status not in ENDS:
        return
    count = partial(metrics.count_ended_attempt, attempt.gateway, attempt.method, status)
    once_committed(tx, count)


def _is_usual(gateway_event: GatewayPaymentEvent, attempt: PaymentAttempt, order: Order) -> bool:
    outcome = gateway_event.outcome
    amount = outcome.amount
    asked = (attempt.amount_minor, attempt.currency)
    return (
        outcome.status == "SUCCEEDED"
        and attempt.status in UNDECIDED
        and can(order, "confirmed")
        and (amount is None or (amount.minor, amount.currency) == asked)
        and outcome.clearing_currency != "HKD"
        and not (outcome.action_url or outcome.qr_text)
    )
