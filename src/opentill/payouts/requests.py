"""Payouts above the deployment's limit: one person asks for them, another one approves.

A request that waits has moved nothing. Approving makes the payout with what is available then;
whoever asked cannot approve, but may reject (decision 0013).
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
    tx: Tx, merchant_id: str, wanted: PayoutRequest, above: Decimal | None, now: int
) -> Payout | WaitingPayout:
    """Create a payout, or store it as WAITING above the deployment's limit ``above``.

    The same reference with the same amount and fee returns the first one. Raises NotFound,
    Invalid, and CapabilityOff for a merchant that is not paid out.
    """
    await merchants.lock(tx, merchant_id)
    merchant = await merchants.find(tx, merchant_id)
    reference = operator_actions.check_reference(wanted.reference)
    first = await queries.REQUEST_OF_REFERENCE.first(
        tx, merchant_id=merchant_id, reference=reference
    )
    if first is not None:
        return await _same(tx, first, wanted)
    amount = await _amount(tx, merchant, wanted)
    currency = merchant.settlement_currency
    paid = await queries.BY_REFERENCE.first(tx, merchant_id=merchant_id, reference=reference)
    whole = (amount + wanted.fee_minor, currency)
    if paid is not None or not await approval_limits.needs_second(
        tx, merchant_id, wanted.by, whole, above, now
    ):
        return await service.create(tx, merchant_id, wanted, above, now)
    if wanted.fee_minor:
        operator_actions.check_amount("fee", wanted.fee_minor, currency)
    service.check_amount(merchant, amount)
    merchant.require("payout")
    actor = operator_actions.check_actor(wanted.by, wanted.reason)
    request_id = new_id("preq")
    subject = f"{request_id}: {money.show(amount, currency)} {currency}, waiting"
    await merchants.record_audit(tx, actor, "payouts request", merchant_id, subject, now)
    return await queries.INSERT_REQUEST.one(
        tx, merchant_id=merchant_id, id=request_id, amount_minor=amount,
        fee_minor=wanted.fee_minor, currency=currency, reference=reference, reason=actor.reason,
        asked_by=actor.who, now=now,
    )  # fmt: skip


async def _amount(tx: Tx, merchant: Merchant, wanted: PayoutRequest) -> int:
    """Return what is asked for; "everything" is what is available at this moment."""
    if wanted.amount_minor is not None:
        return wanted.amount_minor
    balance = await ledger.find_balance(tx, merchant.id, merchant.settlement_currency)
    return (balance.available if balance else 0) - wanted.fee_minor


async def _same(tx: Tx, first: WaitingPayout, wanted: PayoutRequest) -> Payout | WaitingPayout:
    amount = first.amount_minor if wanted.amount_minor is None else wanted.amount_minor
    if (first.amount_minor, first.fee_minor) != (amount, wanted.fee_minor):
        raise Invalid("reference", f"reference must be new: {first.described} has it")
    if first.payout_id is not None:
        return await service.find(tx, first.merchant_id, first.payout_id)
    return first


async def approve(tx: Tx, request_id: str, by: str, now: int) -> Payout:
    """Make a payout that waits, as somebody else than who asked for it.

    What is available is checked now; one that is refused goes on waiting. Raises NotFound and
    Invalid.
    """
    seen = await _locked(tx, request_id)
    approver = operator_actions.check_second_operator(seen.asked_by, by)
    wanted = PayoutRequest(
        amount_minor=seen.amount_minor, fee_minor=seen.fee_minor, reference=seen.reference,
        reason=seen.reason, by=seen.asked_by, approved_by=approver,
    )  # fmt: skip
    actor = Actor(approver, seen.reason)
    await merchants.record_audit(
        tx, actor, "payouts approve", seen.merchant_id, seen.described, now
    )
    payout = await service.create(tx, seen.merchant_id, wanted, None, now)
    await queries.DECIDE_REQUEST.one(
        tx, merchant_id=seen.merchant_id, id=seen.id, status="APPROVED", decided_by=approver,
        rejection=None, payout_id=payout.id, now=now,
    )  # fmt: skip
    return payout


async def reject(tx: Tx, request_id: str, actor: Actor, now: int) -> WaitingPayout:
    """Reject a payout that waits, one's own too. Raises NotFound and Invalid."""
    seen = await _locked(tx, request_id)
    checked = operator_actions.check_actor(actor.who, actor.reason)
    await merchants.record_audit(
        tx, checked, "payouts reject", seen.merchant_id, seen.described, now
    )
    return await queries.DECIDE_REQUEST.one(
        tx, merchant_id=seen.merchant_id, id=seen.id, status="REJECTED", decided_by=checked.who,
        rejection=checked.reason, payout_id=None, now=now,
    )  # fmt: skip


async def _locked(tx: Tx, request_id: str) -> WaitingPayout:
    """Return a request that waits, with its merchant locked. Raises NotFound and Invalid."""
    seen = await find_request(tx, request_id)
    await merchants.lock(tx, seen.merchant_id)
    seen = await find_request(tx, request_id)
    if seen.status != "WAITING":
        raise Invalid("payout", f"payout must be WAITING: this one is {seen.status}")
    return seen


async def find_request(tx: Tx, request_id: str) -> WaitingPayout:
    """Return a request of whichever merchant. Raises NotFound."""
    found = await queries.REQUEST_ANYWHERE.first(tx, id=request_id)
    return or_not_found(found, f"there is no payout that waits as {request_id}")


async def waiting(tx: Tx) -> list[WaitingPayout]:
    """Return the payouts that need a second person, oldest first."""
    return await queries.REQUESTS_WAITING.all(tx)
