"""Accept refunds and hold their money, and apply their outcomes."""

from collections.abc import Container, Sequence
from typing import Final

import asyncpg
import structlog

from opentill import ledger, merchants, orders, webhooks
from opentill.core import money
from opentill.core.errors import Invalid, NotFound, or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.gateways.model import RefundOutcome
from opentill.ledger import Account, Movement
from opentill.ledger import Type as PostingType
from opentill.orders import Change, Order
from opentill.orders.model import Source
from opentill.orders.payments import deposit_addresses
from opentill.refunds import cases, contradictions, events, failures, queries, returned_fees
from opentill.refunds.model import (
    REFUNDABLE,
    TRANSITIONS,
    BalanceTooLow,
    NewMadeAtGateway,
    NotRefundable,
    Quote,
    Refund,
    RefundBody,
    TooMuch,
)
from opentill.refunds.shares import find_share

_log: Final = structlog.get_logger()


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
    """Create a refund of a paid order as PROCESSING, and freeze its debit.

    ``source`` is the API of the request; it must be the API that placed the order. ``forced``:
    the operator refunds although the merchant may not; the caller records that in the audit log.

    Idempotent by ``refundNo``. Raises NotFound for an unknown order, Invalid if it cannot be
    refunded, and CapabilityOff.
    """
    order = await orders.lock(tx, merchant_id, order_id)
    if body.refund_no is not None:
        first = await queries.BY_NUMBER.first(tx, merchant_id=merchant_id, refund_no=body.refund_no)
        if first is not None:
            _require_source(order, source)
            return _check_repeated(first, order, body)
    if not forced:
        await merchants.require(tx, merchant_id, "refund")
    amount = _amount(order, body, source)
    share = await find_share(tx, order, amount, now)
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
            held_from=order.account,
            user_refund_usd_minor=share.user_usd_minor,
            merchant_debit_usd_minor=share.debit_usd_minor,
            fee_returned_minor=share.fee_returned_minor,
            reason=body.reason or "",
            refund_no=body.refund_no,
            now=now,
        )
    except asyncpg.UniqueViolationError:  # a refund of another order has got the number meanwhile
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
    """Return a preview of a refund.

    The overdraft limit and the refund's number are not checked. Raises the exceptions of
    ``create``.
    """
    order = await orders.find(tx, merchant_id, order_id)
    amount = _amount(order, body, source)
    share = await find_share(tx, order, amount, now)
    balance = await ledger.find_balance(tx, merchant_id, order.settled_currency)
    least = -(await queries.OVERDRAFT.get(tx, merchant_id=merchant_id) or 0)
    return Quote(
        order_id=order.id,
        amount_minor=amount,
        left_minor=order.amount_minor - order.refund_held_minor - amount,
        currency=order.currency,
        debit_minor=share.debit_minor,
        debit_currency=order.settled_currency,
        held_from=order.account,
        balance_minor=getattr(balance, order.account) if balance else 0,
        least_minor=least,
        paid_directly=order.paid_directly,
        fee_returned_minor=share.fee_returned_minor,
    )


def _check_repeated(first: Refund, order: Order, body: RefundBody) -> Refund:
    """Return the first refund with this number. Raises Invalid if the request differs."""
    amount = first.amount_minor if body.amount is None else _parse(body.amount, order.currency)
    if first.order_id == order.id and first.amount_minor == amount:
        return first
    raise _number_taken()


def _number_taken() -> Invalid:
    return Invalid("refundNo", "refundNo must be a number that no other refund of yours has")


def _parse(amount: str, currency: str) -> int:
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
    amount = _parse(body.amount, order.currency)
    if not 0 < amount <= left:
        most = money.show(left, order.currency)
        reason = f"amount must be from 0.01 to {most}, what is left to refund"
        raise TooMuch(reason, left)
    return amount


async def _freeze(tx: Tx, refund: Refund, now: int) -> None:
    """Freeze a refund's debit. Raises BalanceTooLow below the merchant's overdraft limit."""
    accounts: tuple[Account, Account] = (refund.held_from, "frozen")
    balance = await _post(tx, refund, "FREEZE", accounts, refund.described, now)
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
    """Apply the outcome of a refund from a response, a callback or a query. Idempotent.

    ``gateway`` reports the outcome; ``attempt_id`` is the payment that a callback names. Only a
    callback reverses a refund that has succeeded: the response to a repeated request may be a
    refusal because the first request succeeded. Raises NotFound if there is no such refund of that
    payment, and OfAnotherGateway.
    """
    before = await find(tx, merchant_id, refund_id)
    await orders.find_reported_attempt(tx, gateway, merchant_id, before.attempt_id)
    if attempt_id not in {None, before.attempt_id}:
        raise NotFound
    status = TRANSITIONS.get(outcome.status)
    if status is None:
        if outcome.status != "PENDING":
            _log.warning(
                "refund unknown", refund=refund_id, status=outcome.status, reason=outcome.reason
            )
        return before
    order = await orders.lock(tx, merchant_id, before.order_id)
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
    if refund is None and status == "FAILED" and attempt_id is not None:
        refund = await queries.REVERSE.first(
            tx,
            merchant_id=merchant_id,
            id=refund_id,
            now=now,
            error_message=error,
            provider_ref=outcome.provider_ref,
        )
    if refund is None:  # the refund had ended: late and repeated reports change nothing
        ended = await find(tx, merchant_id, refund_id)
        contradictions.log(ended, status, outcome)
        return ended
    await _emit(tx, order, refund, now)
    if status == "SUCCEEDED":
        await _complete(tx, order, refund, now)
    elif refund.was_reversed:
        await _return_money(tx, order, refund, now, gateway=gateway)
    else:
        await _release(tx, order, refund, now)
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
    """End a refund with the result that the operator reports.

    ``reporting`` are the gateways that report refunds themselves. Raises NotFound, and Invalid for
    a refund that has ended or is by such a gateway.
    """
    refund = await find(tx, merchant_id, refund_id)
    attempt = await orders.find_attempt(tx, merchant_id, refund.attempt_id)
    if attempt.gateway in reporting or refund.status != "PROCESSING":
        reason = "refund must be PROCESSING, and of no gateway that reports by itself"
        raise Invalid("refund", reason)
    needs_transaction = outcome.status == "SUCCEEDED" and not outcome.provider_ref
    if needs_transaction and await deposit_addresses.find(tx, attempt.id) is not None:
        reason = (
            "refund must have its transaction, because the payment was made in tokens: run"
            " `opentill deposits refunded`"
        )
        raise Invalid("refund", reason)
    return await apply_outcome(tx, merchant_id, refund_id, outcome, now, gateway=attempt.gateway)


async def reverse_manually(
    tx: Tx, merchant_id: str, refund_id: str, reason: str, now: int
) -> Refund:
    """Reverse a refund whose money came back, as the operator reports.

    Its gateway may report the same later. Raises NotFound, and Invalid for a refund that has not
    succeeded.
    """
    refund = await find(tx, merchant_id, refund_id)
    if refund.status != "SUCCEEDED":
        raise Invalid("refund", f"refund must be SUCCEEDED: this one is {refund.status}")
    attempt = await orders.find_attempt(tx, merchant_id, refund.attempt_id)
    outcome = RefundOutcome(status="REFUSED", reason=reason)
    return await apply_outcome(
        tx, merchant_id, refund_id, outcome, now, gateway=attempt.gateway, attempt_id=attempt.id
    )


async def _emit(tx: Tx, order: Order, refund: Refund, now: int) -> None:
    """Emit the event of a refund that has ended; ``order`` is its order before the end."""
    order = await orders.with_paid_livemode(tx, order)
    await webhooks.emit(tx, [events.event_of(order, refund, now)])


async def _complete(tx: Tx, order: Order, refund: Refund, now: int) -> None:
    order = await orders.complete_refund(tx, order, refund.amount_minor, refund.id, now)
    await failures.handle_repeated(tx, order, refund, now)
    await _end_order(tx, order, refund, now)
    await _post(tx, refund, "REFUND", ("frozen", "gateway"), refund.described, now)
    await returned_fees.post(tx, refund, now)


async def _end_order(tx: Tx, order: Order, refund: Refund, now: int) -> None:
    """Make an order REFUNDED if its refunds are as high as its amount."""
    full = order.refunded_minor == order.amount_minor
    if full and orders.can(order, "refunded_in_full"):  # disputed orders keep their status
        await orders.transition(tx, Change(order, "refunded_in_full", refund.id), now)


async def record_made_at_gateway(
    tx: Tx, order: Order, new: NewMadeAtGateway, gateway: str, now: int
) -> Refund:
    """Record a refund made at the provider.

    The order must be locked, and this amount must still be refundable. The money has already left,
    so the balance may fall below the overdraft limit, as after a chargeback. Raises Invalid if
    there is no exchange rate to USD.
    """
    share = await find_share(tx, order, new.amount_minor, now)
    refund = await queries.INSERT_MADE_AT_GATEWAY.one(
        tx,
        merchant_id=order.merchant_id,
        id=new_id("re"),
        order_id=order.id,
        attempt_id=order.paid_attempt_id,
        amount_minor=new.amount_minor,
        currency=order.currency,
        debit_minor=share.debit_minor,
        debit_currency=order.settled_currency,
        held_from=order.account,
        user_refund_usd_minor=share.user_usd_minor,
        merchant_debit_usd_minor=share.debit_usd_minor,
        fee_returned_minor=share.fee_returned_minor,
        reason=new.reason,
        provider_ref=new.provider_ref,
        now=now,
    )
    await _emit(tx, order, refund, now)
    cause = f"{refund.id}: {refund.described}, made at {gateway}: {new.provider_ref}"
    order = await orders.count_refund(
        tx, order, refund.amount_minor, refund.debit_minor, cause, now
    )
    await failures.handle_repeated(tx, order, refund, now)
    await _end_order(tx, order, refund, now)
    text = f"{refund.described} at the payment provider"
    await _post(tx, refund, "REFUND", (refund.held_from, "gateway"), text, now)
    await returned_fees.post(tx, refund, now)
    return refund


async def _return_money(tx: Tx, order: Order, refund: Refund, now: int, *, gateway: str) -> None:
    """Credit the merchant with the debit of a reversed refund, and open a case for staff."""
    cause = f"{refund.id}: {refund.error_message}"
    await orders.reverse_refund(tx, order, refund.amount_minor, refund.debit_minor, cause, now)
    await cases.open_reversed(tx, refund, gateway, now)
    # Credit the account that has the order's money now: the order may have settled since.
    await _post(tx, refund, "REFUND", ("gateway", order.account), "Refund reversed", now)
    await returned_fees.post(tx, refund, now, reversed_=True)


async def _release(tx: Tx, order: Order, refund: Refund, now: int) -> None:
    """Release the frozen debit of a refund that failed."""
    cause = f"{refund.id}: {refund.error_message}"
    await orders.release_refund(tx, order, refund.amount_minor, refund.debit_minor, cause, now)
    # Credit the account that has the order's money now: the order may have settled since.
    await _post(tx, refund, "UNFREEZE", ("frozen", order.account), "Refund failed", now)


async def _post(
    tx: Tx,
    refund: Refund,
    kind: PostingType,
    accounts: tuple[Account, Account],
    text: str,
    now: int,
) -> ledger.Balance | None:
    """Post a refund's debit between two accounts; return the balance, None if the debit is 0."""
    if not refund.debit_minor:
        return None
    move = Movement(kind, *accounts, refund.debit_minor, "refund", refund.id, text)
    return await ledger.post(tx, refund.merchant_id, refund.debit_currency, [move], now)


async def find(tx: Tx, merchant_id: str, refund_id: str) -> Refund:
    """Return a refund. Raises NotFound."""
    return or_not_found(await find_or_none(tx, merchant_id, refund_id))


async def list_for_order(tx: Tx, merchant_id: str, order_id: str, limit: int) -> list[Refund]:
    """Return an order's newest refunds, newest first."""
    return await queries.OF_ORDER.all(
        tx, merchant_id=merchant_id, order_id=order_id, limit=limit, offset=0
    )


async def newest_of_orders(tx: Tx, merchant_id: str, order_ids: Sequence[str]) -> dict[str, Refund]:
    """Return the newest refund of each order that has one."""
    rows = await queries.NEWEST_OF_ORDERS.all(tx, merchant_id=merchant_id, order_id=order_ids)
    return {row.order_id: row for row in rows}


async def list_of_orders(
    tx: Tx, merchant_id: str, order_ids: Sequence[str], limit: int
) -> list[Refund]:
    """Return the newest refunds of some orders."""
    return await queries.OF_ORDERS.all(
        tx, merchant_id=merchant_id, order_id=list(order_ids), limit=limit
    )


async def find_or_none(tx: Tx, merchant_id: str, refund_id: str) -> Refund | None:
    """Return a refund, None if the merchant has none with this id."""
    return await queries.BY_ID.first(tx, merchant_id=merchant_id, id=refund_id)


async def find_order_ids(tx: Tx, merchant_id: str, refund_ids: Sequence[str]) -> dict[str, str]:
    """Return the ids of refunds' orders, by the refunds' ids."""
    rows = await queries.ORDER_IDS.all(tx, merchant_id=merchant_id, ids=list(refund_ids))
    return {row.id: row.order_id for row in rows}


async def find_by_number(tx: Tx, merchant_id: str, refund_no: str) -> Refund | None:
    """Return the refund with the merchant's own number, None if there is none."""
    return await queries.BY_NUMBER.first(tx, merchant_id=merchant_id, refund_no=refund_no)


async def find_anywhere(tx: Tx, refund_id: str) -> Refund:
    """Return a refund of any merchant, for the operator. Raises NotFound."""
    refund = await queries.ANYWHERE.first(tx, id=refund_id)
    return or_not_found(refund, f"there is no refund {refund_id}")
