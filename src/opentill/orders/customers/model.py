"""A customer's newest order, and the totals of their orders in each currency.

Customers are identified by their orders' email address.
"""

import msgspec

from opentill.core.payment_methods import Method
from opentill.orders.statuses import Status


class CustomerOrder(msgspec.Struct, frozen=True):
    """The newest order of a customer, with the email address and the name as in that order.

    ``last_paid_at`` is the time of the last payment among the orders that were read, None if none
    of them is paid.
    """

    email: str
    name: str | None
    order_id: str
    created_at: int
    status: Status
    amount_minor: int
    currency: str
    last_paid_at: int | None = None


class OrderCustomer(msgspec.Struct, frozen=True):
    """The customer of an order; name and email address are None or "" if they are unknown."""

    merchant_id: str
    order_id: str
    name: str | None
    email: str


class CustomerTotal(msgspec.Struct, frozen=True):
    """The paid orders of a customer in one presentment currency, in minor units.

    ``refunded_minor`` is what the customer got back by refunds and by disputes that were lost.
    ``term`` is the email address in small letters. ``settled_minor`` is ``spent_minor`` in the
    merchant's settlement currency, so that customers can be compared.
    """

    term: str
    currency: str
    payments: int
    paid_minor: int
    refunded_minor: int
    settled_minor: int
    first_paid_at: int
    last_paid_at: int

    @property
    def spent_minor(self) -> int:
        """What the customer has paid and not got back."""
        return self.paid_minor - self.refunded_minor


class RecentOrders(msgspec.Struct, frozen=True):
    """A customer's orders in one currency among the newest orders of a merchant.

    The first fields are those of the newest of these orders, as in ``CustomerOrder``; then follow
    the number of the orders and the totals of the paid ones, as in ``CustomerTotal``.
    ``oldest_at`` and ``oldest_id`` are the time and id of the oldest of the merchant's newest
    orders, None if these are fewer than were requested. ``has_more``: the merchant has more.
    """

    email: str
    name: str | None
    order_id: str
    created_at: int
    status: Status
    amount_minor: int
    currency: str
    orders: int
    payments: int
    paid_minor: int
    refunded_minor: int
    settled_minor: int
    first_paid_at: int | None
    last_paid_at: int | None
    oldest_at: int | None
    oldest_id: str | None
    has_more: bool


class RecentCustomers(msgspec.Struct, frozen=True):
    """The customers of a merchant's newest orders, the last payment first.

    ``totals`` and ``orders`` are what each has paid in these orders and how many they are, by the
    email address in small letters. ``oldest`` is the time and id of the last of these orders, None
    if the merchant has no others (``has_more``).
    """

    customers: list[CustomerOrder]
    totals: dict[str, list[CustomerTotal]]
    orders: dict[str, int]
    oldest: tuple[int, str] | None

    @property
    def has_more(self) -> bool:
        """Whether the merchant has older orders."""
        return self.oldest is not None


class CustomerMethod(msgspec.Struct, frozen=True):
    """A payment method with which a customer has paid, of cards one card; "" if it is unknown."""

    method: Method
    card_brand: str
    card_last4: str
    payments: int
    last_paid_at: int


class CustomerSums(msgspec.Struct, frozen=True):
    """A customer's payments and what they got back in one presentment currency; minor units.

    ``orders`` counts all orders, ``payments`` the paid ones, ``disputed`` those with an open or
    lost dispute. Times are Unix ms, None if nothing was paid.
    """

    currency: str
    orders: int
    payments: int
    paid_minor: int
    refunded_minor: int
    disputed: int
    first_paid_at: int | None
    last_paid_at: int | None

    @property
    def spent_minor(self) -> int:
        """What the customer has paid and not got back."""
        return self.paid_minor - self.refunded_minor
