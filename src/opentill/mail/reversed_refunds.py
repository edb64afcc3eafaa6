"""The mail to a customer about a refund that was mailed as done and has come back to the shop."""

import msgspec

from opentill.db.database import Tx
from opentill.mail import contents, queries
from opentill.mail.model import Mail, NewMail
from opentill.mail.words import Amount

_LISTED = 200  # mails of one order
_CANCELLED = "not sent: the refund was reversed before"


async def mails_to_customer(
    tx: Tx, merchant_id: str, order_id: str, refund_id: str, amount: Amount, cause: str, at: int
) -> list[NewMail]:
    """Return a mail to each customer who has had a mail of the refund, or may have had one.

    A mail of the refund that still waits is cancelled instead: its customer gets neither.
    """
    of_order = await queries.OF_ORDER.all(
        tx, merchant_id=merchant_id, order_id=order_id, limit=_LISTED
    )
    new_mails: dict[str, NewMail] = {}
    for mail in of_order:
        if mail.topic != "refund" or mail.status == "FAILED":
            continue
        refund = msgspec.json.decode(mail.data, type=contents.Refund)
        # Mails of earlier versions do not name their refund.
        if refund.refund_id != refund_id and (refund.refund_id or refund.amount != amount):
            continue
        if await _may_be_sent(tx, mail, at):
            new_mails[mail.recipient] = NewMail(
                merchant_id=merchant_id,
                topic="refund_failed",
                cause=cause,
                recipient=mail.recipient,
                language=mail.language,
                data=msgspec.structs.replace(refund, refund_id=refund_id, at=at),
                order_id=order_id,
            )
    return list(new_mails.values())


async def _may_be_sent(tx: Tx, mail: Mail, now: int) -> bool:
    """Return whether a mail may have been sent; one that waits is cancelled."""
    if mail.status != "WAITING":
        return True
    cancelled = await queries.CANCEL.get(
        tx, merchant_id=mail.merchant_id, id=mail.id, result=_CANCELLED, now=now
    )
    return cancelled is None
