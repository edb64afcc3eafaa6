"""``opentill approvals list|approve|reject``: pending requests for a second person."""

from typing import TYPE_CHECKING

import typer

from opentill.cli import inputs, output, session
from opentill.cli.registration import acting, add_group

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.merchants import Actor
    from opentill.people import Approver

_COLUMNS = ("id", "kind", "merchantId", "amount", "currency", "about", "askedBy", "createdAt")
# Ids with these prefixes are in ``approvals``, all others are ids of adjustments.
_BY_APPROVALS = ("preq_", "areq_")


def register(app: typer.Typer) -> None:
    """Add the group."""
    summary = "Pending requests for a second person: above OPENTILL_APPROVAL_ABOVE."
    add_group(app, "approvals", summary, list=list_, approve=approve, reject=reject)


def approver() -> "Approver":
    """Return the logged-in person who runs the command, as approver."""
    from opentill.people import Approver

    return Approver(inputs.actor("", as_root=False).who, lambda _account: False)


def list_() -> output.Result:
    """List the pending requests for a second person, oldest first."""
    from opentill import approvals
    from opentill.core import money

    rows = [
        {
            "id": one.id,
            "kind": one.kind,
            "merchantId": one.merchant_id,
            "amount": money.show(one.amount_minor, one.currency),
            "fee": money.show(one.fee_minor, one.currency),
            "currency": one.currency,
            "about": one.about,
            "reason": one.reason,
            "askedBy": one.asked_by,
            "createdAt": one.created_at,
        }
        for one in session.query(approvals.list_waiting)
    ]
    return output.Result(rows, _COLUMNS)


def approve(request_id: str) -> output.Result:
    """Approve another person's request."""
    from opentill import approvals

    person, rules = approver(), approvals.Rules.from_settings(session.settings())

    async def work(tx: "Tx", now: int) -> object:
        return await approvals.approve(tx, request_id, person, rules, now)

    session.transact(work)
    return output.Result({"id": request_id, "status": "APPROVED", "approvedBy": person.who})


@acting()
def reject(request_id: str, *, actor: "Actor") -> output.Result:
    """Reject a request, so that it has no effect."""
    from opentill import approvals, reconciliation

    async def work(tx: "Tx", now: int) -> object:
        if request_id.startswith(_BY_APPROVALS):
            return await approvals.reject(tx, request_id, actor, now)
        who, reason = actor.who, actor.reason
        return await reconciliation.reject_adjustment(tx, request_id, who, reason, now)

    session.transact(work)
    return output.Result({"id": request_id, "status": "REJECTED", "rejectedBy": actor.who})
