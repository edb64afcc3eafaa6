"""Confirming many payments in one transaction, for gateways that report many at once.

What is usual goes by arrays: an attempt that waits, an order that can be paid, the amount that was
asked for. Everything else (a second payment, another amount, money in HKD) is applied in a
transaction of its own, by ``service.apply_outcome``. Locks are taken in the order of ids, orders
before balances, so that batches of several processes wait for each other and never in a ring.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import msgspec

from opentill import ledger, webhooks
from opentill.db.database import Tx
from opentill.db.query import columns
from opentill.gateways.model import GatewayPaymentEvent, Method
from opentill.ledger import Movement
from opentill.orders import events, queries
from opentill.orders.fees import with_fee_of
from opentill.orders.livemode import of_gateway
from opentill.orders.model import (
    BY_EVENT,
    UNDECIDED,
    AttemptStatus,
    Order,
    PaymentAttempt,
    Status,
    due_at,
    received,
)

MOST: Final = 64  # of one transaction


class Report(msgspec.Struct, frozen=True):
    """A gateway's event about a payment, and the gateway that signed it."""

    gateway: str
    gateway_event: GatewayPaymentEvent

    @property
    def key(self) -> tuple[str, str]:
        """The gateway and the attempt."""
        return self.gateway, self.gateway_event.attempt_id


class _Usual(msgspec.Struct, frozen=True):
    """A gateway's report, the attempt it is about, and its locked order with the method's fee."""

    gateway_event: GatewayPaymentEvent
    attempt: PaymentAttempt
    before: Status
    order: Order

    @property
    def method(self) -> Method:
        """By which method it was paid."""
        return self.gateway_event.outcome.method or self.attempt.method

    def paid(self, now: int) -> Order:
        """Return the order as far as merchants are told of it once it is paid."""
        livemode = of_gateway(self.attempt.gateway)
        return msgspec.structs.replace(self.order, status="PAID", paid_at=now, livemode=livemode)


class Paid(msgspec.Struct, frozen=True, kw_only=True):
    """An order that is paid, as ``queries.CONFIRM`` takes it."""

    merchant_id: str
    order_id: str
    before: Status
    session: str | None  # its new status; None: it stays as it is
    attempt_id: str
    attempt_before: AttemptStatus
    provider_ref: str
    reason: str
    method: Method
    payer_ip: str
    due_at: int
    fee_rate: Decimal  # the fee may depend on the method
    fee_minor: int
    net_minor: int
    cause: str
    livemode: bool | None


async def confirm_many(tx: Tx, reports: Sequence[Report], now: int) -> set[tuple[str, str]]:
    """Take in that payments succeeded; return the keys of the reports that are done.

    The others are untouched and to be applied one by one, such as an event about the payment of
    another gateway.
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
    orders = {(order.merchant_id, order.id): order for order in locked}
    usual: dict[tuple[str, str], _Usual] = {}
    for report in reports:
        gateway_event, attempt = report.gateway_event, attempts.get(report.key)
        if attempt is None:
            continue
        key = (attempt.merchant_id, attempt.order_id)
        order = orders.get(key)
        if order is not None and key not in usual and _is_usual(gateway_event, attempt, order):
            priced = with_fee_of(order, gateway_event.outcome.method or attempt.method)
            usual[key] = _Usual(gateway_event, attempt, order.status, priced)
    if not usual:
        return set()
    paid = columns(Paid, (_paid(one, now) for one in usual.values()))
    done = await queries.CONFIRM.all(tx, **paid, now=now)
    moved = [usual[order.merchant_id, order.id] for order in done]
    await webhooks.emit(
        tx,
        [
            events.event_of(one.paid(now), type_, "", now)
            for one in moved
            for type_ in BY_EVENT[one.before, "confirmed"].emits
        ],
    )
    books: dict[tuple[str, str], list[Movement]] = {}
    for one in moved:
        key = (one.order.merchant_id, one.order.settled_currency)
        books.setdefault(key, []).extend(received(one.order))
    await ledger.post_many(tx, books, now)
    return {(one.attempt.gateway, one.attempt.id) for one in moved}


def _is_usual(gateway_event: GatewayPaymentEvent, attempt: PaymentAttempt, order: Order) -> bool:
    outcome = gateway_event.outcome
    amount = outcome.amount
    asked = (attempt.amount_minor, attempt.currency)
    return (
        outcome.status == "SUCCEEDED"
        and attempt.status in UNDECIDED
        and (order.status, "confirmed") in BY_EVENT
        and (amount is None or (amount.minor, amount.currency) == asked)
        and outcome.clearing_currency != "HKD"
        and not (outcome.action_url or outcome.qr_text)
    )


def _paid(one: _Usual, now: int) -> Paid:
    order, attempt, outcome = one.order, one.attempt, one.gateway_event.outcome
    return Paid(
        merchant_id=order.merchant_id,
        order_id=order.id,
        before=one.before,
        session=BY_EVENT[one.before, "confirmed"].session,
        attempt_id=attempt.id,
        attempt_before=attempt.status,
        provider_ref=outcome.provider_ref,
        reason=outcome.reason,
        method=one.method,
        payer_ip=attempt.payer_ip,
        due_at=due_at(now, order.settlement_delay_days, order.settlement_calendar),
        fee_rate=order.platform_fee_rate,
        fee_minor=order.platform_fee_minor,
        net_minor=order.net_settled_minor,
        cause=f"{attempt.id} confirmed by {attempt.gateway}",
        livemode=of_gateway(attempt.gateway),
    )
