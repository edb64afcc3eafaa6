"""Actions on somebody's word: above the limit they take two persons.

No gateway has reported them. A report of the bank that somebody gives us is their word, too.
Whatever takes such a transition goes through ``perform``:
``tests/approvals/test_manual_transitions.py``.

A request for a second person is stored and does nothing. Approving it performs the action, if that
is still possible; otherwise the request stays pending, to be rejected (decision 0141).
"""

import msgspec

from opentill import adjustments, merchants, payouts, people
from opentill.approvals import queries
from opentill.approvals.actions import TABLE, Done
from opentill.approvals.model import (
    ActionRequest,
    Rules,
    Waiting,
    WaitingAction,
)
from opentill.core.errors import Invalid, or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.merchants import Actor, approval_limits, operator_actions
from opentill.payouts import FileRequest
from opentill.people import Approver


async def perform(tx: Tx, asked: ActionRequest, rules: Rules, now: int) -> Done | WaitingAction:
    """Perform a manual action, or store a request for it above the deployment's limit.

    The same request again, while it waits, returns the first one. Raises NotFound and Invalid, and
    CapabilityOff for a refund.
    """
    actor = operator_actions.check_actor(asked.actor.who, asked.actor.reason)
    asked = msgspec.structs.replace(asked, actor=actor)
    await merchants.lock(tx, asked.merchant_id)
    await merchants.lock_audit_log(tx)
    row, merchant_id = TABLE[asked.action], asked.merchant_id
    amount = minor, currency = await row.measure(tx, asked, rules, now)
    if minor and await approval_limits.needs_second(
        tx, merchant_id, actor.who, amount, rules.above, now
    ):
        return await _store(tx, asked, amount, now)
    done = await row.apply(tx, asked, rules, now)
    if rules.above is not None:
        moved = merchants.SoloMovement(
            merchant_id=merchant_id, id=done.id, kind=asked.action, who=actor.who,
            amount_minor=minor, currency=currency,
        )  # fmt: skip
        await approval_limits.record(tx, moved, now)
    return done


async def _store(tx: Tx, asked: ActionRequest, amount: tuple[int, str], now: int) -> WaitingAction:
    details = msgspec.json.encode(asked.refund or asked.report).decode()
    first = await queries.WAITING_OF_SUBJECT.first(
        tx, merchant_id=asked.merchant_id, action=asked.action, subject=asked.subject
    )
    if first is not None:
        if first.refund != asked.refund:
            reason = f"{asked.action} of {asked.subject} must not wait already: {first.id} does"
            raise Invalid("subject", reason)
        return first
    request = await queries.INSERT.one(
        tx, merchant_id=asked.merchant_id, id=new_id("areq"), action=asked.action,
        subject=asked.subject, details=details, amount_minor=amount[0], currency=amount[1],
        reason=asked.actor.reason, asked_by=asked.actor.who, now=now,
    )  # fmt: skip
    subject = f"{request.described}, waiting"
    await merchants.record_audit(
        tx, asked.actor, "approvals request", asked.merchant_id, subject, now
    )
    return request


async def waiting_of_reports(tx: Tx) -> list[WaitingAction]:
    """Return the pending requests for what lines of the bank's reports say, oldest first."""
    return [one for one in await queries.WAITING.all(tx) if one.report is not None]


# ── everything that waits: adjustments and payouts too ──


async def waiting(tx: Tx) -> list[Waiting]:
    """Return all pending requests for a second person, oldest first."""
    listed = [
        Waiting(
            id=one.id, kind=one.kind, merchant_id=one.merchant_id, amount_minor=one.amount_minor,
            fee_minor=0, currency=one.currency, about=one.order_id or one.reference,
            reason=one.reason, asked_by=one.asked_by, created_at=one.created_at,
        )
        for one in await adjustments.list_waiting(tx)
    ]  # fmt: skip
    listed += [
        Waiting(
            id=one.id, kind="payout", merchant_id=one.merchant_id, amount_minor=one.amount_minor,
            fee_minor=one.fee_minor, currency=one.currency, about=one.reference,
            reason=one.reason, asked_by=one.asked_by, created_at=one.created_at,
        )
        for one in await payouts.waiting(tx)
    ]  # fmt: skip
    listed += [
        Waiting(
            id=one.id, kind=one.action, merchant_id=one.merchant_id,
            amount_minor=one.amount_minor, fee_minor=0, currency=one.currency, about=one.subject,
            reason=one.reason, asked_by=one.asked_by, created_at=one.created_at,
        )
        for one in await queries.WAITING.all(tx)
    ]  # fmt: skip
    return sorted(listed, key=lambda one: (one.created_at, one.id))


async def approve(tx: Tx, request_id: str, approver: Approver, rules: Rules, now: int) -> object:
    """Perform a pending request, as another person than who asked for it; return the result.

    Everybody who approves does it here. Raises NotFound, and Invalid: on ``by``, ``invited`` and
    ``browser`` for somebody who cannot be the second person.
    """
    if request_id.startswith("preq_"):
        asked_by = (await payouts.find_request(tx, request_id)).asked_by
        await people.check_second(tx, asked_by, approver, now)
        return await payouts.approve(tx, request_id, approver.who, now)
    if not request_id.startswith("areq_"):
        asked_by = (await adjustments.find_anywhere(tx, request_id)).asked_by
        await people.check_second(tx, asked_by, approver, now)
        return await adjustments.approve(tx, request_id, approver.who, now)
    request = await _locked(tx, request_id)
    await people.check_second(tx, request.asked_by, approver, now)
    subject = f"{request.described}, asked for by {request.asked_by}"
    actor = Actor(approver.who, request.reason)
    await merchants.record_audit(tx, actor, "approvals approve", request.merchant_id, subject, now)
    asked = ActionRequest(
        action=request.action,
        merchant_id=request.merchant_id,
        subject=request.subject,
        actor=Actor(f"{request.asked_by} and {approver.who}", request.reason),
        refund=request.refund,
        report=request.report,
    )
    row = TABLE[request.action]
    minor, currency = await row.measure(tx, asked, rules, now)
    if currency != request.currency or minor > request.amount_minor:
        reason = f"amount must be at most {request.shown}, as it was asked for: ask for it anew"
        raise Invalid("amount", reason)
    await queries.DECIDE.one(
        tx, merchant_id=request.merchant_id, id=request.id, status="APPROVED",
        decided_by=approver.who, rejection=None, now=now,
    )  # fmt: skip
    return await row.apply(tx, asked, rules, now)


async def reject(tx: Tx, request_id: str, actor: Actor, now: int) -> object:
    """Reject an action or a payout that waits, one's own too. Raises NotFound and Invalid.

    An adjustment is rejected by ``reconciliation``, which may have asked for it.
    """
    if request_id.startswith("preq_"):
        return await payouts.reject(tx, request_id, actor, now)
    request = await _locked(tx, request_id)
    checked = operator_actions.check_actor(actor.who, actor.reason)
    await merchants.record_audit(
        tx, checked, "approvals reject", request.merchant_id, request.described, now
    )
    return await queries.DECIDE.one(
        tx, merchant_id=request.merchant_id, id=request.id, status="REJECTED",
        decided_by=checked.who, rejection=checked.reason, now=now,
    )  # fmt: skip


async def _locked(tx: Tx, request_id: str) -> WaitingAction:
    """Return a request that waits, with its merchant locked. Raises NotFound and Invalid."""
    seen = or_not_found(
        await queries.ANYWHERE.first(tx, id=request_id), f"nothing waits as {request_id}"
    )
    await merchants.lock(tx, seen.merchant_id)
    await merchants.lock_audit_log(tx)
    request = await queries.BY_ID.one(tx, merchant_id=seen.merchant_id, id=seen.id)
    if request.status != "WAITING":
        raise Invalid("movement", f"request must be WAITING: this one is {request.status}")
    return request


async def check_run_taker(
    tx: Tx, run_id: str, wanted: FileRequest, approver: Approver, now: int
) -> None:
    """Raise Invalid unless somebody can take the file of a run that needs a second person."""
    run = (await payouts.view_run(tx, run_id)).run
    if run.status != "SENT" and await payouts.run_needs_second(tx, run, wanted.above, now):
        await people.check_second(tx, run.created_by, approver, now)
