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
from opentill.refunds import queries

_log: Final = structlog.get_logger()


class Share(msgspec.Struct, frozen=True):
    """The cost of a refund, in minor units of the settled currency and of USD.

    ``fee_returned_minor`` is what it gives back to the prepaid balance, in the settled currency.
    """

    debit_minor: int
    user_usd_minor: int
    debit_usd_minor: int
    fee_returned_minor: int = 0


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


async def find_share(tx: Tx, order: Order, amount: int, now: int) -> Share:
    """Return a refund's share of the order, like ``share_of``. Raises Invalid on ``orderId``."""
    order = await with_usd_rate(tx, order, now)
    if not order.paid_directly or order.refund_fee_policy == "KEPT":
        return share_of(order, amount)
    key = {"merchant_id": order.merchant_id, "order_id": order.id}
    return share_of(order, amount, await queries.RETURNED_FEES.get(tx, **key) or 0)


def share_of(order: Order, amount: int, fees_returned_minor: int = 0) -> Share:
    """Return a refund's share of the order; the shares of all refunds add up to the order exactly.

    A share is the cumulative cost of all refunds up to this one, less the cost of the earlier ones,
    so rounding errors do not accumulate. If the payment went to the merchant directly, a refund
    debits nothing; ``fees_returned_minor`` is what its earlier refunds give back of the fee.
    """
    held = order.refund_held_minor + amount
    if order.paid_directly:
        returned = 0
        if order.refund_fee_policy == "RETURNED":
            fee = order.gross_settled_minor - order.net_settled_minor
            share = money.share(fee, held, order.amount_minor, order.settled_currency)
            returned = max(0, share - fees_returned_minor)
        return Share(0, _to_usd(order, amount), 0, returned)
    gross = money.times(held, order.exchange_rate, order.currency, order.settled_currency)
    if held == order.amount_minor:
        gross = order.gross_settled_minor
    if order.refund_fee_policy == "RETURNED":
        fee = order.gross_settled_minor - order.net_settled_minor
        # Gross and fee are each rounded. If the fee is almost the whole gross, a partial refund
        # could therefore cost more than the order's net: limit it to the net.
        gross -= money.share(fee, held, order.amount_minor, order.settled_currency)
        gross = min(gross, order.net_settled_minor)
    # Refunds on the server that an order comes from are part of its merchant's opening balance.
    debit = amount if order.imported else max(0, gross - order.refund_debit_minor)
    settled, usd_rate = order.settled_currency, _usd_rate(order) / order.exchange_rate
    debit_usd = debit if settled == "USD" else money.times(debit, usd_rate, settled, "USD")
    return Share(debit, _to_usd(order, amount), debit_usd)


def _to_usd(order: Order, amount: int) -> int:
    return money.times(amount, _usd_rate(order), order.currency, "USD")


def _usd_rate(order: Order) -> Decimal:
    if order.usd_exchange_rate is None:
        raise AssertionError  # with_usd_rate has set the rate
    return order.usd_exchange_rate
