"""The types of events, and the type of tests."""

from typing import Final, Literal, get_args

# The types of events that merchants can subscribe to (contract.md#event-types).
Type = Literal[
    "order.paid",
    "order.refunded",
    "order.closed",
    "order.settled",
    "refund.failed",
    "dispute.created",
    "dispute.closed",
    "checkout.completed",
    "checkout.expired",
    "payout.paid",
    "payout.failed",
]
# The types of deliveries: all events, and tests, which are sent to one endpoint on request.
SentType = Literal[Type, "webhook.test"]
TYPES: Final[tuple[Type, ...]] = get_args(Type)
SENT_TYPES: Final[tuple[SentType, ...]] = get_args(SentType)
TEST: Final = "webhook.test"
