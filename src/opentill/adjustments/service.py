"""Adjustments of a balance by an operator, and their approval by a second one above a limit."""

from decimal import Decimal

from opentill import ledger, merchants, orders
from opentill.adjustments import queries
from opentill.adjustments.model import BY_KIND, DECISIONS, Adjustment, Ask, Decision, Status
from opentill.core import money
from opentill.core.errors import Invalid, NotFound
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.ledger import Balance
from opentill.merchants import Merchant, operator_actions


async def ask(tx: Tx, merchant_id: str, asked: Ask, above: Decimal | None, now: int) -> Adjustment:
    """Make an adjustment, or store it as WAITING above the deployment's limit ``above``.

    The same reference with the same movement returns the first one. Raises NotFound and Invalid.
    """
    await merchants.lock(tx, merchant_id)
    merchant = await merchants.find(tx, merchant_id)
    currency, movement_id = merchant.settlement_currency, new_id("mov")
    reference = operator_actions.reference(asked.reference)
    first = await queries.BY_REFERENCE.first(tx, merchant_id=merchant_id, reference=reference)
    if first is not None:
        return _same(first, asked)
    by, reason = (
        operator_actions.words("by", asked.by),
        operator_actions.words("reason", asked.reason),
    )
    await _check(tx, merchant, asked)
    waits = operator_actions.needs_second(asked.amount_minor, currency, above)
    status: Status = "WAITING" if waits else "DONE"
    shown = f"{money.show(asked.amount_minor, currency)} {currency}"
    about = f" for {asked.order_id}" if asked.order_id else ""
    text = f"{movement_id}: {shown} {asked.account}{about}, {status.lower()}"
    await merchants.record_audit(
        tx, who=by, action=f"balance {asked.kind}", merchant_id=merchant_id, subject=text,
        reason=reason, now=now,
    )  # fmt: skip
    made = await queries.INSERT.one(
        tx, merchant_id=merchant_id, id=movement_id, kind=asked.kind, status=status,
        amount_minor=asked.amount_minor, currency=currency, account=asked.account,
        order_id=asked.order_id, reference=reference, reason=reason, asked_by=by, now=now,
    )  # fmt: skip
    if status == "DONE":
        await _post(tx, merchant, made, now)
    return made


def _same(first: Adjustment, asked: Ask) -> Adjustment:
    """Return the movement that has this reference already, if it is the one that is asked for."""
    fields = ("kind", "amount_minor", "account", "order_id")
    if all(getattr(first, field) == getattr(asked, field) for field in fields):
        return first
    shown = f"{first.kind} of {money.show(first.amount_minor, first.currency)} {first.currency}"
    raise Invalid("reference", f"reference must be new: {first.id}, a {shown}, has it")


async def _check(tx: Tx, merchant: Merchant, asked: Ask) -> None:
    correction = asked.kind == "correct"
    minor = abs(asked.amount_minor) if correction else asked.amount_minor
    operator_actions.amount("amount", minor, merchant.settlement_currency)
    if (asked.kind, asked.account, 1 if asked.amount_minor > 0 else -1) not in BY_KIND:
        raise Invalid("account", f"account must be available for a {asked.kind}")
    if correction and asked.order_id is None:
        raise Invalid("order", "order must be the order that the correction is about")
    if not correction and asked.order_id is not None:
        raise Invalid("order", f"order must not be given for a {asked.kind}")
    if asked.order_id is not None and not await orders.exists(tx, merchant.id, asked.order_id):
        raise Invalid("order", f"order must be an order of {merchant.id}")


async def _post(tx: Tx, merchant: Merchant, made: Adjustment, now: int) -> None:
    """Post a movement that is DONE, if it does not take more than it may."""
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


async def approve(tx: Tx, movement_id: str, by: str, now: int) -> Adjustment:
    """Make a movement that waits, as another operator than the one who asked for it.

    What it may take is looked at now: a movement that is refused goes on waiting. Raises NotFound
    and Invalid.
    """
    return await _decide(tx, movement_id, "approve", by, None, now)


async def reject(tx: Tx, movement_id: str, by: str, reason: str, now: int) -> Adjustment:
    """Turn down a movement that waits, one's own too. Raises NotFound and Invalid."""
    return await _decide(tx, movement_id, "reject", by, reason, now)


async def _decide(
    tx: Tx, movement_id: str, decision: Decision, by: str, reason: str | None, now: int
) -> Adjustment:
    seen = await find_anywhere(tx, movement_id)
    await merchants.lock(tx, seen.merchant_id)
    merchant = await merchants.find(tx, seen.merchant_id)
    seen = await queries.BY_ID.first(tx, merchant_id=seen.merchant_id, id=seen.id) or seen
    target = DECISIONS.get((seen.status, decision))
    if target is None:
        raise Invalid("movement", f"movement must be WAITING: this one is {seen.status}")
    who = (
        operator_actions.second(seen.asked_by, by)
        if decision == "approve"
        else operator_actions.words("by", by)
    )
    why = seen.reason if reason is None else operator_actions.words("reason", reason)
    shown = f"{seen.kind} of {money.show(seen.amount_minor, seen.currency)} {seen.currency}"
    await merchants.record_audit(
        tx, who=who, action=f"balance {decision}", merchant_id=seen.merchant_id,
        subject=f"{seen.id}: {shown}, asked for by {seen.asked_by}", reason=why, now=now,
    )  # fmt: skip
    made = await queries.DECIDE.one(
        tx, merchant_id=seen.merchant_id, id=seen.id, status=target, decided_by=who, now=now
    )
    if target == "DONE":
        await _post(tx, merchant, made, now)
    return made


async def find_anywhere(tx: Tx, movement_id: str) -> Adjustment:
    """Return a movement of whichever merchant. Raises NotFound."""
    made = await queries.ANYWHERE.first(tx, id=movement_id)
    if made is None:
        raise NotFound(reason=f"there is no movement {movement_id}")
    return made


async def waiting(tx: Tx, merchant_id: str | None = None) -> list[Adjustment]:
    """Return the adjustments that need a second operator, oldest first. Raises NotFound."""
    if merchant_id is not None:
        await merchants.find(tx, merchant_id)
    return await queries.WAITING.all(tx, merchant_id=merchant_id)


async def frozen_manually(tx: Tx, merchant_id: str, currency: str) -> int:
    """Return what operators froze and did not unfreeze yet, in minor units."""
    return await queries.FROZEN.get(tx, merchant_id=merchant_id, currency=currency) or 0
