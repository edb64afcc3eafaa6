"""Record the merchant's decision about a dispute, and that the operator passed it to the bank."""

from collections.abc import Sequence
from typing import Final

from opentill import orders
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.disputes import queries
from opentill.disputes.model import Dispute, Response
from opentill.disputes.overview import find_unforwarded
from opentill.disputes.service import find
from opentill.orders import HistoryRow

# The event of the order's history; its cause begins with the dispute's id.
_FORWARDED: Final = "dispute_forwarded"


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


async def record_forwarding(
    tx: Tx, merchant_id: str, dispute_id: str, how: str, now: int
) -> Dispute:
    """Record in the order's history that staff forwarded the merchant's response to the bank.

    Raises NotFound, and Invalid for a dispute without a response that waits for staff.
    """
    dispute = await find(tx, merchant_id, dispute_id)
    order = await orders.lock(tx, merchant_id, dispute.order_id)
    if dispute_id not in await find_unforwarded(tx, merchant_id, [dispute]):
        raise Invalid("dispute", "dispute must be open with a response that was not forwarded yet")
    await orders.note(tx, order, _FORWARDED, f"{dispute_id}: {how}", now)
    return dispute


def forwarded_at(dispute: Dispute, history: Sequence[HistoryRow], since: int) -> int | None:
    """Return when staff first forwarded a response from ``since`` (Unix ms) on, None if not yet.

    ``history`` is that of the order, oldest first.
    """
    return next((at for at in list_forwarding_times(dispute, history) if at >= since), None)


def list_forwarding_times(dispute: Dispute, history: Sequence[HistoryRow]) -> list[int]:
    """Return when staff forwarded responses to the dispute (Unix ms), oldest first."""
    return [
        row.at for row in history if row.event == _FORWARDED and row.cause.startswith(dispute.id)
    ]
