"""Mails about requests and payout runs that wait for a second person."""

from decimal import Decimal
from typing import Final

from opentill import merchants, payouts, people
from opentill.approvals import list_waiting
from opentill.db.database import Tx
from opentill.mail import topics
from opentill.mail.model import ApprovalContent, NewMail

_TOPIC: Final = "approval_waiting"


async def reminders(tx: Tx, above: Decimal | None, oldest: int, now: int) -> list[NewMail]:
    """Return mails about requests and runs of ``oldest`` or later, except to their requesters.

    A payout run waits if it exceeds the limit ``above``. Times are Unix ms.
    """
    requests = [request for request in await list_waiting(tx) if request.created_at >= oldest]
    names = await merchants.names(tx, (request.merchant_id for request in requests))
    mails: list[NewMail] = []
    for request in requests:
        content = ApprovalContent(
            shop=names[request.merchant_id],
            kind=request.kind,
            amount=(request.amount_minor, request.currency),
            reason=request.reason,
            who=request.asked_by,
            at=request.created_at,
        )
        mails += await _to_approvers(tx, request.id, content)
    for view in await payouts.list_waiting_runs(tx, above, now):
        run = view.run
        if run.created_at >= oldest:
            content = ApprovalContent(
                shop="",
                kind="payout-run",
                amount=(view.sums.amount_minor, run.currency),
                reason=run.reason,
                who=run.created_by,
                at=run.created_at,
                run_id=run.id,
                reference=run.reference,
            )
            mails += await _to_approvers(tx, run.id, content)
    return mails


async def _to_approvers(tx: Tx, waiting_id: str, content: ApprovalContent) -> list[NewMail]:
    return await topics.mails_to_staff(
        tx,
        _TOPIC,
        f"approval {waiting_id}",
        content,
        without_person_id=people.person_named(content.who),
    )
