"""The tax that a price includes, and its share in refunds.

The merchant states a rate, such as 0.19, that all of its prices include. The tax in an amount is
``amount × rate / (1 + rate)``, computed with integers of minor units and rounded once, half up, to
the smallest amount that the contract shows (a hundredth, or a whole unit where the currency has no
fraction). The amount without tax is the difference, so that both always add up to the price.

The tax of a refund is the tax in what was paid before it, minus the tax in what is still paid after
it. The taxes of all refunds and of the rest therefore add up to the tax of the payment exactly, in
any order and number of refunds, and a full refund returns the whole tax.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from opentill.core import money
from opentill.core.money import Money

_DECIMALS: Final = 5  # of a rate (migrations)
_ONE: Final = 10**_DECIMALS


def included_tax(amount: Money, rate: Decimal) -> Money:
    """Return the tax that an amount of at least 0 includes; ``rate`` is a share such as 0.19."""
    part = int(rate.scaleb(_DECIMALS))
    return Money(money.share(amount.minor, part, _ONE + part, amount.currency), amount.currency)


def refunded_taxes(paid: Money, refunds: Sequence[Money], rate: Decimal) -> list[Money]:
    """Return the tax of each refund; ``paid`` is what was paid before the first of them."""
    taxes: list[Money] = []
    rest, tax_of_rest = paid, included_tax(paid, rate)
    for refund in refunds:
        rest = Money(max(0, rest.minor - refund.minor), paid.currency)
        tax = included_tax(rest, rate)
        taxes.append(Money(tax_of_rest.minor - tax.minor, paid.currency))
        tax_of_rest = tax
    return taxes
