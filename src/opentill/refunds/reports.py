"""Gateways' reports of refunds: of ours, and of refunds made at the provider.

A refund made at the provider has already moved money. It is recorded as a refund of its order if
possible, and else as a case for staff; it is never dropped (contract.md#refund-at-gateway).
"""

from collections.abc import Container
from decimal import Decimal
from typing import Final

from opentill import orders
from opentill.core import money
from opentill.core.errors import Invalid, NotFound
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.gateways.model import GatewayRefundEvent
from opentill.orders import Order, PaymentAttempt
from opentill.refunds import cases, queries, service
from opentill.refunds.model import REFUNDABLE, NewMadeAtGateway, Refund

_LONGEST_REASON: Final = 255
_LONGEST_REFERENCE: Final = 255
_ENDED: Final = ("SUCCEEDED", "REFUSED")
_SECOND_PAYMENTS: Final = ("DUPLICATE", "GIVEN_BACK")
_FAILED: Final = "failed at the gateway"


async def apply_report(
    tx: Tx, merchant_id: str, report: GatewayRefundEvent, now: int, *, gateway: str
) -> Refund | None:
    """Apply a gateway's report of a refund. Idempotent; reports may come in any order.

    A report that names our refund id is about that refund. A report without an id, or with an id
    that a restored database has lost, is about a refund made at the provider. Returns the refund,
    None if there is none. Raises NotFound and OfAnotherGateway.
    """
    if report.refund_id:
        try:
            return await service.apply_outcome(
                tx, merchant_id, report.refund_id, report.outcome, now,
                gateway=gateway, attempt_id=report.attempt_id,
            )  # fmt: skip
        except NotFound:
            exists = await service.find_or_none(tx, merchant_id, report.refund_id) is not None
            if exists or report.amount is None or not report.outcome.provider_ref:
                raise
    return await _apply_made_at_gateway(tx, merchant_id, report, now, gateway=gateway)


async def _apply_made_at_gateway(
    tx: Tx, merchant_id: str, report: GatewayRefundEvent, now: int, *, gateway: str
) -> Refund | None:
    attempt = await orders.find_reported_attempt(tx, gateway, merchant_id, report.attempt_id)
    ref = report.outcome.provider_ref
    if report.amount is None or not ref:
        raise NotFound(reason=f"{gateway} reports a refund without its amount or its name")
    order = await orders.lock(tx, merchant_id, attempt.order_id)
    existing_refund = await queries.OF_ATTEMPT.first(
        tx, merchant_id=merchant_id, order_id=order.id, attempt_id=attempt.id, provider_ref=ref
    )
    if existing_refund is not None:
        return await service.apply_outcome(
            tx, merchant_id, existing_refund.id, report.outcome, now,
            gateway=gateway, attempt_id=attempt.id,
        )  # fmt: skip
    if report.outcome.status not in _ENDED:
        return None
    if attempt.status in _SECOND_PAYMENTS and await _apply_to_second_payment(
        tx, order, attempt, report, now
    ):
        return None
    if report.outcome.status == "REFUSED":
        await _apply_failure(tx, attempt, report, now)
        return None
    return await _apply_success(tx, order, attempt, report, report.amount, now)


async def _apply_to_second_payment(
    tx: Tx, order: Order, attempt: PaymentAttempt, report: GatewayRefundEvent, now: int
) -> bool:
    """Apply a refund that sends all of a second payment back, whose money is in no balance.

    Returns False, and changes nothing, for any other refund.
    """
    ref, has_succeeded = report.outcome.provider_ref, report.outcome.status == "SUCCEEDED"
    cause = f"{attempt.id} {ref}"
    lines = await orders.history(tx, order.merchant_id, order.id)
    if any((line.event, line.cause) == ("payment_given_back", cause) for line in lines):
        if not has_succeeded:
            await orders.apply_duplicate_return(tx, attempt, report.outcome, now)
        return True  # ignore a repeated success: the money may have come back since
    existing_case = await cases.find_unmatched(tx, attempt, ref)
    if not has_succeeded or report.amount != Money(attempt.amount_minor, attempt.currency):
        return False
    if existing_case is not None and not existing_case.waits:
        return False
    await orders.apply_duplicate_return(tx, attempt, report.outcome, now, by_operator=True)
    await cases.close_unmatched(tx, attempt, ref, "the second payment was given back", now)
    return True


async def _apply_failure(
    tx: Tx, attempt: PaymentAttempt, report: GatewayRefundEvent, now: int
) -> None:
    """Record that a refund made at the provider has failed, so that late reports are ignored.

    The ledger lacks such a refund. If staff had corrected the balance and closed its case, they get
    a new case, because the money has come back.
    """
    ref = report.outcome.provider_ref
    existing_case = await cases.find_unmatched(tx, attempt, ref)
    if existing_case is not None and existing_case.closed_at is not None:
        if existing_case.status == "SUCCEEDED" and existing_case.closed_by != _FAILED:
            refusal = f"it was closed by {existing_case.closed_by}, and has failed since"
            await cases.store_unmatched(tx, attempt, report, now, refusal=refusal)
        return
    if existing_case is None:
        await cases.store_unmatched(tx, attempt, report, now, refusal=_FAILED)
    await cases.close_unmatched(tx, attempt, ref, _FAILED, now)


async def _apply_success(
    tx: Tx,
    order: Order,
    attempt: PaymentAttempt,
    report: GatewayRefundEvent,
    amount: Money,
    now: int,
) -> Refund | None:
    ref = report.outcome.provider_ref
    existing_case = await cases.find_unmatched(tx, attempt, ref)
    if existing_case is not None and not existing_case.waits:
        return None  # staff have closed the case, or the refund has failed meanwhile
    refusal = _refusal(order, attempt, amount)
    if refusal is None:
        new = NewMadeAtGateway(
            amount_minor=amount.minor,
            reason=report.outcome.reason[:_LONGEST_REASON],
            provider_ref=ref,
        )
        try:
            refund = await service.record_made_at_gateway(tx, order, new, attempt.gateway, now)
        except Invalid as error:  # there is no exchange rate; nothing was written yet
            refusal = error.reason or "it cannot be recorded"
        else:
            await cases.close_unmatched(tx, attempt, ref, f"recorded as {refund.id}", now)
            return refund
    if existing_case is None:
        cause = f"{ref}: {money.named(amount.minor, amount.currency)}: {refusal}"
        await orders.note(tx, order, "refund_at_gateway_unmatched", cause, now)
    await cases.store_unmatched(tx, attempt, report, now, refusal=refusal)
    return None


def _refusal(order: Order, attempt: PaymentAttempt, amount: Money) -> str | None:
    """Return why a refund made at the provider cannot be recorded for its order, None if it can."""
    if order.paid_at is not None and attempt.id != order.paid_attempt_id:
        return f"the order was paid by {order.paid_attempt_id}, not by {attempt.id}"
    if order.status not in REFUNDABLE:
        return f"the order is {order.status}"
    if amount.currency != order.currency:
        return f"the refund is in {amount.currency}, but the order is in {order.currency}"
    left = order.amount_minor - order.refund_held_minor
    if not 0 < amount.minor <= left:
        most = money.named(left, order.currency)
        return f"the refund must be at most what is left to refund, {most}"
    if money.times(amount.minor, Decimal(1), order.currency, order.currency) != amount.minor:
        return "the refund's amount is not a whole number of hundredths"
    return None


async def record_manually(
    tx: Tx,
    merchant_id: str,
    order_id: str,
    new: NewMadeAtGateway,
    now: int,
    *,
    reporting: Container[str],
) -> Refund:
    """Record a refund that was made elsewhere, as the operator reports it; nothing is sent.

    ``reporting`` are the gateways that report refunds themselves. Idempotent by the reference.
    Raises NotFound, and Invalid for a refund that cannot be recorded.
    """
    existing_refund = await check_manual(tx, merchant_id, order_id, new, reporting=reporting)
    if existing_refund is not None:
        return existing_refund
    order = await orders.lock(tx, merchant_id, order_id)
    attempt = await orders.find_attempt(tx, merchant_id, order.paid_attempt_id or "")
    return await service.record_made_at_gateway(tx, order, new, attempt.gateway, now)


async def check_manual(
    tx: Tx, merchant_id: str, order_id: str, new: NewMadeAtGateway, *, reporting: Container[str]
) -> Refund | None:
    """Return the refund that is recorded with this reference, None if a new one can be recorded.

    Raises the exceptions of ``record_manually``.
    """
    if not 0 < len(new.provider_ref) <= _LONGEST_REFERENCE or not new.provider_ref.isprintable():
        raise Invalid("reference", "reference must be 1 to 255 printable characters")
    order = await orders.lock(tx, merchant_id, order_id)
    if order.paid_attempt_id is None:
        raise Invalid("orderId", f"orderId must be a paid order: this one is {order.status}")
    attempt = await orders.find_attempt(tx, merchant_id, order.paid_attempt_id)
    if attempt.gateway in reporting:
        reason = (
            f"orderId must be an order whose gateway reports no refunds: {attempt.gateway} does"
        )
        raise Invalid("orderId", reason)
    existing_refund = await queries.OF_ATTEMPT.first(
        tx,
        merchant_id=merchant_id,
        order_id=order_id,
        attempt_id=attempt.id,
        provider_ref=new.provider_ref,
    )
    if existing_refund is not None:
        if existing_refund.amount_minor != new.amount_minor:
            raise Invalid("reference", "reference must be one that no refund of another amount has")
        return existing_refund
    if refusal := _refusal(order, attempt, Money(new.amount_minor, order.currency)):
        raise Invalid("amount", f"the refund cannot be recorded: {refusal}")
    return None
