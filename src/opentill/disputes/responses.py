"""Record the merchant's decision about a dispute, which the operator passes to the bank."""

from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.disputes import queries
from opentill.disputes.model import Dispute, Response
from opentill.disputes.service import find


async def respond(
    tx: Tx, merchant_id: str, dispute_id: str, response: Response, *, who: str, now: int
) -> Dispute:
    """Record that the merchant accepts or contests a dispute.

    Moves no money: the dispute ends when it is decided. Raises NotFound, and Invalid for a dispute
    that has ended or was accepted before.
    """
    changed = await queries.SET_RESPONSE.first(
        tx, merchant_id=merchant_id, id=dispute_id, response=response, who=who, now=now
    )
    if changed is None:
        await find(tx, merchant_id, dispute_id)
        raise Invalid("dispute", "dispute must be open, and not be accepted or contested already")
    return changed
