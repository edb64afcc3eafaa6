"""Event payloads about disputes (contract.md#event-types)."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from opentill import orders
from opentill.core import money
from opentill.disputes.model import Dispute, Status, Transition
from opentill.orders import Order
from opentill.orders.events import Livemode, Metadata, OrderId
from opentill.webhooks import Event, Type
from opentill.webhooks.fields import Amount, Currency


class DisputeData(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute was opened or decided. It is closed again if a loss is recovered."""

    dispute_id: Annotated[str, Meta(description="The dispute's id.")]
    order_id: OrderId
    status: Annotated[Status, Meta(description="The status of the dispute.")]
    amount: Annotated[Amount, Meta(description="What the customer disputes.")]
    currency: Currency
    debit: Annotated[Amount, Meta(description="The amount that a loss takes from the balance.")]
    fee: Annotated[Amount, Meta(description="The fee of a loss, on top.")]
    debit_currency: Annotated[
        str, Meta(description="The ISO 4217 code of the currency of `debit` and `fee`.")
    ]
    reason: Annotated[str, Meta(description="Why the customer disputes, in the bank's words.")]
    respond_by: Annotated[
        int | None,
        Meta(
            description="Until when evidence counts, Unix ms; null if nobody has named a time yet."
        ),
    ]
    opened_at: Annotated[int, Meta(description="When it was opened, Unix ms.")]
    closed_at: Annotated[
        int | None,
        Meta(description="When it was decided, Unix ms; null while OPEN."),
    ]
    livemode: Livemode = msgspec.UNSET
    metadata: Metadata


PAYLOADS: Final[dict[Type, type[msgspec.Struct]]] = {
    "dispute.created": DisputeData,
    "dispute.closed": DisputeData,
}


def event_of(order: Order, dispute: Dispute, transition: Transition, at: int) -> Event:
    """Return the event of a transition that a dispute has taken."""
    data = DisputeData(
        dispute_id=dispute.id,
        order_id=order.id,
        status=dispute.status,
        amount=money.show(dispute.amount_minor, dispute.currency),
        currency=dispute.currency,
        debit=money.show(dispute.debit_minor, dispute.debit_currency),
        fee=money.show(dispute.fee_minor, dispute.debit_currency),
        debit_currency=dispute.debit_currency,
        reason=dispute.reason,
        respond_by=dispute.respond_by,
        opened_at=dispute.created_at,
        closed_at=dispute.closed_at,
        livemode=orders.livemode_of(order),
        metadata=orders.metadata(order),
    )
    return Event(dispute.merchant_id, transition.emits, data, at)
