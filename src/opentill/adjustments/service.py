"""Adjustments of a balance by an operator. Above a limit, a second operator must approve them."""

from decimal import Decimal

from opentill import ledger, merchants, orders
from opentill.adjustments import queries
from opentill.adjustments.model import (
    BY_KIND,
    DECISIONS,
    Adjustment,
    AdjustmentRequest,
    Decision,
    Quote,
    Status,
)
from opentill.core import money
from opentill.core.errors import Invalid, or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.ledger import Account, Balance
from opentill.merchants import Actor, Merchant, approval_limits, operator_actions


class TooLittle(Invalid):
    """The balance does not allow the amount."""


class ClosedMerchant(Invalid):
    """A closed merchant may not get what the adjustment would give it."""


async def quote(
    tx: Tx, merchant_id: str, requested: AdjustmentRequest, above: Decimal | None, now: int
) -> Quote:
    """Return the effect of an adjustment without making it.

    ``above`` is the approval limit as in ``request``. Raises NotFound, and Invalid like
    ``request``. The balance must allow it now, unless a second person has to approve it.
    """
    merchant = await merchants.find(tx, merchant_id)
    currency = merchant.settlement_currency
    reference = operator_actions.check_reference(requested.reference)
    existing = await queries.BY_REFERENCE.first(tx, merchant_id=merchant_id, reference=reference)
    if existing is not None:
        _check_repeated(existing, requested)
    actor = operator_actions.check_actor(requested.by, requested.reason)
    if existing is None:
        await _check(tx, merchant, requested)
    current = await ledger.find_balance(tx, merchant_id, currency)
    moved = moved_by(requested, current)
    amount = (requested.amount_minor, currency)
    waits = await approval_limits.exceeds(tx, merchant_id, actor.who, amount, above, now)
    if existing is None and not waits:
        await _check_effect(tx, merchant, requested, current)
    return Quote(currency, moved, waits)


def moved_by(
    adjustment: AdjustmentRequest | Adjustment, balance: Balance | None
) -> list[tuple[Account, int, int]]:
    """Return the accounts that an adjustment changes, with their balances before and after it."""
    amount = adjustment.amount_minor
    move = BY_KIND[adjustment.kind, adjustment.account, 1 if amount > 0 else -1]
    changes = {move.source: -abs(amount), move.target: abs(amount)}
    return [
        (name, before, before + changes[name])
        for name in ledger.MERCHANT_ACCOUNTS
        if name in changes
        for before in [getattr(balance, name) if balance else 0]
    ]


async def request(
    tx: Tx, merchant_id: str, requested: AdjustmentRequest, above: Decimal | None, now: int
) -> Adjustment:
    """Make an adjustment or, if it exceeds the deployment's limit ``above``, store it as WAITING.

    ``above`` is in major units of the merchant's currency, whichever that is; None means no limit.
    Repeating a request with the same reference returns the first adjustment. Raises NotFound and
    Invalid.
    """
    await merchants.lock(tx, merchant_id)
    merchant = await merchants.find(tx, merchant_id)
    currency, adjustment_id = merchant.settlement_currency, new_id("mov")
    reference = operator_actions.check_reference(requested.reference)
    existing = await queries.BY_REFERENCE.first(tx, merchant_id=merchant_id, reference=reference)
    if existing is not None:
        return _check_repeated(existing, requested)
    actor = operator_actions.check_actor(requested.by, requested.reason)
    await _check(tx, merchant, requested)
    amount = (requested.amount_minor, currency)
    waits = await approval_limits.needs_second(tx, merchant_id, actor.who, amount, above, now)
    status: Status = "WAITING" if waits else "DONE"
    amount_text = f"{money.show(requested.amount_minor, currency)} {currency}"
    suffix = f" for {requested.order_id}" if requested.order_id else ""
    text = f"{adjustment_id}: {amount_text} {requested.account}{suffix}, {status.lower()}"
    await merchants.record_audit(tx, actor, f"balance {requested.kind}", merchant_id, text, now)
    adjustment = await queries.INSERT.one(
        tx, merchant_id=merchant_id, id=adjustment_id, kind=requested.kind, status=status,
        amount_minor=requested.amount_minor, currency=currency, account=requested.account,
        order_id=requested.order_id, reference=reference, reason=actor.reason, asked_by=actor.who,
        now=now,
    )  # fmt: skip
    if status == "DONE":
        await _post(tx, merchant, adjustment, now)
        if above is not None:
            solo_movement = merchants.SoloMovement(
                merchant_id=merchant_id, id=adjustment.id, kind=f"balance {adjustment.kind}",
                who=actor.who, amount_minor=adjustment.amount_minor, currency=currency,
            )  # fmt: skip
            await approval_limits.record(tx, solo_movement, now)
    return adjustment


def _check_repeated(existing: Adjustment, requested: AdjustmentRequest) -> Adjustment:
    """Return the existing adjustment. Raises Invalid if it differs from the requested one."""
    fields = ("kind", "amount_minor", "account", "order_id")
    if all(getattr(existing, field) == getattr(requested, field) for field in fields):
        return existing
    raise Invalid(
        "reference", f"reference must be new: {existing.id}, a {existing.described}, has it"
    )


async def _check(tx: Tx, merchant: Merchant, requested: AdjustmentRequest) -> None:
    correction = requested.kind == "correct"
    minor = abs(requested.amount_minor) if correction else requested.amount_minor
    operator_actions.check_amount("amount", minor, merchant.settlement_currency)
    if (requested.kind, requested.account, 1 if requested.amount_minor > 0 else -1) not in BY_KIND:
        raise Invalid("account", f"account must be available for a {requested.kind}")
    if correction and requested.order_id is None:
        raise Invalid("order", "order must be the order that the correction is about")
    if not correction and requested.order_id is not None:
        raise Invalid("order", f"order must not be given for a {requested.kind}")
    if requested.order_id is not None and not await orders.exists(
        tx, merchant.id, requested.order_id
    ):
        raise Invalid("order", f"order must be an order of {merchant.id}")
    if merchant.status == "CLOSED":
        balance = await ledger.find_balance(tx, merchant.id, merchant.settlement_currency)
        _check_closed(
            merchant,
            requested,
            sum(getattr(balance, name) for name in ledger.MERCHANT_ACCOUNTS) if balance else 0,
        )


def _check_closed(merchant: Merchant, requested: AdjustmentRequest, current: int) -> None:
    """Raise Invalid if a closed merchant got new money, which it could never be paid.

    ``current`` is the sum of its accounts. What came late can be corrected, held or charged, and a
    debt be paid.
    """
    if requested.kind in ("topup", "prepay"):
        raise ClosedMerchant("kind", f"kind must not be {requested.kind}: the merchant is CLOSED")
    if requested.kind == "recharge" and current + requested.amount_minor > 0:
        currency = merchant.settlement_currency
        debt = f"{money.show(max(-current, 0), currency)} {currency}"
        raise ClosedMerchant(
            "amount", f"amount must be at most the debt of a CLOSED merchant: {debt}"
        )


async def _check_effect(
    tx: Tx, merchant: Merchant, requested: AdjustmentRequest, current: Balance | None
) -> None:
    """Raise Invalid if posting the adjustment now would go below its floor."""
    amount = requested.amount_minor
    move = BY_KIND[requested.kind, requested.account, 1 if amount > 0 else -1]
    free = {
        "zero": current.available if current else 0,
        "overdraft": (getattr(current, requested.account) if current else 0)
        + merchant.overdraft_minor,
        "reserved fees": current.free_prepaid if current else 0,
    }.get(move.floor)
    if move.floor == "frozen by operators":
        free = await sum_frozen_manually(tx, merchant.id, merchant.settlement_currency)
    if free is not None and abs(amount) > free:
        most = f"{money.show(free, merchant.settlement_currency)} {merchant.settlement_currency}"
        raise TooLittle("amount", f"amount must be at most what the balance allows: {most}")


async def _post(tx: Tx, merchant: Merchant, adjustment: Adjustment, now: int) -> None:
    """Post an adjustment that is DONE. Raises Invalid if it goes below its floor."""
    floor = adjustment.move.floor
    # Check this floor before posting, because a negative frozen balance violates a constraint.
    if floor == "frozen by operators":
        remaining_minor = await sum_frozen_manually(tx, adjustment.merchant_id, adjustment.currency)
        if remaining_minor < 0:
            most = money.show(remaining_minor + adjustment.amount_minor, adjustment.currency)
            reason = f"amount must be at most what operators froze: {most} {adjustment.currency}"
            raise Invalid("amount", reason)
    # The balance after the posting is read under its lock, so it includes concurrent postings.
    after = await ledger.post(
        tx, adjustment.merchant_id, adjustment.currency, [adjustment.movement], now
    )
    if floor == "zero":
        _check_floor(after, adjustment, 0)
    elif floor == "reserved fees" and after.free_prepaid < 0:
        most = money.show(after.free_prepaid + adjustment.amount_minor, adjustment.currency)
        reason = (
            f"amount must be at most what no payment has reserved: {most} {adjustment.currency}"
        )
        raise Invalid("amount", reason)
    elif floor == "overdraft":
        _check_floor(after, adjustment, -merchant.overdraft_minor)


def _check_floor(after: Balance, adjustment: Adjustment, floor: int) -> None:
    balance_minor = after.pending if adjustment.account == "pending" else after.available
    if balance_minor < floor:
        least = f"{money.show(floor, adjustment.currency)} {adjustment.currency}"
        reason = f"amount must leave the {adjustment.account} balance at or above {least}"
        raise Invalid("amount", reason)


async def approve(tx: Tx, adjustment_id: str, by: str, now: int) -> Adjustment:
    """Approve a waiting adjustment, as an operator who did not request it.

    Limits of the balance are checked now; a refused adjustment keeps waiting. Raises NotFound and
    Invalid.
    """
    return await _decide(tx, adjustment_id, "approve", by, None, now)


async def reject(tx: Tx, adjustment_id: str, by: str, reason: str, now: int) -> Adjustment:
    """Reject a waiting adjustment; its requester may reject it too. Raises NotFound and Invalid."""
    return await _decide(tx, adjustment_id, "reject", by, reason, now)


async def _decide(
    tx: Tx, adjustment_id: str, decision: Decision, by: str, reason: str | None, now: int
) -> Adjustment:
    adjustment = await find_anywhere(tx, adjustment_id)
    await merchants.lock(tx, adjustment.merchant_id)
    merchant = await merchants.find(tx, adjustment.merchant_id)
    adjustment = (
        await queries.BY_ID.first(tx, merchant_id=adjustment.merchant_id, id=adjustment.id)
        or adjustment
    )
    target = DECISIONS.get((adjustment.status, decision))
    if target is None:
        raise Invalid("movement", f"movement must be WAITING: this one is {adjustment.status}")
    if target == "DONE":
        await _check_open(tx, merchant, adjustment)
    if reason is None:  # an approval has no reason of its own: it keeps the reason of the request
        actor = Actor(
            operator_actions.check_second_operator(adjustment.asked_by, by), adjustment.reason
        )
    else:
        actor = operator_actions.check_actor(by, reason)
    subject = f"{adjustment.id}: {adjustment.described}, asked for by {adjustment.asked_by}"
    await merchants.record_audit(
        tx, actor, f"balance {decision}", adjustment.merchant_id, subject, now
    )
    decided = await queries.DECIDE.one(
        tx,
        merchant_id=adjustment.merchant_id,
        id=adjustment.id,
        status=target,
        decided_by=actor.who,
        rejection=actor.reason if target == "REJECTED" else None,
        now=now,
    )
    if target == "DONE":
        await _post(tx, merchant, decided, now)
    return decided


async def _check_open(tx: Tx, merchant: Merchant, adjustment: Adjustment) -> None:
    """Raise Invalid if the merchant was closed after the adjustment had been requested."""
    closed_at = await merchants.closed_at(tx, merchant.id) if merchant.status == "CLOSED" else None
    if closed_at is not None and adjustment.created_at <= closed_at:
        raise Invalid(
            "merchant",
            f"merchant must not be CLOSED: {adjustment.id} was asked for before, and can be "
            "rejected",
        )


async def find_anywhere(tx: Tx, adjustment_id: str) -> Adjustment:
    """Return an adjustment of any merchant. Raises NotFound."""
    adjustment = await queries.ANYWHERE.first(tx, id=adjustment_id)
    return or_not_found(adjustment, f"there is no movement {adjustment_id}")


async def list_waiting(tx: Tx, merchant_id: str | None = None) -> list[Adjustment]:
    """Return the adjustments that need a second operator, oldest first. Raises NotFound."""
    if merchant_id is not None:
        await merchants.find(tx, merchant_id)
    return await queries.WAITING.all(tx, merchant_id=merchant_id)


async def list_decided(tx: Tx, limit: int) -> list[Adjustment]:
    """Return adjustments that a second person approved or rejected, newest decision first."""
    return await queries.DECIDED.all(tx, limit=limit)


async def list_newest(tx: Tx, merchant_id: str, limit: int) -> list[Adjustment]:
    """Return a merchant's newest adjustments of any status, newest first."""
    return await queries.NEWEST.all(tx, merchant_id=merchant_id, limit=limit)


async def list_of_order(tx: Tx, merchant_id: str, order_id: str) -> list[Adjustment]:
    """Return the corrections of an order, oldest first."""
    return await queries.OF_ORDER.all(tx, merchant_id=merchant_id, order_id=order_id)


async def sum_frozen_manually(tx: Tx, merchant_id: str, currency: str) -> int:
    """Return the amount that operators have frozen and not unfrozen, in minor units."""
    return await queries.FROZEN.get(tx, merchant_id=merchant_id, currency=currency) or 0


async def sum_recharges(tx: Tx) -> dict[str, int]:
    """Return the sums of all merchants' recharges by currency, in minor units."""
    return {row.currency: row.amount_minor for row in await queries.RECHARGES.all(tx)}
