"""Payouts above the deployment's limit: one person requests them, another one approves.

A waiting request has moved no money. Its approval creates the payout from the balance of that
moment. The person who requested it cannot approve it, but may reject it (decision 0013).
"""

from decimal import Decimal

from opentill import ledger, merchants
from opentill.core import money
from opentill.core.errors import Invalid, or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.merchants import Actor, Merchant, approval_limits, operator_actions
from opentill.payouts import queries, service
from opentill.payouts.model import Payout, PayoutRequest, WaitingPayout


async def request(
    tx: Tx, merchant_id: str, requested: PayoutRequest, above: Decimal | None, now: int
) -> Payout | WaitingPayout:
    """Create a payout, or a WAITING request if it exceeds the deployment's limit ``above``.

    Idempotent by its reference. Raises NotFound, Invalid, and CapabilityOff for a merchant whose
    payouts are off.
    """
    await merchants.lock(tx, merchant_id)
    merchant = await merchants.find(tx, merchant_id)
    reference = operator_actions.check_reference(requested.reference)
    first = await queries.REQUEST_OF_REFERENCE.first(
        tx, merchant_id=merchant_id, reference=reference
    )
    if first is not None:
        return await _check_repeated(tx, first, requested)
    amount = await _amount(tx, merchant, requested)
    currency = merchant.settlement_currency
    existing = await queries.BY_REFERENCE.first(tx, merchant_id=merchant_id, reference=reference)
    total = (amount + requested.fee_minor, currency)
    if existing is not None or not await approval_limits.needs_second(
        tx, merchant_id, requested.by, total, above, now
    ):
        return await service.create(tx, merchant_id, requested, above, now)
    if requested.fee_minor:
        operator_actions.check_amount("fee", requested.fee_minor, currency)
    service.check_amount(merchant, amount)
    merchant.require("payout")
    actor = operator_actions.check_actor(requested.by, requested.reason)
    request_id = new_id("preq")
    subject = f"{request_id}: {money.show(amount, currency)} {currency}, waiting"
    await merchants.record_audit(tx, actor, "payouts request", merchant_id, subject, now)
    return await queries.INSERT_REQUEST.one(
        tx, merchant_id=merchant_id, id=request_id, amount_minor=amount,
        fee_minor=requested.fee_minor, currency=currency, reference=reference, reason=actor.reason,
        asked_by=actor.who, now=now,
    )  # fmt: skip


async def _amount(tx: Tx, merchant: Merchant, requested: PayoutRequest) -> int:
    """Return the requested amount; for None, everything available at this moment minus the fee."""
    if requested.amount_minor is not None:
        return requested.amount_minor
    balance = await ledger.find_balance(tx, merchant.id, merchant.settlement_currency)
    return (balance.available if balance else 0) - requested.fee_minor


async def _check_repeated(
    tx: Tx, first: WaitingPayout, requested: PayoutRequest
) -> Payout | WaitingPayout:
    """Return the first request with this reference, or its payout. Raises Invalid on a mismatch."""
    amount = first.amount_minor if requested.amount_minor is None else requested.amount_minor
    if (first.amount_minor, first.fee_minor) != (amount, requested.fee_minor):
        raise Invalid("reference", f"reference must be new: {first.described} has it")
    if first.payout_id is not None:
        return await service.find(tx, first.merchant_id, first.payout_id)
    return first


async def approve(tx: Tx, request_id: str, by: str, now: int) -> Payout:
    """Create the payout of a waiting request; ``by`` must not be the person who requested it.

    The balance is checked at this moment; if it is too low, the request remains WAITING. Raises
    NotFound and Invalid.
    """
    waiting = await _lock_waiting(tx, request_id)
    approver = operator_actions.check_second_operator(waiting.asked_by, by)
    requested = PayoutRequest(
        amount_minor=waiting.amount_minor, fee_minor=waiting.fee_minor,
        reference=waiting.reference, reason=waiting.reason, by=waiting.asked_by,
        approved_by=approver,
    )  # fmt: skip
    actor = Actor(approver, waiting.reason)
    await merchants.record_audit(
        tx, actor, "payouts approve", waiting.merchant_id, waiting.described, now
    )
    payout = await service.create(tx, waiting.merchant_id, requested, None, now)
    await queries.DECIDE_REQUEST.one(
        tx, merchant_id=waiting.merchant_id, id=waiting.id, status="APPROVED", decided_by=approver,
        rejection=None, payout_id=payout.id, now=now,
    )  # fmt: skip
    return payout


async def reject(tx: Tx, request_id: str, actor: Actor, now: int) -> WaitingPayout:
    """Reject a waiting request; its requester may reject it too. Raises NotFound and Invalid."""
    waiting = await _lock_waiting(tx, request_id)
    actor = operator_actions.check_actor(actor.who, actor.reason)
    await merchants.record_audit(
        tx, actor, "payouts reject", waiting.merchant_id, waiting.described, now
    )
    return await queries.DECIDE_REQUEST.one(
        tx, merchant_id=waiting.merchant_id, id=waiting.id, status="REJECTED",
        decided_by=actor.who, rejection=actor.reason, payout_id=None, now=now,
    )  # fmt: skip


async def _lock_waiting(tx: Tx, request_id: str) -> WaitingPayout:
    """Lock the merchant of a waiting request and return the request.

    Raises NotFound, and Invalid for a request that has been decided.
    """
    merchant_id = (await find_request(tx, request_id)).merchant_id
    await merchants.lock(tx, merchant_id)
    request_row = await find_request(tx, request_id)
    if request_row.status != "WAITING":
        raise Invalid("payout", f"payout must be WAITING: this one is {request_row.status}")
    return request_row


async def find_request(tx: Tx, request_id: str) -> WaitingPayout:
    """Return a request of any merchant. Raises NotFound."""
    request_row = await queries.REQUEST_ANYWHERE.first(tx, id=request_id)
    return or_not_found(request_row, f"there is no payout that waits as {request_id}")


async def list_decided_requests(tx: Tx, limit: int) -> list[WaitingPayout]:
    """Return requests that were approved or rejected, newest decision first."""
    return await queries.REQUESTS_DECIDED.all(tx, limit=limit)


async def list_requests(tx: Tx) -> list[WaitingPayout]:
    """Return the requests that wait for a second person, oldest first."""
    return await queries.REQUESTS_WAITING.all(tx)
