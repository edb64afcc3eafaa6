"""Stripe's exponents of currencies, and the currencies of its payment methods.

Stripe counts in "the currency's minor unit", which is not always that of ISO 4217
(https://docs.stripe.com/currencies, "Minor units in API amounts" and "Special cases"):

- MGA has two decimals in ISO 4217 and none at Stripe.
- ISK and UGX have none in ISO 4217 and two at Stripe, always ``00``. Stripe's list of zero-decimal
  currencies names UGX as well; its special case is the newer text and says how to charge: 5 UGX
  is ``500``. HUF and TWD are special for payouts only.
- The last digit of BHD, JOD, KWD, OMR and TND must be 0, which ours always is (decision 0006).
"""

from typing import Final

from opentill.core.money import EXPONENTS, Money
from opentill.core.payment_methods import Method

_ZERO: Final = "BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF"
_THREE: Final = "BHD JOD KWD OMR TND"
# The presentment currencies of https://docs.stripe.com/currencies that are active in ISO 4217.
_TWO: Final = (
    "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BWP BYN BZD CAD CDF CHF "
    "CNY COP CRC CVE CZK DKK DOP DZD EGP ETB EUR FJD FKP GBP GEL GIP GMD GTQ GYD HKD HNL HTG HUF "
    "IDR ILS INR ISK JMD KES KGS KHR KYD KZT LAK LBP LKR LRD LSL MAD MDL MKD MMK MNT MOP MUR MVR "
    "MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR "
    "SEK SGD SHP SLE SOS SRD SZL THB TJS TOP TRY TTD TWD TZS UAH UGX USD UYU UZS WST XCD XCG YER "
    "ZAR ZMW"
)
STRIPE_EXPONENTS: Final[dict[str, int]] = {
    code: decimals
    for codes, decimals in ((_TWO, 2), (_ZERO, 0), (_THREE, 3))
    for code in codes.split()
}


def _split_codes(currencies: str) -> frozenset[str]:
    return frozenset(currencies.split())


# The methods in order of preference: our name, Stripe's payment method type, and its currencies
# (https://docs.stripe.com/payments/payment-methods/payment-method-support). An account may use a
# subset that depends on its country; Stripe refuses the others without a charge.
TYPES: Final[tuple[tuple[Method, str, frozenset[str]], ...]] = (
    ("CREDIT_CARD", "card", frozenset(STRIPE_EXPONENTS)),
    ("ALIPAY", "alipay", _split_codes("AUD CAD CNY EUR GBP HKD JPY MYR NZD SGD USD")),
    (
        "WECHAT_PAY",
        "wechat_pay",
        _split_codes("AUD CAD CHF CNY DKK EUR GBP HKD JPY NOK SEK SGD USD"),
    ),
    ("PAYNOW", "paynow", _split_codes("SGD")),
    ("CRYPTO", "crypto", _split_codes("USD")),
)
STRIPE_TYPES: Final[dict[Method, str]] = {method: kind for method, kind, _ in TYPES}
METHODS_BY_CURRENCY: Final[dict[str, tuple[Method, ...]]] = {
    currency: tuple(method for method, _, currencies in TYPES if currency in currencies)
    for currency in STRIPE_EXPONENTS
}


def to_stripe(money: Money) -> int:
    """Return Stripe's ``amount``.

    Raises ValueError for amounts that Stripe does not accept: an unknown currency, a fraction of
    ariary, fils that are not a multiple of ten.
    """
    decimals = STRIPE_EXPONENTS.get(money.currency)
    if decimals is None:
        msg = f"Stripe does not take {money.currency}"
        raise ValueError(msg)
    shift = decimals - EXPONENTS[money.currency]
    amount, remainder = _scale(money.minor, shift)
    if remainder or amount % 10 ** max(0, decimals - 2):
        msg = f"Stripe does not take so small a fraction of {money.currency}"
        raise ValueError(msg)
    return amount


def from_stripe(amount: int, currency: str) -> Money:
    """Return the money of Stripe's ``amount`` and ``currency`` (lower case).

    Raises ValueError for a currency that is not in the table, and for a fraction of its minor unit:
    a response with such an amount is not trusted.
    """
    code = currency.upper()
    decimals = STRIPE_EXPONENTS.get(code)
    if decimals is None:
        msg = f"{currency!r} is no currency of Stripe's that is known here"
        raise ValueError(msg)
    minor, remainder = _scale(amount, EXPONENTS[code] - decimals)
    if remainder:
        msg = f"{amount} is no whole amount of {code}"
        raise ValueError(msg)
    return Money(minor, code)


def _scale(amount: int, shift: int) -> tuple[int, int]:
    """Return the amount times ten to the power of ``shift``, and the remainder."""
    return (amount * 10**shift, 0) if shift >= 0 else divmod(amount, 10**-shift)
