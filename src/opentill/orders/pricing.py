"""The platform's fee, calculated when a session is opened, and again once the method is known."""

from decimal import Decimal

import msgspec

from opentill.core import money
from opentill.merchants import fee_schedule
from opentill.orders.model import Order


class Priced(msgspec.Struct, frozen=True):
    """An order's fee in its own currency, and its gross and net in the settled currency."""

    fee_minor: int
    gross_settled_minor: int
    net_settled_minor: int


def price(
    amount_minor: int,
    currency: str,
    *,
    settled_currency: str,
    exchange_rate: Decimal,
    fee_rate: Decimal,
    fixed_minor: int = 0,
) -> Priced:
    """Calculate an order's fee, gross and net, each rounded half up once.

    The fee is never more than the amount. The ledger posts the difference of gross and net as the
    fee, so that the three always add up.
    """
    share = money.times(amount_minor, fee_rate, currency, currency)
    fee = min(amount_minor, share + fixed_minor)
    gross = money.times(amount_minor, exchange_rate, currency, settled_currency)
    net = money.times(amount_minor - fee, exchange_rate, currency, settled_currency)
    return Priced(fee, gross, net)


def with_fee_of(order: Order, payment: fee_schedule.Scope) -> Order:
    """Return the order with the fee for a payment, by the order's frozen schedule.

    The gross does not change. If the schedule has no row for the payment's method and currency, the
    order is returned unchanged.
    """
    row = fee_schedule.pick(fee_schedule.parse_schedule(order.fees), payment)
    if row is None:
        return order
    priced = price(
        order.amount_minor,
        order.currency,
        settled_currency=order.settled_currency,
        exchange_rate=order.exchange_rate,
        fee_rate=row.rate,
        fixed_minor=row.fixed_minor(order.currency, order.settled_currency),
    )
    return msgspec.structs.replace(
        order,
        platform_fee_rate=row.rate,
        platform_fee_minor=priced.fee_minor,
        net_settled_minor=priced.net_settled_minor,
    )
