"""What can be done with refunds: accept one and hold its money, and apply how it ended."""

from collections.abc import Container, Sequence
from decimal import Decimal
from typing import Final

import asyncpg
import msgspec
import structlog

from opentill import ledger, merchants, orders, rates, webhooks
from opentill.core import money
from opentill.core.errors import Invalid, NotFound, or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.gateways.model import RefundOutcome
from opentill.ledger import Account, Movement
from opentill.ledger import Type as PostingType
from opentill.orders import Change, Order
from opentill.orders.model import Source
from opentill.refunds import events, queries
from opentill.refunds.model import (
    REFUNDABLE,
    TRANSITIONS,
    BalanceTooLow,
    NotRefundable,
    Quote,
    Refund,
    RefundBody,
    Status,
    TooMuch,
)

_log: Final = structlog.get_logger()


class _Share(msgspec.Struct, frozen=True):
    """What a refund costs: minor units in the settled currency and in USD."""

    debit_minor: int
    user_usd_minor: int
    debit_usd_minor: int


async def create(
    tx: Tx,
    merchant_id: str,
    order_id: str,
    body: RefundBody,
    now: int,
    *,
    source: Source = "API",
    forced: bool = False,
) -> Refund:
    """Accept a refund of a paid order, PROCESSING, and freeze what it takes from the merchant.

    ``source`` is where the refund is requested: an order is refunded where it was placed.
    ``forced``: the operator refunds although the merchant may not, which is audited.

    The same ``refundNo`` with the same order and amount returns the first refund. Raises NotFound
    for an unknown order, Invalid for what cannot be refunded, and CapabilityOff.
    """
    order = await orders.lock(tx, merchant_id, order_id)
    if body.refund_no is not None:
        first = await queries.BY_NUMBER.first(tx, merchant_id=merchant_id, refund_no=body.refund_no)
        if first is not None:
            _require_source(order, source)
            return _same(first, order, body)
    if not forced:
        await merchants.require(tx, merchant_id, "refund")
    amount = _amount(order, body, source)
    share = _share(await _with_usd_rate(tx, order, now), amount)
    try:
        refund = await queries.INSERT.one(
            tx,
            merchant_id=merchant_id,
            id=new_id("re"),
            order_id=order.id,
            attempt_id=order.paid_attempt_id,
            amount_minor=amount,
            currency=order.currency,
            debit_minor=share.debit_minor,
            debit_currency=order.settled_currency,
            held_from=order.stands_in,
            user_refund_usd_minor=share.user_usd_minor,
            merchant_debit_usd_minor=share.debit_usd_minor,
            reason=body.reason or "",
            refund_no=body.refund_no,
            now=now,
        )
    except asyncpg.UniqueViolationError:  # another order's refund took the number just now
        raise _number_taken() from None
    cause = f"{refund.id}: {refund.described}"
    await orders.hold_refund(tx, order, amount, share.debit_minor, cause, now)
    await _freeze(tx, refund, now)
    return refund


async def quote(
    tx: Tx,
    merchant_id: str,
    order_id: str,
    body: RefundBody,
    now: int,
    *,
    source: Source = "API",
) -> Quote:
    """Return what a refund would move as things stand.

    Raises as ``create`` does, but for what the overdraft limit and other refunds' numbers refuse.
    """
    order = await orders.find(tx, merchant_id, order_id)
    amount = _amount(order, body, source)
    share = _share(await _with_usd_rate(tx, order, now), amount)
    balance = await ledger.balance(tx, merchant_id, order.settled_currency)
    least = -(await queries.OVERDRAFT.get(tx, merchant_id=merchant_id) or 0)
    return Quote(
        order_id=order.id,
        amount_minor=amount,
        left_minor=order.amount_minor - order.refund_held_minor - amount,
        currency=order.currency,
        debit_minor=share.debit_minor,
        debit_currency=order.settled_currency,
        held_from=order.stands_in,
        balance_minor=getattr(balance, order.stands_in) if balance else 0,
        least_minor=least,
    )


def _same(first: Refund, order: Order, body: RefundBody) -> Refund:
    """Return the refund that has this number already, if it equals the requested one."""
    wanted = first.amount_minor if body.amount is None else _parsed(body.amount, order.currency)
    if first.order_id == order.id and first.amount_minor == wanted:
        return first
    raise _number_taken()


def _number_taken() -> Invalid:
    return Invalid("refundNo", "refundNo must be a number that no other refund of yours has")


def _parsed(amount: str, currency: str) -> int:
    try:
        return money.parse(amount, currency)
    except ValueError as error:
        raise Invalid("amount", f"amount {error}") from None


def _require_source(order: Order, source: Source) -> None:
    """Raise NotRefundable for an order that is refunded elsewhere (contract.md#refund-source)."""
    if order.source != source:
        where = "/epay/api.php?act=refund" if order.source == "EPAY" else "/v1/orders/{id}/refunds"
        reason = f"orderId must be an order of this API: refund this one at {where}"
        raise NotRefundable("orderId", reason)


def _amount(order: Order, body: RefundBody, source: Source) -> int:
    _require_source(order, source)
    if order.status not in REFUNDABLE:
        reason = f"orderId must be an order that is PAID or SETTLED: this one is {order.status}"
        raise NotRefundable("orderId", reason)
    left = order.amount_minor - order.refund_held_minor
    if left <= 0:
        reason = "amount must not be more than what is left to refund: nothing is left"
        raise TooMuch(reason, 0)
    if body.amount is None:
        return left
    amount = _parsed(body.amount, order.currency)
    if not 0 < amount <= left:
        most = money.show(left, order.currency)
        reason = f"amount must be from 0.01 to {most}, what is left to refund"
        raise TooMuch(reason, left)
    return amount


async def _with_usd_rate(tx: Tx, order: Order, now: int) -> Order:
    """Return the order with its rate to USD, in which its refunds are shown too.

    An order that was opened while there was no rate gets the newest one, however old; where its own
    currency has none, that of the currency it settles in. Raises Invalid on ``orderId`` if there
    never was one.
    """
    if order.usd_exchange_rate is not None:
        return order
    currency, settled = order.currency, order.settled_currency
    found = await rates.latest(tx, currency, "USD", now)
    factor = Decimal(1)
    if found is None and settled != currency:
        found, factor = await rates.latest(tx, settled, "USD", now), order.exchange_rate
    if found is None:
        reason = (
            "orderId must be an order in a currency with an exchange rate to USD, which a refund "
            f"shows: the operator sets one by `opentill rates set {currency} USD RATE`"
        )
        raise Invalid("orderId", reason)
    rate = found.rate * factor
    if money.times(order.amount_minor, rate, currency, "USD") > money.MOST_MINOR:
        reason = "orderId must be an order that its exchange rate to USD makes worth less"
        raise Invalid("orderId", f"{reason}: see the rate from {found.base} to USD")
    _log.warning(
        "refund shown in USD by a later rate",
        order=order.id, currency=found.base, rate=str(found.rate), valid_from=found.valid_from,
    )  # fmt: skip
    return msgspec.structs.replace(order, usd_exchange_rate=rate)


def _share(order: Order, amount: int) -> _Share:
    """Work out a refund's share of the order, so that the shares of all refunds add up exactly.

    A share is what the refunds accepted so far and this one cost together, less what those cost:
    however the parts are rounded, the last one brings the sum to the whole.
    """
    held = order.refund_held_minor + amount
    gross = money.times(held, order.exchange_rate, order.currency, order.settled_currency)
    if held == order.amount_minor:
        gross = order.gross_settled_minor
    if order.refund_fee_policy == "RETURNED":
        fee = order.gross_settled_minor - order.net_settled_minor
        # Both are rounded, so with a fee of almost all a part could cost more than the whole.
        gross -= money.share(fee, held, order.amount_minor, order.settled_currency)
        gross = min(gross, order.net_settled_minor)
    debit = max(0, gross - order.refund_debit_minor)
    to_usd = order.usd_exchange_rate
    if to_usd is None:
        raise AssertionError  # see _with_usd_rate
    user_usd = money.times(amount, to_usd, order.currency, "USD")
    settled, usd_rate = order.settled_currency, to_usd / order.exchange_rate
    debit_usd = debit if settled == "USD" else money.times(debit, usd_rate, settled, "USD")
    return _Share(debit, user_usd, debit_usd)


async def _freeze(tx: Tx, refund: Refund, now: int) -> None:
    """Freeze what a refund takes. Raises Invalid below the merchant's overdraft limit."""
    way: tuple[Account, Account] = (refund.held_from, "frozen")
    balance = await _post(tx, refund, "FREEZE", way, refund.described, now)
    if balance is None:
        return
    least = -(await queries.OVERDRAFT.get(tx, merchant_id=refund.merchant_id) or 0)
    left = balance.pending if refund.held_from == "pending" else balance.available
    if left < least:
        reason = (
            f"amount must leave the {refund.held_from} balance at or above "
            f"{money.show(least, refund.debit_currency)} {refund.debit_currency}"
        )
        raise BalanceTooLow(reason, least)


async def apply_outcome(
    tx: Tx,
    merchant_id: str,
    refund_id: str,
    outcome: RefundOutcome,
    now: int,
    *,
    gateway: str,
    attempt_id: str | None = None,
) -> Refund:
    """Apply the outcome of a refund: from a response, a callback or a query, however often.

    ``gateway`` is the one that reports it, ``attempt_id`` the payment that it names along with the
    refund. Raises NotFound for a refund that is not there, or not of that payment, and
    OfAnotherGateway.
    """
    seen = await find(tx, merchant_id, refund_id)
    await orders.attempt_of(tx, gateway, merchant_id, seen.attempt_id)
    if attempt_id not in {None, seen.attempt_id}:
        raise NotFound
    status = TRANSITIONS.get(outcome.status)
    if status is None:
        if outcome.status != "PENDING":
            _log.warning(
                "refund unknown", refund=refund_id, status=outcome.status, reason=outcome.reason
            )
        return seen
    order = await orders.lock(tx, merchant_id, seen.order_id)
    error = None if status == "SUCCEEDED" else outcome.reason or "refused by the bank"
    refund = await queries.FINISH.first(
        tx,
        merchant_id=merchant_id,
        id=refund_id,
        status=status,
        now=now,
        error_message=error,
        provider_ref=outcome.provider_ref,
    )
    if refund is None:  # it ended before: late and repeated events change nothing
        return await _ended_before(tx, seen, status, outcome)
    noted = await orders.with_noted_livemode(tx, order)
    await webhooks.emit(tx, [events.event_of(noted, refund, now)])
    if status == "SUCCEEDED":
        await _succeeded(tx, order, refund, now)
    else:
        await _failed(tx, order, refund, now)
    return refund


async def end_manually(
    tx: Tx,
    merchant_id: str,
    refund_id: str,
    outcome: RefundOutcome,
    now: int,
    *,
    reporting: Container[str],
) -> Refund:
    """End a refund as the operator knows its result; ``reporting`` are gateways that report it.

    Raises NotFound, and Invalid for one that has ended or that its gateway reports by itself.
    """
    refund = await find(tx, merchant_id, refund_id)
    attempt = await orders.find_attempt(tx, merchant_id, refund.attempt_id)
    if attempt.gateway in reporting or refund.status != "PROCESSING":
        why = "refund must be PROCESSING, and of no gateway that reports by itself"
        raise Invalid("refund", why)
    return await apply_outcome(tx, merchant_id, refund_id, outcome, now, gateway=attempt.gateway)


async def _ended_before(tx: Tx, seen: Refund, status: Status, outcome: RefundOutcome) -> Refund:
    """Return a refund that had ended; an error is logged if it ended otherwise than reported."""
    ended = await find(tx, seen.merchant_id, seen.id)
    if ended.status != status:
        _log.error(
            "refund ended otherwise",
            refund=ended.id, status=ended.status, reported=outcome.status, reason=outcome.reason,
        )  # fmt: skip
    return ended


async def _succeeded(tx: Tx, order: Order, refund: Refund, now: int) -> None:
    order = await orders.complete_refund(tx, order, refund.amount_minor, refund.id, now)
    full = order.refunded_minor == order.amount_minor
    if full and orders.can(order, "refunded_in_full"):  # a disputed order goes its own way
        await orders.transition(tx, Change(order, "refunded_in_full", refund.id), now)
    await _post(tx, refund, "REFUND", ("frozen", "gateway"), refund.described, now)


async def _failed(tx: Tx, order: Order, refund: Refund, now: int) -> None:
    cause = f"{refund.id}: {refund.error_message}"
    await orders.release_refund(tx, order, refund.amount_minor, refund.debit_minor, cause, now)
    # To where the order's money is now: the order may have settled since.
    await _post(tx, refund, "UNFREEZE", ("frozen", order.stands_in), "Refund failed", now)


async def _post(
    tx: Tx, refund: Refund, kind: PostingType, way: tuple[Account, Account], text: str, now: int
) -> ledger.Balance | None:
    """Post a refund's debit from one account to another; None where it costs nothing."""
    if not refund.debit_minor:
        return None
    move = Movement(kind, *way, refund.debit_minor, "refund", refund.id, text)
    return await ledger.post(tx, refund.merchant_id, refund.debit_currency, [move], now)


async def find(tx: Tx, merchant_id: str, refund_id: str) -> Refund:
    """Return a refund. Raises NotFound."""
    return or_not_found(await look_for(tx, merchant_id, refund_id))


async def of_order(tx: Tx, merchant_id: str, order_id: str, limit: int) -> list[Refund]:
    """Return an order's newest refunds, newest first."""
    return await queries.OF_ORDER.all(
        tx, merchant_id=merchant_id, order_id=order_id, limit=limit, offset=0
    )


async def look_for(tx: Tx, merchant_id: str, refund_id: str) -> Refund | None:
    """Return a refund, None if the merchant has none of this id."""
    return await queries.BY_ID.first(tx, merchant_id=merchant_id, id=refund_id)


async def orders_of(tx: Tx, merchant_id: str, refund_ids: Sequence[str]) -> dict[str, str]:
    """Return the id of each refund's order, by the refund's id."""
    found = await queries.ORDERS.all(tx, merchant_id=merchant_id, ids=list(refund_ids))
    return {one.id: one.order_id for one in found}


async def find_by_number(tx: Tx, merchant_id: str, refund_no: str) -> Refund | None:
    """Return the refund that has the merchant's number, None if there is none."""
    return await queries.BY_NUMBER.first(tx, merchant_id=merchant_id, refund_no=refund_no)


async def find_anywhere(tx: Tx, refund_id: str) -> Refund:
    """Return a refund of whichever merchant, for the operator. Raises NotFound."""
    found = await queries.ANYWHERE.first(tx, id=refund_id)
    return or_not_found(found, f"there is no refund {refund_id}")
