"""Adjustments of a balance by an operator, and their approval by a second one above a limit."""

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


async def quote(
    tx: Tx, merchant_id: str, asked: AdjustmentRequest, above: Decimal | None, now: int
) -> Quote:
    """Return what an adjustment would move, changing nothing; ``above`` is as of ``request``.

    Raises NotFound, and Invalid as ``request`` does, but not for what the balance does not allow.
    """
    merchant = await merchants.find(tx, merchant_id)
    currency = merchant.settlement_currency
    reference = operator_actions.check_reference(asked.reference)
    first = await queries.BY_REFERENCE.first(tx, merchant_id=merchant_id, reference=reference)
    if first is not None:
        _same(first, asked)
    actor = operator_actions.check_actor(asked.by, asked.reason)
    await _check(tx, merchant, asked)
    move = BY_KIND[asked.kind, asked.account, 1 if asked.amount_minor > 0 else -1]
    held = await ledger.balance(tx, merchant_id, currency)
    changes = {move.source: -abs(asked.amount_minor), move.target: abs(asked.amount_minor)}
    moved: list[tuple[Account, int, int]] = [
        (name, before, before + changes[name])
        for name in ledger.MERCHANT_ACCOUNTS
        if name in changes
        for before in [getattr(held, name) if held else 0]
    ]
    amount = (asked.amount_minor, currency)
    waits = await approval_limits.exceeds(tx, merchant_id, actor.who, amount, above, now)
    return Quote(currency, moved, waits)


async def request(
    tx: Tx, merchant_id: str, asked: AdjustmentRequest, above: Decimal | None, now: int
) -> Adjustment:
    """Make an adjustment, or store it as WAITING above the deployment's limit ``above``.

    The same reference with the same request returns the first one. Raises NotFound and Invalid.
    """
    await merchants.lock(tx, merchant_id)
    merchant = await merchants.find(tx, merchant_id)
    currency, adjustment_id = merchant.settlement_currency, new_id("mov")
    reference = operator_actions.check_reference(asked.reference)
    first = await queries.BY_REFERENCE.first(tx, merchant_id=merchant_id, reference=reference)
    if first is not None:
        return _same(first, asked)
    actor = operator_actions.check_actor(asked.by, asked.reason)
    await _check(tx, merchant, asked)
    amount = (asked.amount_minor, currency)
    waits = await approval_limits.needs_second(tx, merchant_id, actor.who, amount, above, now)
    status: Status = "WAITING" if waits else "DONE"
    shown = f"{money.show(asked.amount_minor, currency)} {currency}"
    about = f" for {asked.order_id}" if asked.order_id else ""
    text = f"{adjustment_id}: {shown} {asked.account}{about}, {status.lower()}"
    await merchants.record_audit(tx, actor, f"balance {asked.kind}", merchant_id, text, now)
    made = await queries.INSERT.one(
        tx, merchant_id=merchant_id, id=adjustment_id, kind=asked.kind, status=status,
        amount_minor=asked.amount_minor, currency=currency, account=asked.account,
        order_id=asked.order_id, reference=reference, reason=actor.reason, asked_by=actor.who,
        now=now,
    )  # fmt: skip
    if status == "DONE":
        await _post(tx, merchant, made, now)
        if above is not None:
            moved = merchants.SoloMovement(
                merchant_id=merchant_id, id=made.id, kind=f"balance {made.kind}", who=actor.who,
                amount_minor=made.amount_minor, currency=currency,
            )  # fmt: skip
            await approval_limits.record(tx, moved, now)
    return made


def _same(first: Adjustment, asked: AdjustmentRequest) -> Adjustment:
    """Return the adjustment that has this reference already, if it equals the requested one."""
    fields = ("kind", "amount_minor", "account", "order_id")
    if all(getattr(first, field) == getattr(asked, field) for field in fields):
        return first
    raise Invalid("reference", f"reference must be new: {first.id}, a {first.described}, has it")


async def _check(tx: Tx, merchant: Merchant, asked: AdjustmentRequest) -> None:
    correction = asked.kind == "correct"
    minor = abs(asked.amount_minor) if correction else asked.amount_minor
    operator_actions.check_amount("amount", minor, merchant.settlement_currency)
    if (asked.kind, asked.account, 1 if asked.amount_minor > 0 else -1) not in BY_KIND:
        raise Invalid("account", f"account must be available for a {asked.kind}")
    if correction and asked.order_id is None:
        raise Invalid("order", "order must be the order that the correction is about")
    if not correction and asked.order_id is not None:
        raise Invalid("order", f"order must not be given for a {asked.kind}")
    if asked.order_id is not None and not await orders.exists(tx, merchant.id, asked.order_id):
        raise Invalid("order", f"order must be an order of {merchant.id}")


async def _post(tx: Tx, merchant: Merchant, made: Adjustment, now: int) -> None:
    """Post an adjustment that is DONE. Raises Invalid if it takes more than it may."""
    floor = made.move.floor
    if floor == "frozen by operators":  # checked first: frozen may not go below zero
        left = await frozen_manually(tx, made.merchant_id, made.currency)
        if left < 0:
            most = f"{money.show(left + made.amount_minor, made.currency)} {made.currency}"
            raise Invalid("amount", f"amount must be at most what operators froze: {most}")
    # The balance after the posting is read under its lock: what others take meanwhile is in it.
    after = await ledger.post(tx, made.merchant_id, made.currency, [made.movement], now)
    if floor == "zero":
        _check_floor(after, made, 0)
    elif floor == "overdraft":
        _check_floor(after, made, -merchant.overdraft_minor)


def _check_floor(after: Balance, made: Adjustment, floor: int) -> None:
    left = after.pending if made.account == "pending" else after.available
    if left < floor:
        least = f"{money.show(floor, made.currency)} {made.currency}"
        reason = f"amount must leave the {made.account} balance at or above {least}"
        raise Invalid("amount", reason)


async def approve(tx: Tx, adjustment_id: str, by: str, now: int) -> Adjustment:
    """Make an adjustment that waits, as another operator than the one who requested it.

    How much it may take is checked now; one that is refused goes on waiting. Raises NotFound and
    Invalid.
    """
    return await _decide(tx, adjustment_id, "approve", by, None, now)


async def reject(tx: Tx, adjustment_id: str, by: str, reason: str, now: int) -> Adjustment:
    """Reject an adjustment that waits, one's own too. Raises NotFound and Invalid."""
    return await _decide(tx, adjustment_id, "reject", by, reason, now)


async def _decide(
    tx: Tx, adjustment_id: str, decision: Decision, by: str, reason: str | None, now: int
) -> Adjustment:
    seen = await find_anywhere(tx, adjustment_id)
    await merchants.lock(tx, seen.merchant_id)
    merchant = await merchants.find(tx, seen.merchant_id)
    seen = await queries.BY_ID.first(tx, merchant_id=seen.merchant_id, id=seen.id) or seen
    target = DECISIONS.get((seen.status, decision))
    if target is None:
        raise Invalid("movement", f"movement must be WAITING: this one is {seen.status}")
    if target == "DONE":
        await _check_open(tx, merchant, seen)
    if reason is None:  # an approval: the reason is the one of the request
        actor = Actor(operator_actions.check_second_operator(seen.asked_by, by), seen.reason)
    else:
        actor = operator_actions.check_actor(by, reason)
    subject = f"{seen.id}: {seen.described}, asked for by {seen.asked_by}"
    await merchants.record_audit(tx, actor, f"balance {decision}", seen.merchant_id, subject, now)
    made = await queries.DECIDE.one(
        tx, merchant_id=seen.merchant_id, id=seen.id, status=target, decided_by=actor.who, now=now
    )
    if target == "DONE":
        await _post(tx, merchant, made, now)
    return made


async def _check_open(tx: Tx, merchant: Merchant, seen: Adjustment) -> None:
    """Refuse what was asked for before the merchant was closed; late money is asked for later."""
    closed_at = await merchants.closed_at(tx, merchant.id) if merchant.status == "CLOSED" else None
    if closed_at is not None and seen.created_at <= closed_at:
        reason = f"merchant must not be CLOSED: {seen.id} was asked for before, and can be rejected"
        raise Invalid("merchant", reason)


async def find_anywhere(tx: Tx, adjustment_id: str) -> Adjustment:
    """Return an adjustment of whichever merchant. Raises NotFound."""
    found = await queries.ANYWHERE.first(tx, id=adjustment_id)
    return or_not_found(found, f"there is no movement {adjustment_id}")


async def waiting(tx: Tx, merchant_id: str | None = None) -> list[Adjustment]:
    """Return the adjustments that need a second operator, oldest first. Raises NotFound."""
    if merchant_id is not None:
        await merchants.find(tx, merchant_id)
    return await queries.WAITING.all(tx, merchant_id=merchant_id)


async def newest(tx: Tx, merchant_id: str, limit: int) -> list[Adjustment]:
    """Return a merchant's newest adjustments, whatever became of them, newest first."""
    return await queries.NEWEST.all(tx, merchant_id=merchant_id, limit=limit)


async def of_order(tx: Tx, merchant_id: str, order_id: str) -> list[Adjustment]:
    """Return the corrections that are about an order, oldest first."""
    return await queries.OF_ORDER.all(tx, merchant_id=merchant_id, order_id=order_id)


async def frozen_manually(tx: Tx, merchant_id: str, currency: str) -> int:
    """Return how much operators have frozen and not unfrozen, in minor units."""
    return await queries.FROZEN.get(tx, merchant_id=merchant_id, currency=currency) or 0
