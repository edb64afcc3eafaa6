"""What a refund costs: its share of the order, and what it is in USD."""

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
    """What a refund costs: minor units in the settled currency and in USD."""

    debit_minor: int
    user_usd_minor: int
    debit_usd_minor: int


async def with_usd_rate(tx: Tx, order: Order, now: int) -> Order:
    """Return the order with its rate to USD, in which its refunds are shown too.

    An order that was opened while there was no rate gets the newest one, however old; where its own
    currency has none, that of the currency it settles in. Raises Invalid on ``orderId`` if there
    never was one.
    """
    if order.usd_exchange_rate is not None:
        return order
    currency, settled = order.currency, order.settled_currency
    found = await rates.find_newest(tx, currency, "USD", now)
    factor = Decimal(1)
    if found is None and settled != currency:
        found, factor = await rates.find_newest(tx, settled, "USD", now), order.exchange_rate
    if found is None:
        reason = (
            "orderId must be an order in a currency with an exchange rate to USD, which a refund "
            f"shows: the operator sets one by `opentill rates set {currency} USD RATE`"
        )
        raise Invalid("orderId", reason)
    rate = found.rate * factor
    if money.times(order.amount_minor, rate, currency, "USD") > money.MOST_MINOR:
        reason = "orderId must be an order that its exchange rate to USD makes worth less"
        raise Invalid("orderId", f"{reason}: see the rate from {found.base} to USD")
    _log.warning(
        "refund shown in USD by a later rate",
        order=order.id, currency=found.base, rate=str(found.rate), valid_from=found.valid_from,
    )  # fmt: skip
    return msgspec.structs.replace(order, usd_exchange_rate=rate)


def share_of(order: Order, amount: int) -> Share:
    """Work out a refund's share of the order, so that the shares of all refunds add up exactly.

    A share is what the refunds accepted so far and this one cost together, less what those cost:
    however the parts are rounded, the last one brings the sum to the whole.
    """
    held = order.refund_held_minor + amount
    gross = money.times(held, order.exchange_rate, order.currency, order.settled_currency)
    if held == order.amount_minor:
        gross = order.gross_settled_minor
    if order.refund_fee_policy == "RETURNED":
        fee = order.gross_settled_minor - order.net_settled_minor
        # Both are rounded, so with a fee of almost all a part could cost more than the whole.
        gross -= money.share(fee, held, order.amount_minor, order.settled_currency)
        gross = min(gross, order.net_settled_minor)
    debit = max(0, gross - order.refund_debit_minor)
    to_usd = order.usd_exchange_rate
    if to_usd is None:
        raise AssertionError  # see with_usd_rate
    user_usd = money.times(amount, to_usd, order.currency, "USD")
    settled, usd_rate = order.settled_currency, to_usd / order.exchange_rate
    debit_usd = debit if settled == "USD" else money.times(debit, usd_rate, settled, "USD")
    return Share(debit, user_usd, debit_usd)
