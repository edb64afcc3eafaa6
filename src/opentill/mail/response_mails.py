"""Mails to staff about merchants' responses to disputes."""

from opentill import disputes, merchants
from opentill.db.database import Tx
from opentill.mail import topics
from opentill.mail.model import AuditEntry, DisputeResponseContent, NewMail


async def mails_of_response(tx: Tx, entry: AuditEntry) -> list[NewMail]:
    """Return the mails to staff about a merchant's response to a dispute.

    None if the dispute has been decided, or has a newer response, whose entry causes its own mails.
    """
    dispute_id, _, response = entry.subject.partition(" ")
    dispute = await disputes.find(tx, entry.merchant_id, dispute_id)
    if dispute.status != "OPEN" or dispute.response is None or dispute.response != response:
        return []
    content = DisputeResponseContent(
        shop=(await merchants.find(tx, entry.merchant_id)).name,
        dispute_id=dispute.id,
        order_id=dispute.order_id,
        response=dispute.response,
        amount=(dispute.amount_minor, dispute.currency),
        reason=dispute.reason,
        respond_by=dispute.respond_by,
        files=len(await disputes.list_evidence(tx, dispute)),
        who=dispute.responder,
        at=entry.at,
    )
    return await topics.mails_to_staff(tx, "dispute_response", f"audit {entry.number}", content)
