"""Money: integers of minor units and a currency. Only ``times`` and ``share`` round.

Exponents are those of ISO 4217 (list one, minor unit column). The contract formats every amount
with exactly two decimals, whatever the currency's exponent (contract.md#amounts).
"""

import re
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Final

import msgspec

# Active ISO 4217 codes by exponent, without funds codes, metals, test codes and "no currency", in
# which nobody can pay.
_TWO: Final = (
    "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF "
    "CHF CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD "
    "HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL "
    "MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR "
    "PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT "
    "TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG"
)
_ZERO: Final = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
_THREE: Final = "BHD IQD JOD KWD LYD OMR TND"

EXPONENTS: Final[dict[str, int]] = {
    code: decimals
    for codes, decimals in ((_TWO, 2), (_ZERO, 0), (_THREE, 3))
    for code in codes.split()
}

PRICE_PATTERN: Final = r"^[0-9]{1,8}(\.[0-9]{1,2})?\Z"
_AMOUNT: Final = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,2}))?")


_SHOWN_DECIMALS: Final = 2  # decimals of every formatted amount
# The largest order in minor units, so that a wrong exchange rate cannot overflow the ledger.
MOST_MINOR: Final = 10**16


class Money(msgspec.Struct, frozen=True, order=True):
    """An amount: ``minor`` whole minor units of ``currency`` (ISO 4217, capitals)."""

    minor: int
    currency: str

    @property
    def text(self) -> str:
        """The amount in the contract's format: two decimals, such as ``"9.99"``."""
        return show(self.minor, self.currency)


def exponent(currency: str) -> int:
    """Return the exponent of a currency. Raises KeyError for a code that is not active."""
    return EXPONENTS[currency]


def max_price(currency: str) -> int:
    """Return the largest price in minor units. Raises KeyError for a code that is not active."""
    return parse("99999999.99" if exponent(currency) else "99999999", currency)


def parse(text: str, currency: str) -> int:
    """Parse decimal text with at most two fraction digits into minor units of the currency.

    Raises ValueError, whose text says what is accepted, for other text and for a fraction that the
    currency does not have (JPY ``10.50``).
    """
    match = _AMOUNT.fullmatch(text)
    if match is None:
        msg = 'must be a decimal number in text with at most two fraction digits, such as "10.00"'
        raise ValueError(msg)
    whole, fraction = match[1], (match[2] or "").ljust(2, "0")
    decimals = exponent(currency)
    if decimals < len(fraction.rstrip("0")):
        msg = f'must have no fraction, since {currency} has none, such as "10" or "10.00"'
        raise ValueError(msg)
    return int(whole + fraction.ljust(decimals, "0")[:decimals])


def show(minor: int, currency: str) -> str:
    """Format minor units with exactly two decimals: ``"9.99"``, ``"10.00"`` (10 yen), ``"-0.40"``.

    Raises ValueError for a fraction of a hundredth (fils, millimes): ``times`` never produces one,
    and hiding it would make the formatted amounts disagree with the ledger.
    """
    decimals = exponent(currency)
    hundredths = abs(minor)
    if decimals != _SHOWN_DECIMALS:
        hundredths, remainder = divmod(hundredths * 100, 10**decimals)
        if remainder:
            msg = f"{minor} minor units of {currency} are no whole hundredths"
            raise ValueError(msg)
    return f"{'-' if minor < 0 else ''}{hundredths // 100}.{hundredths % 100:02}"


def shown(minor: int, currency: str) -> str | None:
    """Format minor units like ``show``; None for an amount that ``show`` refuses.

    Use it for external amounts, which may have any currency and any number of decimals.
    """
    try:
        return show(minor, currency)
    except (KeyError, ValueError):
        return None


def named(minor: int, currency: str) -> str:
    """Format an external amount: ``"9.99 USD"`` if possible, else ``"9991 minor units of KWD"``."""
    text = shown(minor, currency)
    return f"{minor} minor units of {currency}" if text is None else f"{text} {currency}"


def times(minor: int, rate: Decimal, source: str, target: str) -> int:
    """Convert minor units of ``source`` by ``rate`` into minor units of ``target``, half up.

    ``rate`` is target units per source unit; with the same currency on both sides it is a share,
    such as a fee rate. Three-decimal currencies are rounded to whole hundredths (ten fils), which
    card acquirers accept and the contract's two decimals can show.
    """
    with localcontext() as context:
        context.prec = 60
        decimals = min(exponent(target), 2)
        exact = (Decimal(minor) * rate).scaleb(decimals - exponent(source))
        whole = int(exact.quantize(Decimal(1), rounding=ROUND_HALF_UP))
        grain: int = 10 ** (exponent(target) - decimals)
        return whole * grain


def share(minor: int, part: int, whole: int, currency: str) -> int:
    """Return ``minor * part / whole`` in the same currency, half up and exact for any integers."""
    grain: int = 10 ** max(0, exponent(currency) - 2)
    units = minor // grain
    return (2 * units * part + whole) // (2 * whole) * grain


def rate_text(rate: Decimal) -> str:
    """Format a rate without exponent and trailing zeros: ``"0.04"``, ``"1"``."""
    text = format(rate, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
