"""Confirming many payments in one transaction, for gateways that report many at once.

What is usual goes by arrays: an attempt that waits, an order that can be paid, the amount that was
asked for. Everything else (a second payment, another amount, money in HKD) is left to be heard
alone, by ``service.hear``. Locks are taken in the order of ids, orders before balances, so that
batches of several processes wait for each other and never in a ring.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from opentill import ledger, webhooks
from opentill.core.db import Tx
from opentill.gateways.model import Method, PaymentNews
from opentill.ledger import Movement
from opentill.orders import events, queries
from opentill.orders.fees import with_fee_of
from opentill.orders.livemode import of_gateway
from opentill.orders.model import BY_EVENT, UNDECIDED, Attempt, Order, Status, due_at, received

MOST: Final = 64  # of one transaction


class Report(msgspec.Struct, frozen=True):
    """News of a payment, and the gateway whose word they are."""

    gateway: str
    news: PaymentNews

    @property
    def key(self) -> tuple[str, str]:
        """The gateway and the attempt."""
        return self.gateway, self.news.attempt_id


class _Usual(msgspec.Struct, frozen=True):
    """What was heard, the attempt it is about, and its locked order with the method's fee."""

    news: PaymentNews
    attempt: Attempt
    before: Status
    order: Order

    @property
    def method(self) -> Method:
        """By which method it was paid."""
        return self.news.outcome.method or self.attempt.method

    def paid(self, now: int) -> Order:
        """Return the order as far as merchants are told of it once it is paid."""
        livemode = of_gateway(self.attempt.gateway)
        return msgspec.structs.replace(self.order, status="PAID", paid_at=now, livemode=livemode)


async def confirm_many(tx: Tx, heard: Sequence[Report], now: int) -> set[tuple[str, str]]:
    """Take in that payments succeeded; return the keys of the reports that are done.

    The others are untouched, and to be heard alone, such as what a gateway says of another's.
    """
    columns = zip(*(report.key for report in heard), strict=True)
    found = await queries.ATTEMPTS_OF_GATEWAYS.all(tx, *map(list, columns))
    attempts = {(attempt.gateway, attempt.id): attempt for attempt in found}
    wanted = sorted({(attempt.merchant_id, attempt.order_id) for attempt in found})
    if not wanted:
        return set()
    locked = await queries.LOCK_MANY.all(tx, *map(list, zip(*wanted, strict=True)))
    orders = {(order.merchant_id, order.id): order for order in locked}
    usual: dict[tuple[str, str], _Usual] = {}
    for report in heard:
        news, attempt = report.news, attempts.get(report.key)
        if attempt is None:
            continue
        key = (attempt.merchant_id, attempt.order_id)
        order = orders.get(key)
        if order is not None and key not in usual and _is_usual(news, attempt, order):
            paid = with_fee_of(order, news.outcome.method or attempt.method)
            usual[key] = _Usual(news, attempt, order.status, paid)
    if not usual:
        return set()
    rows = zip(*(_row(one, now) for one in usual.values()), strict=True)
    done = await queries.CONFIRM.all(tx, now, *map(list, rows))
    moved = [usual[order.merchant_id, order.id] for order in done]
    await webhooks.emit(
        tx,
        [
            events.told(one.paid(now), type_, "", now)
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


def _is_usual(news: PaymentNews, attempt: Attempt, order: Order) -> bool:
    outcome = news.outcome
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


def _row(one: _Usual, now: int) -> tuple[Any, ...]:
    """Return the parameters of ``queries.CONFIRM`` for one order."""
    order, attempt, outcome = one.order, one.attempt, one.news.outcome
    return (
        order.merchant_id,
        order.id,
        one.before,
        BY_EVENT[one.before, "confirmed"].session,
        attempt.id,
        attempt.status,
        outcome.provider_ref,
        outcome.reason,
        one.method,
        attempt.payer_ip,
        due_at(now, order.settlement_delay_days, order.settlement_calendar),
        order.platform_fee_rate,
        order.platform_fee_minor,
        order.net_settled_minor,
        f"{attempt.id} confirmed by {attempt.gateway}",
        of_gateway(attempt.gateway),
    )
