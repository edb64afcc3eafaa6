"""The platform's fee of a payment that went to the merchant directly, when it is refunded."""

from opentill import ledger
from opentill.db.database import Tx
from opentill.ledger import Account, Movement
from opentill.refunds.model import Refund


async def post(tx: Tx, refund: Refund, now: int, *, reversed_: bool = False) -> None:
    """Give a part of a direct payment's fee back to the prepaid balance, or take it again."""
    if not refund.fee_returned_minor:
        return
    source: Account = "platform"
    target: Account = "prepaid"
    text = f"Platform fee returned: {refund.described}"
    if reversed_:
        source, target = target, source
        text = "Platform fee taken again: refund reversed"
    move = Movement("FEE", source, target, refund.fee_returned_minor, "refund", refund.id, text)
    await ledger.post(tx, refund.merchant_id, refund.debit_currency, [move], now)
