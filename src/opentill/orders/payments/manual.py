"""Orders that an operator confirms or revokes, because no gateway reports on their money."""

from typing import Final

import msgspec

from opentill.core.errors import Invalid
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.gateways.model import PaymentOutcome
from opentill.orders.model import OPERATOR, NewAttempt, Order
from opentill.orders.payments import epay_numbers, queries
from opentill.orders.payments.confirmation import confirmation, count_ended
from opentill.orders.queries import INSERT_ATTEMPT
from opentill.orders.service import lock
from opentill.orders.transitions import Change, can, transition

_BY_TRANSFER: Final = PaymentOutcome(status="SUCCEEDED", method="BANK_TRANSFER")


async def awaits_confirmation(tx: Tx, order: Order) -> bool:
    """Whether the customer has stated that the whole amount is sent, for example by bank transfer.

    Customers state this by starting an attempt that only the operator can confirm.
    """
    attempt = await queries.MANUAL_ATTEMPT.first(
        tx, merchant_id=order.merchant_id, order_id=order.id
    )
    if attempt is None or attempt.currency != order.currency:
        return False
    return attempt.amount_minor >= order.amount_minor


async def confirm_manually(
    tx: Tx,
    merchant_id: str,
    order_id: str,
    who: str,
    reason: str,
    now: int,
    *,
    livemode: bool | None = None,
) -> Order:
    """Record as the operator that an order was paid, for example by bank transfer.

    ``livemode``: whether real money can be paid in this deployment, None if unknown; it is stored
    and reported in events. Raises NotFound, and Invalid for an order that cannot be paid any more.
    """
    await epay_numbers.lock_number(tx, merchant_id, order_id)
    order = await lock(tx, merchant_id, order_id)
    if not can(order, "confirmed"):
        raise Invalid("orderId", f"an order that is {order.status} cannot be confirmed")
    if other_paid_id := await epay_numbers.find_other_paid_order(tx, order):
        reason = f"{other_paid_id} was paid under the same out_trade_no: return this payment"
        raise Invalid("orderId", f"orderId must be the first paid order of its number: {reason}")
    attempt = await queries.MANUAL_ATTEMPT.first(tx, merchant_id=merchant_id, order_id=order.id)
    if attempt is None:
        new = NewAttempt(
            merchant_id=merchant_id,
            id=new_id("att"),
            order_id=order.id,
            gateway=OPERATOR,
            method="BANK_TRANSFER",
            status="SUBMITTED",
            amount_minor=order.amount_minor,
            currency=order.currency,
            locale="en",
            payer_ip=order.payer_ip,
            check_at=None,
        )
        attempt = await INSERT_ATTEMPT.one(tx, new, now=now)
    else:
        count_ended(tx, attempt, "SUCCEEDED")
    change = confirmation(order, attempt, _BY_TRANSFER, now)
    paid = msgspec.structs.replace(change.order, payer_ip=order.payer_ip, livemode=livemode)
    cause = f"confirmed by {who}: {reason}"
    return await transition(tx, msgspec.structs.replace(change, order=paid, cause=cause), now)


async def revoke_manually(
    tx: Tx, merchant_id: str, order_id: str, who: str, reason: str, now: int
) -> Order:
    """Void an unpaid order as the operator. Raises NotFound, and Invalid for a paid order."""
    order = await lock(tx, merchant_id, order_id)
    change = Change(order, "voided", f"revoked by {who}: {reason}", reason=reason)
    return await transition(tx, change, now)
