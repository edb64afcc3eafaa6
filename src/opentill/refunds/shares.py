"""The cost of a refund: its share of the order, and its amount in USD."""

from decimal import Decimal
from typing import Final

import msgspec
import structlog

from opentill import rates
from opentill.core import money
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.orders import Order

_log: Final = structlog.get_logger()


class Share(msgspec.Struct, frozen=True):
    """The cost of a refund, in minor units of the settled currency and of USD."""

    debit_minor: int
    user_usd_minor: int
    debit_usd_minor: int


async def with_usd_rate(tx: Tx, order: Order, now: int) -> Order:
    """Return the order with its exchange rate to USD, in which its refunds are shown as well.

    An order that was opened while there was no rate gets the newest rate of its currency, however
    old. If its currency has none, the newest rate of the settled currency and the order's own rate
    to that currency give the rate. Raises Invalid on ``orderId`` if neither has a rate, or if the
    order's amount in USD is too large.
    """
    if order.usd_exchange_rate is not None:
        return order
    currency, settled = order.currency, order.settled_currency
    newest = await rates.find_newest(tx, currency, "USD", now)
    factor = Decimal(1)
    if newest is None and settled != currency:
        newest, factor = await rates.find_newest(tx, settled, "USD", now), order.exchange_rate
    if newest is None:
        reason = (
            "orderId must be an order in a currency with an exchange rate to USD, which a refund "
            f"shows: the operator sets one by `opentill rates set {currency} USD RATE`"
        )
        raise Invalid("orderId", reason)
    rate = newest.rate * factor
    if money.times(order.amount_minor, rate, currency, "USD") > money.MOST_MINOR:
        reason = "orderId must be an order that its exchange rate to USD makes worth less"
        raise Invalid("orderId", f"{reason}: see the rate from {newest.base} to USD")
    _log.warning(
        "refund shown in USD by a later rate",
        order=order.id, currency=newest.base, rate=str(newest.rate), valid_from=newest.valid_from,
    )  # fmt: skip
    return msgspec.structs.replace(order, usd_exchange_rate=rate)


def share_of(order: Order, amount: int) -> Share:
    """Return a refund's share of the order; the shares of all refunds add up to the order exactly.

    A share is the cumulative cost of all refunds up to this one, less the cost of the earlier ones,
    so rounding errors do not accumulate.
    """
    held = order.refund_held_minor + amount
    gross = money.times(held, order.exchange_rate, order.currency, order.settled_currency)
    if held == order.amount_minor:
        gross = order.gross_settled_minor
    if order.refund_fee_policy == "RETURNED":
        fee = order.gross_settled_minor - order.net_settled_minor
        # Gross and fee are each rounded. If the fee is almost the whole gross, a partial refund
        # could therefore cost more than the order's net: limit it to the net.
        gross -= money.share(fee, held, order.amount_minor, order.settled_currency)
        gross = min(gross, order.net_settled_minor)
    debit = max(0, gross - order.refund_debit_minor)
    to_usd = order.usd_exchange_rate
    if to_usd is None:
        raise AssertionError  # with_usd_rate has set the rate
    user_usd = money.times(amount, to_usd, order.currency, "USD")
    settled, usd_rate = order.settled_currency, to_usd / order.exchange_rate
    debit_usd = debit if settled == "USD" else money.times(debit, usd_rate, settled, "USD")
    return Share(debit, user_usd, debit_usd)
