"""What an order's payment, settlement and reserve post (contract.md#postings)."""

from opentill.ledger import Account, Movement
from opentill.ledger import Type as PostingType
from opentill.orders.model import Order


def received(order: Order) -> list[Movement]:
    """Return what a confirmed payment posts; the fee only where there is one."""
    fee = order.gross_settled_minor - order.net_settled_minor
    made = [_move(order, "PAYMENT", "gateway", "pending", order.gross_settled_minor, "Payment")]
    if fee:
        made.append(_move(order, "FEE", "pending", "platform", fee, "Platform fee"))
    return made


def settlement(order: Order, reserve_minor: int) -> list[Movement]:
    """Return what moves an order's money out of pending, and what of it is held in reserve.

    Where refunds or a loss took more than the payment net of its fee, the rest is below zero. It is
    carried over from available to pending through frozen, since no posting goes there directly.
    """
    left = order.unsettled_minor
    if left < 0:
        text = "Remainder below zero carried over"
        return [
            _move(order, "FREEZE", "available", "frozen", -left, text),
            _move(order, "UNFREEZE", "frozen", "pending", -left, text),
        ]
    made: list[Movement] = []
    if left:
        made.append(_move(order, "SETTLEMENT", "pending", "available", left, "Settlement"))
    if reserve_minor:
        text = "Rolling reserve"
        made.append(_move(order, "ROLLING_RESERVE", "available", "reserve", reserve_minor, text))
    return made


def reserve_release(order: Order) -> list[Movement]:
    """Return what releasing an order's rolling reserve posts."""
    kind: PostingType = "ROLLING_RESERVE_RELEASE"
    text = "Rolling reserve released"
    return [_move(order, kind, "reserve", "available", order.reserve_minor, text)]


def _move(
    order: Order, kind: PostingType, source: Account, target: Account, amount: int, text: str
) -> Movement:
    return Movement(kind, source, target, amount, "order", order.id, text)
