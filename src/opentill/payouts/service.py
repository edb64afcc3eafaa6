"""Create payouts, and record how the bank's transfers ended."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from opentill import ledger, list_counts, merchants, webhooks
from opentill.core import money
from opentill.core.amounts import minor_amounts
from opentill.core.errors import Invalid, or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Db, Tx
from opentill.db.query import like
from opentill.merchants import Actor, Merchant, approval_limits, operator_actions
from opentill.payouts import events, queries
from opentill.payouts.model import (
    BY_EVENT,
    DuePayout,
    Event,
    Payout,
    PayoutRequest,
    Status,
    movements,
)

LONGEST_BANK_REFERENCE: Final = 140  # characters, the limit of ISO 20022's remittance information
MOST_FAILED: Final = 100
MOST_FOUND: Final = 200  # payouts that a search returns
_SCANNED: Final = 10_000  # newest payouts of a merchant that a search reads: some milliseconds


async def create(
    tx: Tx, merchant_id: str, requested: PayoutRequest, above: Decimal | None, now: int
) -> Payout:
    """Create a payout, which takes amount and fee from the available balance.

    Idempotent by its reference. If its maker moves more than ``above`` alone (None: no limit), a
    second person must have approved it (see ``requests``). Raises NotFound, Invalid, and
    CapabilityOff for a merchant whose payouts are off.
    """
    await merchants.lock(tx, merchant_id)
    merchant = await merchants.find(tx, merchant_id)
    payout_id = new_id("po")
    reference = operator_actions.check_reference(requested.reference)
    first = await queries.BY_REFERENCE.first(tx, merchant_id=merchant_id, reference=reference)
    if first is not None:
        return _check_repeated(first, requested)
    merchant.require("payout")
    actor = operator_actions.check_actor(requested.by, requested.reason)
    currency = merchant.settlement_currency
    fee = requested.fee_minor
    if fee:
        operator_actions.check_amount("fee", fee, currency)
    approved_by = None
    if requested.approved_by is not None:
        approved_by = operator_actions.check_second_operator(actor.who, requested.approved_by)
    subject = _describe(payout_id, merchant, requested, approved_by)
    await merchants.record_audit(tx, actor, "payouts create", merchant_id, subject, now)
    amount = await _amount(tx, merchant, requested.amount_minor, fee)
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
        movement = merchants.SoloMovement(
            merchant_id=merchant_id, id=payout.id, kind="payouts create", who=actor.who,
            amount_minor=amount + fee, currency=currency,
        )  # fmt: skip
        await approval_limits.record(tx, movement, now)
    # Check the balance after posting: posting locks it, so that concurrent movements are included.
    balance = await ledger.post(tx, merchant_id, currency, movements(payout, "created"), now)
    if balance.available < 0:
        raise _too_much(merchant, balance.available + amount + fee, fee)
    return payout


def _describe(
    payout_id: str, merchant: Merchant, requested: PayoutRequest, approved_by: str | None
) -> str:
    minor = requested.amount_minor
    amount = "everything available" if minor is None else _show(minor, merchant)
    fee = f", fee {_show(requested.fee_minor, merchant)}" if requested.fee_minor else ""
    return f"{payout_id}: {amount}{fee}" + (f", approved by {approved_by}" if approved_by else "")


def _show(minor: int, merchant: Merchant) -> str:
    currency = merchant.settlement_currency
    return f"{money.show(minor, currency)} {currency}"


def _check_repeated(first: Payout, requested: PayoutRequest) -> Payout:
    """Return the first payout with this reference. Raises Invalid if the request differs."""
    amount = first.amount_minor if requested.amount_minor is None else requested.amount_minor
    if (first.amount_minor, first.fee_minor) == (amount, requested.fee_minor):
        return first
    shown = money.show(first.amount_minor, first.currency)
    fee = money.show(first.fee_minor, first.currency)
    reason = f"reference must be new: {first.id} of {shown} {first.currency}, fee {fee}, has it"
    raise Invalid("reference", reason)


async def _amount(tx: Tx, merchant: Merchant, amount: int | None, fee: int) -> int:
    """Return the amount to pay out; for None, lock the balance and return everything available."""
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
    """Return the amount if it is valid for a payout; the balance is not checked. Raises Invalid."""
    operator_actions.check_amount("amount", amount_minor, merchant.settlement_currency)
    if amount_minor < merchant.payout_minimum_minor:
        least = _show(merchant.payout_minimum_minor, merchant)
        raise Invalid("amount", f"amount must be at least {least}, this merchant's minimum")
    return amount_minor


def _too_much(merchant: Merchant, available: int, fee: int) -> Invalid:
    """Return the error, which says how much could be paid out."""
    has = _show(available, merchant)
    if available <= 0:
        return Invalid("amount", f"amount must wait until something is available: it is {has}")
    with_fee = f" with the fee of {_show(fee, merchant)}" if fee else ""
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
    """Record that the bank cannot send a payout: amount and fee become available again.

    Raises NotFound and Invalid.
    """
    reason = operator_actions.check_text("reason", reason)
    return await _take(tx, payout_id, "failed", Actor(by, reason), now)


async def record_return(tx: Tx, payout_id: str, reason: str, by: str, now: int) -> Payout:
    """Record that the bank sent a PAID payout back: amount and fee become available again.

    Separate from ``fail``, so that an operator who fails a PENDING payout cannot make money
    available again that the bank has sent meanwhile. Raises NotFound and Invalid.
    """
    reason = operator_actions.check_text("reason", reason)
    return await _take(tx, payout_id, "returned", Actor(by, reason), now)


async def _take(
    tx: Tx, payout_id: str, event: Event, actor: Actor, now: int, *, bank_reference: str = ""
) -> Payout:
    """Take a transition of a payout, and record it in the audit log."""
    merchant_id = (await find_anywhere(tx, payout_id)).merchant_id
    await merchants.lock(tx, merchant_id)
    status = (await find(tx, merchant_id, payout_id)).status
    transition = BY_EVENT.get((status, event))
    if transition is None:
        sources = " or ".join(str(row.source) for row in BY_EVENT.values() if row.event == event)
        reason = f"payout must be {sources}: this one is {status}"
        if (status, event) == ("PAID", "failed"):
            reason = f"{reason}. If the bank has returned it, record that it was returned"
        raise Invalid("payout", reason)
    actor = Actor(operator_actions.check_text("by", actor.who), actor.reason)
    subject = f"{payout_id} {bank_reference}".strip()
    await merchants.record_audit(tx, actor, f"payouts {event}", merchant_id, subject, now)
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
    if posted := movements(payout, event):
        await ledger.post(tx, merchant_id, payout.currency, posted, now)
    return payout


async def find(tx: Tx, merchant_id: str, payout_id: str) -> Payout:
    """Return a payout. Raises NotFound."""
    return or_not_found(await queries.BY_ID.first(tx, merchant_id=merchant_id, id=payout_id))


async def find_anywhere(tx: Tx, payout_id: str) -> Payout:
    """Return a payout of any merchant, for the operator. Raises NotFound."""
    payout = await queries.ANYWHERE.first(tx, id=payout_id)
    return or_not_found(payout, f"there is no payout {payout_id}")


async def find_many(tx: Tx, payout_ids: Sequence[str]) -> list[Payout]:
    """Return the payouts with these ids, of any merchant; unknown ids are left out."""
    return await queries.BY_IDS.all(tx, ids=list(payout_ids))


async def search(
    tx: Tx, merchant_id: str | None = None, status: Status | None = None, limit: int = 100
) -> list[Payout]:
    """Return payouts of a merchant or of all, newest first. Raises NotFound."""
    if merchant_id is not None:
        await merchants.find(tx, merchant_id)
    return await queries.SEARCH.all(tx, merchant_id=merchant_id, status=status, limit=limit)


async def list_matching(tx: Tx, merchant_id: str, text: str) -> list[Payout]:
    """Return a merchant's payouts that a text leads to, newest first, at most 200.

    The text is an id, a part of our or the bank's reference, or an amount as people write it.
    """
    amounts = minor_amounts(text)
    return await queries.MATCHING.all(
        tx,
        merchant_id=merchant_id,
        text=text,
        like=like(text),
        amount_minor=[amount.minor for amount in amounts],
        currency=[amount.currency for amount in amounts],
        scanned=_SCANNED,
        limit=MOST_FOUND,
    )


async def list_of_reference(
    tx: Tx, merchant_ids: Sequence[str], reference: str, limit: int
) -> list[Payout]:
    """Return the payouts of some merchants with a reference, newest first."""
    return await queries.OF_REFERENCE.all(
        tx, merchant_id=list(merchant_ids), reference=reference, limit=limit
    )


async def list_of_bank_reference(tx: Tx, reference: str, limit: int) -> list[Payout]:
    """Return the payouts of all merchants that the bank paid with a reference, newest first."""
    return await queries.OF_BANK_REFERENCE.all(tx, reference=reference, limit=limit)


async def failed_since(tx: Tx, merchant_id: str, since: int) -> list[Payout]:
    """Return a merchant's payouts that failed since a time (Unix ms), newest first, at most 100."""
    return await queries.FAILED_SINCE.all(
        tx, merchant_id=merchant_id, since=since, limit=MOST_FAILED
    )


async def returned_since(tx: Tx, since: int, limit: int) -> list[Payout]:
    """Return payouts that the bank returned since a time (Unix ms), oldest first.

    Only those that still need attention: since the return, the account was neither changed nor
    confirmed, and no other payout was created.
    """
    return await queries.RETURNED.all(tx, since=since, limit=limit)


async def list_newest(tx: Tx, merchant_id: str, limit: int, offset: int) -> list[Payout]:
    """Return a merchant's payouts, newest first."""
    return await queries.LISTS[()].newest.all(
        tx, merchant_id=merchant_id, since=0, until=list_counts.FOREVER, limit=limit, offset=offset
    )


async def list_newest_of_status(
    tx: Tx, merchant_id: str, status: Status, limit: int
) -> list[Payout]:
    """Return a merchant's newest payouts of a status, newest first."""
    return await queries.LISTS["status",].newest.all(
        tx,
        merchant_id=merchant_id,
        status=status,
        since=0,
        until=list_counts.FOREVER,
        limit=limit,
        offset=0,
    )


async def list_due(tx: Tx, limit: int) -> list[DuePayout]:
    """Return the merchants with an available balance, by currency, largest first.

    Those whose payout is withheld are among them: see ``DuePayout.waits_for``.
    """
    return await queries.DUE.all(tx, limit=limit)


async def page(
    db: Db,
    merchant_id: str,
    status: Status | None,
    number: int,
    size: int,
    within: tuple[int, int],
) -> tuple[list[Payout], int]:
    """Return a page (from 1) of a merchant's payouts, newest first, and their total number.

    ``status`` None: any status; ``within``: the times of creation, inclusive Unix ms.
    """
    filters = {} if status is None else {"status": status}
    rows = list_counts.Paginator(db, queries.LISTS, merchant_id, filters)
    return await rows.page(number, size, within)
