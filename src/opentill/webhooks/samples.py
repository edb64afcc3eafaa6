"""The events of one order, as the API's document shows them.

The other samples of the document agree with them: a customer buys two packets of tea for 19.98, the
fee is 4 %, one packet is refunded for 2.00, and the rest is disputed after its settlement. Events
that cannot happen to this order, such as the end of an unpaid session, are about other objects.
"""

from collections.abc import Mapping
from typing import Any, Final

from opentill.webhooks.event_types import SentType

_OPENED_AT: Final = 1736932500000
_PAID_AT: Final = _OPENED_AT + 60_000
_REFUNDED_AT: Final = _PAID_AT + 40_000
_SETTLED_AT: Final = _PAID_AT + 7 * 86_400_000
_DISPUTED_AT: Final = 1737623700000
_DECIDED_AT: Final = 1738142100000
_EXPIRED_AT: Final = _OPENED_AT + 86_400_000
_PRODUCT: Final = {"product_id": "prod_01m7y0m0jzefzv5n8efcf1hqw1"}
_ORDER: Final = {"order_id": "order_01m7y0m0jzefzv5n8efcf1hqw2", **_PRODUCT}
_UNPAID_ORDER: Final = {"order_id": "order_01m7y0m0jzefzv5n8efcf1hqw7", **_PRODUCT}
_AMOUNT: Final = {"amount": "19.98", "currency": "USD"}
_NET: Final = {"net_amount": "19.18"}
_FROM_REQUEST: Final = {
    "metadata": {"cart": "42"},
    "quantity": 2,
    "client_reference": "INV-2025-0042",
}
_LIVE: Final = {"livemode": True}
_REFUND: Final = {
    "refund_id": "re_01m7y0m0jzefzv5n8efcf1hqw3",
    "amount": "2.00",
    "currency": "USD",
    "reason": "One item was broken",
}
_DISPUTE: Final = {
    "dispute_id": "dp_01m7y0m0jzefzv5n8efcf1hqw5",
    "order_id": _ORDER["order_id"],
    "amount": "17.98",
    "currency": "USD",
    "debit": "17.98",
    "fee": "15.00",
    "debit_currency": "USD",
    "reason": "fraudulent",
    "respond_by": 1738055700000,
    "opened_at": _DISPUTED_AT,
    **_LIVE,
    "metadata": _FROM_REQUEST["metadata"],
}
_PAYOUT: Final = {
    "payout_id": "po_01m7y0m0jzefzv5n8efcf1hqw5",
    "amount": "250.00",
    "fee": "1.50",
    "currency": "USD",
}
# Time (Unix ms) and data of each event.
_EVENTS: Final[Mapping[SentType, tuple[int, dict[str, Any]]]] = {
    "order.paid": (
        _PAID_AT,
        {
            **_ORDER,
            "customer_email": "ada@example.com",
            **_AMOUNT,
            **_NET,
            "paid_at": _PAID_AT,
            **_LIVE,
            **_FROM_REQUEST,
        },
    ),
    "order.refunded": (
        _REFUNDED_AT,
        {
            **_ORDER,
            **_REFUND,
            "refund_status": "PARTIAL",
            "refunded_amount": "2.00",
            "original_amount": "19.98",
            "source": "REQUEST",
            **_LIVE,
            "metadata": _FROM_REQUEST["metadata"],
        },
    ),
    "order.closed": (
        _EXPIRED_AT,
        {
            **_UNPAID_ORDER,
            **_AMOUNT,
            "status": "CLOSED",
            "reason": "expired",
            "closed_at": _EXPIRED_AT,
            **_FROM_REQUEST,
        },
    ),
    "order.settled": (
        _SETTLED_AT,
        {
            **_ORDER,
            **_AMOUNT,
            **_NET,
            "settled_amount": "19.18",
            "settled_currency": "USD",
            "settled_at": _SETTLED_AT,
            **_LIVE,
            **_FROM_REQUEST,
        },
    ),
    "refund.failed": (
        _REFUNDED_AT,
        {
            **_ORDER,
            **_REFUND,
            "error_message": "The card is closed.",
            "reversed": False,
            **_LIVE,
            "metadata": _FROM_REQUEST["metadata"],
        },
    ),
    "dispute.created": (
        _DISPUTED_AT,
        {**_DISPUTE, "status": "OPEN", "closed_at": None},
    ),
    "dispute.closed": (
        _DECIDED_AT,
        {**_DISPUTE, "status": "LOST", "closed_at": _DECIDED_AT},
    ),
    "checkout.completed": (
        _PAID_AT,
        {
            "checkout_session_id": "cs_rqdceb7m99yhnfshefk9760251e2xjd2",
            **_ORDER,
            **_AMOUNT,
            "completed_at": _PAID_AT,
            **_LIVE,
            **_FROM_REQUEST,
        },
    ),
    "checkout.expired": (
        _EXPIRED_AT,
        {
            "checkout_session_id": "cs_0v2m5ta91hrqk7c8e6pzgx4nsdb3w8jy",
            **_UNPAID_ORDER,
            **_AMOUNT,
            "expired_at": _EXPIRED_AT,
            **_FROM_REQUEST,
        },
    ),
    "payout.paid": (
        1737105300000,
        {
            **_PAYOUT,
            "status": "PAID",
            "bank_reference": "TRN-20250117-0042",
            "paid_at": 1737105300000,
        },
    ),
    "payout.failed": (
        1737105300000,
        {
            **_PAYOUT,
            "status": "FAILED",
            "failure_reason": "The account is closed.",
            "failed_at": 1737105300000,
            "returned": False,
        },
    ),
    "webhook.test": (
        _OPENED_AT,
        {
            "test": True,
            "endpoint_id": "whe_01m7y0m0jzefzv5n8efcf1hqw7",
            "message": "This is a test of your webhook endpoint: nothing has happened.",
            "livemode": False,
        },
    ),
}


def sample(type_: SentType) -> dict[str, Any]:
    """Return a sample event of a type."""
    created_at, data = _EVENTS[type_]
    id_ = "evt_01m7y0m0jzefzv5n8efcf1hqw9"
    return {"id": id_, "type": type_, "created_at": created_at, "data": data}
