"""PayPal's currencies and their decimals, and amounts as PayPal writes them.

Source: developer.paypal.com, "Currency codes" (reference/currency-codes). HUF and TWD have two
decimals in ISO 4217 and none at PayPal, which refuses a fraction. An amount is text with exactly
the decimals of its currency, and never a float.
"""

import re
from typing import Final

from opentill.core.money import EXPONENTS, MOST_MINOR, Money

_ZERO: Final = "HUF JPY TWD"
_TWO: Final = "AUD BRL CAD CHF CNY CZK DKK EUR GBP HKD ILS MXN MYR NOK NZD PHP PLN SEK SGD THB USD"
DECIMALS: Final[dict[str, int]] = {
    code: decimals for codes, decimals in ((_ZERO, 0), (_TWO, 2)) for code in codes.split()
}
_VALUE: Final = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,3}))?", re.ASCII)


def to_paypal(money: Money) -> dict[str, str]:
    """Return PayPal's ``money`` object.

    Raises ValueError for a currency that PayPal does not take, and for a fraction of a currency
    that has none there.
    """
    decimals = DECIMALS.get(money.currency)
    if decimals is None:
        msg = f"PayPal does not take {money.currency}"
        raise ValueError(msg)
    whole, fraction = divmod(money.minor, 10 ** EXPONENTS[money.currency])
    if fraction and not decimals:
        msg = f"PayPal takes {money.currency} without decimals"
        raise ValueError(msg)
    value = f"{whole}.{fraction:0{decimals}}" if decimals else str(whole)
    return {"currency_code": money.currency, "value": value}


def from_paypal(value: str, currency: str) -> Money:
    """Return the money of PayPal's ``value`` and ``currency_code``.

    PayPal also writes ``10.00`` for currencies without decimals. Raises ValueError for any other
    text than a number, for an unknown currency, and for a fraction of its minor unit.
    """
    match = _VALUE.fullmatch(value)
    exponent = EXPONENTS.get(currency)
    if match is None or exponent is None:
        msg = "it is no amount in a currency that is known here"
        raise ValueError(msg)
    fraction = (match[2] or "").ljust(exponent, "0")
    if fraction[exponent:].strip("0"):
        msg = f"it has a fraction that {currency} does not have"
        raise ValueError(msg)
    minor = int(match[1] + fraction[:exponent])
    if minor > MOST_MINOR:
        msg = "it is too large"
        raise ValueError(msg)
    return Money(minor, currency)
