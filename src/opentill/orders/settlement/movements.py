"""The postings of an order's payment, settlement and reserve (contract.md#postings)."""

from opentill.ledger import Account, Movement
from opentill.ledger import Type as PostingType
from opentill.orders.model import Order


def received(order: Order) -> list[Movement]:
    """Return the postings of a confirmed payment, and of its fee if there is one.

    If the provider paid the merchant directly, only the fee is posted, from the prepaid balance.
    """
    fee = order.gross_settled_minor - order.net_settled_minor
    if order.paid_directly:
        text = "Platform fee of a payment to your own account"
        return [_move(order, "FEE", "prepaid", "platform", fee, text)] if fee else []
    movements = [
        _move(order, "PAYMENT", "gateway", "pending", order.gross_settled_minor, "Payment")
    ]
    if fee:
        movements.append(_move(order, "FEE", "pending", "platform", fee, "Platform fee"))
    return movements


def settlement(order: Order, reserve_minor: int) -> list[Movement]:
    """Return the postings that move an order's money out of pending, and a part into reserve.

    If refunds or a loss took more than the payment net of its fee, the remainder is below zero. It
    is carried over from available to pending through frozen: no posting type links them directly.
    """
    remainder = order.unsettled_minor
    if remainder < 0:
        text = "Remainder below zero carried over"
        return [
            _move(order, "FREEZE", "available", "frozen", -remainder, text),
            _move(order, "UNFREEZE", "frozen", "pending", -remainder, text),
        ]
    movements: list[Movement] = []
    if remainder:
        movements.append(
            _move(order, "SETTLEMENT", "pending", "available", remainder, "Settlement")
        )
    if reserve_minor:
        text = "Rolling reserve"
        movements.append(
            _move(order, "ROLLING_RESERVE", "available", "reserve", reserve_minor, text)
        )
    return movements


def reserve_release(order: Order) -> list[Movement]:
    """Return the posting that releases an order's rolling reserve."""
    kind: PostingType = "ROLLING_RESERVE_RELEASE"
    text = "Rolling reserve released"
    return [_move(order, kind, "reserve", "available", order.reserve_minor, text)]


def _move(
    order: Order, kind: PostingType, source: Account, target: Account, amount: int, text: str
) -> Movement:
    return Movement(kind, source, target, amount, "order", order.id, text)
