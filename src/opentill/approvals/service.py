"""Manual actions of staff: above the deployment's limit, two persons are needed.

The rule of the second person (decision 0141): a member of staff can state that money moved although
no gateway reported it, for example that an order was paid. A bank's report that they submit is such
a statement too. Every manual transition that moves a merchant's money therefore goes through
``perform``, which measures the amount, adds what the same person moved for the merchant in the last
24 hours, and, above the limit, stores a request instead of acting. The request changes nothing
else. Another person approves it with ``approve``, which performs the action if it is still
possible; otherwise the request keeps waiting and can only be rejected.

``tests/approvals/test_manual_transitions.py`` reads the source and fails if any other module calls
one of these transitions.
"""

import msgspec

from opentill import adjustments, merchants, payouts, people
from opentill.approvals import queries
from opentill.approvals.actions import TABLE, Done
from opentill.approvals.model import (
    ActionRequest,
    Decided,
    Rules,
    Waiting,
    WaitingAction,
)
from opentill.core import structs
from opentill.core.errors import Invalid, or_not_found
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.merchants import Actor, approval_limits, operator_actions
from opentill.payouts import FileRequest
from opentill.people import Approver


async def perform(tx: Tx, request: ActionRequest, rules: Rules, now: int) -> Done | WaitingAction:
    """Perform a manual action or, above the deployment's limit, store a request for it.

    If the same request waits already, returns the stored request. Raises NotFound and Invalid, and
    CapabilityOff for a refund.
    """
    actor = operator_actions.check_actor(request.actor.who, request.actor.reason)
    request = msgspec.structs.replace(request, actor=actor)
    merchant_id = request.merchant_id
    await merchants.lock(tx, merchant_id)
    await merchants.lock_audit_log(tx)
    row = TABLE[request.action]
    amount = minor, currency = await row.measure(tx, request, rules, now)
    if minor and await approval_limits.needs_second(
        tx, merchant_id, actor.who, amount, rules.above, now
    ):
        return await _store(tx, request, amount, now)
    result = await row.apply(tx, request, rules, now)
    if rules.above is not None:
        moved = merchants.SoloMovement(
            merchant_id=merchant_id, id=result.id, kind=request.action, who=actor.who,
            amount_minor=minor, currency=currency,
        )  # fmt: skip
        await approval_limits.record(tx, moved, now)
    return result


async def will_wait(
    tx: Tx, merchant_id: str, who: str, amount: tuple[int, str], rules: Rules, now: int
) -> bool:
    """Whether an action that moves an amount would wait for a second person now.

    Read-only and without locks, for forms that say so before they are sent. ``amount`` is in minor
    units with its currency, 0 for none.
    """
    return amount[0] != 0 and await approval_limits.exceeds(
        tx, merchant_id, who, amount, rules.above, now
    )


async def _store(
    tx: Tx, request: ActionRequest, amount: tuple[int, str], now: int
) -> WaitingAction:
    """Store a request, or return the same request if it waits already.

    Raises Invalid if a request with other details waits for the same action and subject.
    """
    merchant_id, action, subject = request.merchant_id, request.action, request.subject
    existing = await queries.WAITING_OF_SUBJECT.first(
        tx, merchant_id=merchant_id, action=action, subject=subject
    )
    if existing is not None:
        if existing.refund != request.refund:
            reason = f"{action} of {subject} must not wait already: {existing.id} does"
            raise Invalid("subject", reason)
        return existing
    details = msgspec.json.encode(request.refund or request.report).decode()
    stored = await queries.INSERT.one(
        tx, merchant_id=merchant_id, id=new_id("areq"), action=action, subject=subject,
        details=details, amount_minor=amount[0], currency=amount[1],
        reason=request.actor.reason, asked_by=request.actor.who, now=now,
    )  # fmt: skip
    entry = f"{stored.description}, waiting"
    await merchants.record_audit(tx, request.actor, "approvals request", merchant_id, entry, now)
    return stored


async def waiting_of_reports(tx: Tx) -> list[WaitingAction]:
    """Return the waiting requests that bank reports caused, oldest first."""
    return [request for request in await queries.WAITING.all(tx) if request.report is not None]


# ── requests of every kind, including adjustments and payouts ──


async def list_waiting(tx: Tx) -> list[Waiting]:
    """Return all requests that wait for a second person, oldest first."""
    requests = [
        structs.convert(row, Waiting, fee_minor=0, about=row.order_id or row.reference)
        for row in await adjustments.list_waiting(tx)
    ]
    requests += [
        structs.convert(row, Waiting, kind="payout", about=row.reference)
        for row in await payouts.list_requests(tx)
    ]
    requests += [
        structs.convert(row, Waiting, kind=row.action, fee_minor=0, about=row.subject)
        for row in await queries.WAITING.all(tx)
    ]
    return sorted(requests, key=lambda request: (request.created_at, request.id))


async def list_decided(tx: Tx, limit: int) -> list[Decided]:
    """Return decided requests of all kinds, newest decision first."""
    requests = [
        structs.convert(
            row, Decided, fee_minor=0, about=row.order_id or row.reference,
            is_approved=row.status == "DONE",
        )
        for row in await adjustments.list_decided(tx, limit)
    ]  # fmt: skip
    requests += [
        structs.convert(
            row, Decided, kind="payout", about=row.reference, is_approved=row.status == "APPROVED"
        )
        for row in await payouts.list_decided_requests(tx, limit)
    ]
    requests += [
        structs.convert(
            row, Decided, kind=row.action, fee_minor=0, about=row.subject,
            is_approved=row.status == "APPROVED",
        )
        for row in await queries.DECIDED.all(tx, limit=limit)
    ]  # fmt: skip
    requests.sort(key=lambda request: (request.decided_at, request.id), reverse=True)
    return requests[:limit]


async def approve(tx: Tx, request_id: str, approver: Approver, rules: Rules, now: int) -> object:
    """Perform a waiting request as the second person; return the result.

    Every approval goes through this function. Raises NotFound and Invalid. If the approver cannot
    be the second person, the field of Invalid is ``by``, ``invited`` or ``browser``.
    """
    if request_id.startswith("preq_"):
        asked_by = (await payouts.find_request(tx, request_id)).asked_by
        await people.check_second(tx, asked_by, approver, now)
        return await payouts.approve(tx, request_id, approver.who, now)
    if not request_id.startswith("areq_"):
        asked_by = (await adjustments.find_anywhere(tx, request_id)).asked_by
        await people.check_second(tx, asked_by, approver, now)
        return await adjustments.approve(tx, request_id, approver.who, now)
    request = await _lock_request(tx, request_id)
    await people.check_second(tx, request.asked_by, approver, now)
    entry = f"{request.description}, asked for by {request.asked_by}"
    actor = Actor(approver.who, request.reason)
    await merchants.record_audit(tx, actor, "approvals approve", request.merchant_id, entry, now)
    action = ActionRequest(
        action=request.action,
        merchant_id=request.merchant_id,
        subject=request.subject,
        actor=Actor(f"{request.asked_by} and {approver.who}", request.reason),
        refund=request.refund,
        report=request.report,
    )
    row = TABLE[request.action]
    minor, currency = await row.measure(tx, action, rules, now)
    if currency != request.currency or minor > request.amount_minor:
        reason = f"amount must be at most the requested {request.amount_text}: request it again"
        raise Invalid("amount", reason)
    await queries.DECIDE.one(
        tx, merchant_id=request.merchant_id, id=request.id, status="APPROVED",
        decided_by=approver.who, rejection=None, now=now,
    )  # fmt: skip
    return await row.apply(tx, action, rules, now)


async def reject(tx: Tx, request_id: str, actor: Actor, now: int) -> object:
    """Reject a waiting action or payout; its requester may reject it too.

    Adjustments are rejected by ``reconciliation``, which may have requested them. Raises NotFound
    and Invalid.
    """
    if request_id.startswith("preq_"):
        return await payouts.reject(tx, request_id, actor, now)
    request = await _lock_request(tx, request_id)
    checked = operator_actions.check_actor(actor.who, actor.reason)
    await merchants.record_audit(
        tx, checked, "approvals reject", request.merchant_id, request.description, now
    )
    return await queries.DECIDE.one(
        tx, merchant_id=request.merchant_id, id=request.id, status="REJECTED",
        decided_by=checked.who, rejection=checked.reason, now=now,
    )  # fmt: skip


async def _lock_request(tx: Tx, request_id: str) -> WaitingAction:
    """Lock the merchant of a waiting request and return it. Raises NotFound and Invalid."""
    request = or_not_found(
        await queries.ANYWHERE.first(tx, id=request_id), f"nothing waits as {request_id}"
    )
    await merchants.lock(tx, request.merchant_id)
    await merchants.lock_audit_log(tx)
    request = await queries.BY_ID.one(tx, merchant_id=request.merchant_id, id=request.id)
    if request.status != "WAITING":
        raise Invalid("movement", f"request must be WAITING: this one is {request.status}")
    return request


async def check_run_taker(
    tx: Tx, run_id: str, file_request: FileRequest, approver: Approver, now: int
) -> None:
    """Raise Invalid if a run's file needs a second person and the approver is not eligible."""
    run = (await payouts.view_run(tx, run_id)).run
    if run.status != "SENT" and await payouts.run_needs_second(tx, run, file_request.above, now):
        await people.check_second(tx, run.created_by, approver, now)
