"""Mails to members about decisions: of their disputes, and about their merchant's standing."""

from typing import Final, Literal

import msgspec

from opentill.core import money
from opentill.db.database import Tx
from opentill.mail import topics
from opentill.mail.decision_model import DisputeResultContent, StandingContent
from opentill.mail.model import AuditEntry, NewMail

STANDING: Final = {"merchants suspend": True, "merchants resume": False}  # action → is suspended


class _ClosedDisputeEvent(msgspec.Struct, frozen=True):
    """Data of dispute.closed; ``debit`` and ``fee`` are in ``debit_currency``."""

    dispute_id: str
    order_id: str
    status: Literal["WON", "LOST", "RECOVERED"]
    amount: str
    currency: str
    debit: str
    fee: str
    debit_currency: str
    reason: str


async def mails_of_dispute(
    tx: Tx, merchant_id: str, event_id: str, at: int, data: msgspec.Raw
) -> list[NewMail]:
    """Return the mails of an event dispute.closed."""
    closed = msgspec.json.decode(data, type=_ClosedDisputeEvent)
    debit_currency = closed.debit_currency
    content = DisputeResultContent(
        merchant_id=merchant_id,
        dispute_id=closed.dispute_id,
        order_id=closed.order_id,
        status=closed.status,
        amount=(money.parse(closed.amount, closed.currency), closed.currency),
        debit=(money.parse(closed.debit, debit_currency), debit_currency),
        fee=(money.parse(closed.fee, debit_currency), debit_currency),
        reason=closed.reason,
        at=at,
    )
    return await topics.mails_to_members(
        tx, merchant_id, "dispute_closed", event_id, content, closed.order_id
    )


async def mails_of_standing(tx: Tx, entry: AuditEntry) -> list[NewMail]:
    """Return the mails of an entry of the audit log that suspended or restored a merchant."""
    content = StandingContent(
        merchant_id=entry.merchant_id,
        suspended=STANDING[entry.action],
        reason=entry.reason,
        at=entry.at,
    )
    return await topics.mails_to_members(
        tx, entry.merchant_id, "standing_changed", f"audit {entry.number}", content
    )
