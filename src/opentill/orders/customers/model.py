"""What is known of a customer: orders under one e-mail, and sums of them."""

import msgspec

from opentill.orders.model import Status


class CustomerOrder(msgspec.Struct, frozen=True):
    """The newest order of a customer; amount in minor units, ``created_at`` Unix ms.

    ``email`` is as the order has it.
    """

    email: str
    order_id: str
    created_at: int
    status: Status
    amount_minor: int
    currency: str


class CustomerSums(msgspec.Struct, frozen=True):
    """What a customer paid and got back in one currency, as presented to them: minor units.

    ``orders`` are all, ``payments`` those that were paid, ``disputed`` those with a dispute that is
    open or lost. Times are Unix ms, None where nothing was paid.
    """

    currency: str
    orders: int
    payments: int
    paid_minor: int
    refunded_minor: int
    disputed: int
    first_paid_at: int | None
    last_paid_at: int | None
