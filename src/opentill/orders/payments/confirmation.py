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
from opentill.db.database import Db, Tx, limit_lock_waits, once_committed
from opentill.db.query import Statement
from opentill.gateways.model import GatewayPaymentEvent, PaymentOutcome
from opentill.merchants.fees import Scope
from opentill.orders.fees import with_fee_of
from opentill.orders.livemode import of_gateway
from opentill.orders.model import UNDECIDED, AttemptStatus, Order, PaymentAttempt, due_at
from opentill.orders.payments import epay_numbers, queries
from opentill.orders.payments.model import Batch, Report
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


async def by_transaction(db: Db, reports: Sequence[Report]) -> list[Batch]:
    """Say which reports are to be confirmed in one transaction: all, on one machine.

    Where tables are distributed, those of one merchant: the transaction of several would lock rows
    on several nodes, and has to be prepared on each before it can be committed.
    """
    if not Statement.distributes:
        return [Batch(None, reports)]
    ids = [report.gateway_event.attempt_id for report in reports]
    async with db.connection() as tx:
        found = await queries.MERCHANTS_OF.all(tx, ids=ids)
    merchants = {one.id: one.merchant_id for one in found}
    parts: dict[str, list[Report]] = {}
    for report in reports:
        merchant_id = merchants.get(report.gateway_event.attempt_id)
        if merchant_id is not None:
            parts.setdefault(merchant_id, []).append(report)
    return [Batch(merchant_id, part) for merchant_id, part in parts.items()]


async def _attempts(tx: Tx, batch: Batch) -> list[PaymentAttempt]:
    """Return the attempts that are reported; locks are then waited for half a second each."""
    named = {
        "gateway": [report.gateway for report in batch.reports],
        "id": [report.gateway_event.attempt_id for report in batch.reports],
    }
    if batch.merchant_id is None:
        return await queries.ATTEMPTS_OF_GATEWAYS.all(tx, **named)
    await limit_lock_waits(tx, "500ms")
    return await queries.ATTEMPTS_OF_MERCHANT.all(tx, merchant_id=batch.merchant_id, **named)


async def confirm_many(
    tx: Tx, reports: Sequence[Report], now: int, *, merchant_id: str | None = None
) -> set[tuple[str, str]]:
    """Confirm the payments of usual reports; return the keys of the reports that are done.

    The others have changed nothing and are to be applied one by one. ``merchant_id``: whose all of
    them are, see ``by_transaction``.
    """
    found = await _attempts(tx, Batch(merchant_id, reports))
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
