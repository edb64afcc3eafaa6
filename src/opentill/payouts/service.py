"""What can be done with payouts: create one, and record how the bank's transfer ended."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from opentill import ledger, list_counts, merchants, webhooks
from opentill.core import money
from opentill.core.errors import Invalid, or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Db, Tx
from opentill.merchants import Actor, Merchant, approval_limits, operator_actions
from opentill.payouts import events, queries
from opentill.payouts.model import BY_EVENT, DuePayout, Event, Payout, PayoutRequest, Status, posted

LONGEST_BANK_REFERENCE: Final = 140  # characters, as ISO 20022 has for remittance information
MOST_FAILED: Final = 100


async def create(
    tx: Tx, merchant_id: str, wanted: PayoutRequest, above: Decimal | None, now: int
) -> Payout:
    """Take money out of available, to be sent to the merchant's bank.

    The same reference with the same amount and fee returns the first payout. ``above`` is the limit
    over which a second person must have approved (``requests``). Raises NotFound, Invalid, and
    CapabilityOff for a merchant that is not paid out.
    """
    await merchants.lock(tx, merchant_id)
    merchant = await merchants.find(tx, merchant_id)
    payout_id = new_id("po")
    reference = operator_actions.check_reference(wanted.reference)
    first = await queries.BY_REFERENCE.first(tx, merchant_id=merchant_id, reference=reference)
    if first is not None:
        return _same(first, wanted)
    merchant.require("payout")
    actor = operator_actions.check_actor(wanted.by, wanted.reason)
    currency = merchant.settlement_currency
    fee = (
        operator_actions.check_amount("fee", wanted.fee_minor, currency) if wanted.fee_minor else 0
    )
    approved_by = None
    if wanted.approved_by is not None:
        approved_by = operator_actions.check_second_operator(actor.who, wanted.approved_by)
    subject = _described(payout_id, merchant, wanted, approved_by)
    await merchants.record_audit(tx, actor, "payouts create", merchant_id, subject, now)
    amount = await _amount(tx, merchant, wanted.amount_minor, fee)
    if approved_by is None and await approval_limits.needs_second(
        tx, merchant_id, actor.who, (amount + fee, currency), above, now
    ):
        refusal = f"amount must be approved by a second person above {above:f} {currency}"
        raise Invalid("amount", refusal)
    transition = BY_EVENT[None, "created"]
    payout = await queries.INSERT.one(
        tx, merchant_id=merchant_id, id=payout_id, status=transition.target,
        amount_minor=amount, fee_minor=fee, currency=currency, reference=reference,
        reason=actor.reason, created_by=actor.who, approved_by=approved_by, now=now,
    )  # fmt: skip
    if approved_by is None and above is not None:
        moved = merchants.SoloMovement(
            merchant_id=merchant_id, id=payout.id, kind="payouts create", who=actor.who,
            amount_minor=amount + fee, currency=currency,
        )  # fmt: skip
        await approval_limits.record(tx, moved, now)
    # The balance after the postings is read under its lock: what others take meanwhile is in it.
    after = await ledger.post(tx, merchant_id, currency, posted(payout, "created"), now)
    if after.available < 0:
        raise _too_much(merchant, after.available + amount + fee, fee)
    return payout


def _described(
    payout_id: str, merchant: Merchant, wanted: PayoutRequest, approved_by: str | None
) -> str:
    amount = wanted.amount_minor
    shown = "everything available" if amount is None else _shown(amount, merchant)
    fee = f", fee {_shown(wanted.fee_minor, merchant)}" if wanted.fee_minor else ""
    return f"{payout_id}: {shown}{fee}" + (f", approved by {approved_by}" if approved_by else "")


def _shown(minor: int, merchant: Merchant) -> str:
    currency = merchant.settlement_currency
    return f"{money.show(minor, currency)} {currency}"


def _same(first: Payout, wanted: PayoutRequest) -> Payout:
    """Return the payout that has this reference already, if it equals the requested one."""
    amount = first.amount_minor if wanted.amount_minor is None else wanted.amount_minor
    if (first.amount_minor, first.fee_minor) == (amount, wanted.fee_minor):
        return first
    shown = money.show(first.amount_minor, first.currency)
    fee = money.show(first.fee_minor, first.currency)
    reason = f"reference must be new: {first.id} of {shown} {first.currency}, fee {fee}, has it"
    raise Invalid("reference", reason)


async def _amount(tx: Tx, merchant: Merchant, wanted_minor: int | None, fee: int) -> int:
    """Return what is paid out; everything available is read, and stays, under its lock."""
    amount = wanted_minor
    if amount is None:
        currency = merchant.settlement_currency
        available = (
            await queries.LOCK_AVAILABLE.get(tx, merchant_id=merchant.id, currency=currency) or 0
        )
        amount = min(available - fee, operator_actions.MOST_MINOR)
        if amount <= 0:
            raise _too_much(merchant, available, fee)
    return check_amount(merchant, amount)


def check_amount(merchant: Merchant, amount_minor: int) -> int:
    """Return an amount that may be paid out, if there is as much. Raises Invalid."""
    operator_actions.check_amount("amount", amount_minor, merchant.settlement_currency)
    if amount_minor < merchant.payout_minimum_minor:
        least = _shown(merchant.payout_minimum_minor, merchant)
        raise Invalid("amount", f"amount must be at least {least}, this merchant's minimum")
    return amount_minor


def _too_much(merchant: Merchant, available: int, fee: int) -> Invalid:
    """Return the refusal, which says what could be paid out."""
    has = _shown(available, merchant)
    if available <= 0:
        return Invalid("amount", f"amount must wait until something is available: it is {has}")
    with_fee = f" with the fee of {_shown(fee, merchant)}" if fee else ""
    return Invalid("amount", f"amount must be at most what is available{with_fee}: {has}")


async def pay(
    tx: Tx, payout_id: str, bank_reference: str, reason: str, by: str, now: int
) -> Payout:
    """Record that the bank has sent a payout. Raises NotFound and Invalid."""
    reference = operator_actions.check_text(
        "bank-reference", bank_reference, LONGEST_BANK_REFERENCE
    )
    return await _take(tx, payout_id, "paid", Actor(by, reason), now, bank_reference=reference)


async def fail(tx: Tx, payout_id: str, reason: str, by: str, now: int) -> Payout:
    """Record that the bank cannot send a payout: amount and fee return to available.

    Raises NotFound and Invalid.
    """
    reason = operator_actions.check_text("reason", reason)
    return await _take(tx, payout_id, "failed", Actor(by, reason), now)


async def record_return(tx: Tx, payout_id: str, reason: str, by: str, now: int) -> Payout:
    """Record that the bank returned a payout that was PAID: amount and fee return to available.

    It is no ``fail``, so that whoever ends a payout that waits for its transfer cannot give the
    money of one back that has been sent meanwhile. Raises NotFound and Invalid.
    """
    reason = operator_actions.check_text("reason", reason)
    return await _take(tx, payout_id, "returned", Actor(by, reason), now)


async def _take(
    tx: Tx, payout_id: str, event: Event, actor: Actor, now: int, *, bank_reference: str = ""
) -> Payout:
    """Take a transition of a payout, recorded in the audit log."""
    seen = await find_anywhere(tx, payout_id)
    merchant_id = seen.merchant_id
    await merchants.lock(tx, merchant_id)
    seen = await find(tx, merchant_id, payout_id)
    transition = BY_EVENT.get((seen.status, event))
    if transition is None:
        fits = " or ".join(str(s.source) for s in BY_EVENT.values() if s.event == event)
        reason = f"payout must be {fits}: this one is {seen.status}"
        if (seen.status, event) == ("PAID", "failed"):
            reason = f"{reason}. If the bank has returned it, record that it was returned"
        raise Invalid("payout", reason)
    checked = Actor(operator_actions.check_text("by", actor.who), actor.reason)
    subject = f"{payout_id} {bank_reference}".strip()
    await merchants.record_audit(tx, checked, f"payouts {event}", merchant_id, subject, now)
    payout = await queries.TRANSITION.one(
        tx,
        merchant_id=merchant_id,
        id=payout_id,
        source=transition.source,
        target=transition.target,
        now=now,
        bank_reference=bank_reference,
        failure_reason=actor.reason if transition.target == "FAILED" else "",
    )
    if transition.emits:
        await webhooks.emit(tx, [events.event_of(payout, transition.emits, now)])
    if moves := posted(payout, event):
        await ledger.post(tx, merchant_id, payout.currency, moves, now)
    return payout


async def find(tx: Tx, merchant_id: str, payout_id: str) -> Payout:
    """Return a payout. Raises NotFound."""
    return or_not_found(await queries.BY_ID.first(tx, merchant_id=merchant_id, id=payout_id))


async def find_anywhere(tx: Tx, payout_id: str) -> Payout:
    """Return a payout of whichever merchant, for the operator. Raises NotFound."""
    found = await queries.ANYWHERE.first(tx, id=payout_id)
    return or_not_found(found, f"there is no payout {payout_id}")


async def named(tx: Tx, payout_ids: Sequence[str]) -> list[Payout]:
    """Return the payouts of these ids, of whichever merchants; unknown ones are left out."""
    return await queries.NAMED.all(tx, ids=list(payout_ids))


async def search(
    tx: Tx, merchant_id: str | None = None, status: Status | None = None, limit: int = 100
) -> list[Payout]:
    """Return payouts of one merchant or all, newest first. Raises NotFound for an unknown one."""
    if merchant_id is not None:
        await merchants.find(tx, merchant_id)
    return await queries.SEARCH.all(tx, merchant_id=merchant_id, status=status, limit=limit)


async def failed_since(tx: Tx, merchant_id: str, since: int) -> list[Payout]:
    """Return a merchant's payouts that failed since a time (Unix ms), newest first.

    At most MOST_FAILED.
    """
    return await queries.FAILED_SINCE.all(
        tx, merchant_id=merchant_id, since=since, limit=MOST_FAILED
    )


async def returned_since(tx: Tx, since: int, limit: int) -> list[Payout]:
    """Return payouts that the bank returned since a time (Unix ms), oldest first.

    Only those that need somebody: the merchant has neither another bank account nor another payout
    since.
    """
    return await queries.RETURNED.all(tx, since=since, limit=limit)


async def newest(tx: Tx, merchant_id: str, limit: int, offset: int) -> list[Payout]:
    """Return a merchant's payouts, newest first."""
    return await queries.LISTS[()].newest.all(
        tx, merchant_id=merchant_id, since=0, until=list_counts.FOREVER, limit=limit, offset=offset
    )


async def due(tx: Tx, limit: int) -> list[DuePayout]:
    """Return the merchants with money that can be paid out, by currency, the most first."""
    return await queries.DUE.all(tx, limit=limit)


async def page(
    db: Db,
    merchant_id: str,
    status: Status | None,
    number: int,
    size: int,
    within: tuple[int, int],
) -> tuple[list[Payout], int]:
    """Return a page (from 1) of a merchant's payouts, newest first, and how many there are.

    ``status`` None is all of them; ``within``: when they were made, inclusive Unix ms.
    """
    filters = {} if status is None else {"status": status}
    rows = list_counts.Paginator(db, queries.LISTS, merchant_id, filters)
    return await rows.page(number, size, within)
