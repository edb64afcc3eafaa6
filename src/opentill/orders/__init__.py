"""Orders: from the open session to the money received, and back."""

from opentill.orders.model import (
    STEPS,
    Attempt,
    Event,
    Line,
    Order,
    OrderDetail,
    OrderOut,
    Status,
    Step,
)
from opentill.orders.payments import Payer, ask, callback_url, submit
from opentill.orders.service import (
    confirm_by_hand,
    find,
    find_attempt,
    given_back,
    hear,
    last_attempt,
    lock,
    merchant_of,
    note,
    revoke_by_hand,
    step,
)

__all__ = [
    "STEPS",
    "Attempt",
    "Event",
    "Line",
    "Order",
    "OrderDetail",
    "OrderOut",
    "Payer",
    "Status",
    "Step",
    "ask",
    "callback_url",
    "confirm_by_hand",
    "find",
    "find_attempt",
    "given_back",
    "hear",
    "last_attempt",
    "lock",
    "merchant_of",
    "note",
    "revoke_by_hand",
    "step",
    "submit",
]
