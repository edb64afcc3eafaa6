"""Money: whole minor units and a currency; decimal text only at the edges; one method that rounds.

Exponents are those of ISO 4217 (list one, minor unit column). The contract writes every amount
with exactly two decimals, whatever the currency has (contract.md#amounts).
"""

import re
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Final

import msgspec

# ISO 4217 active codes by the number of decimals of their minor unit. Funds codes, metals, test
# codes and "no currency" are left out: nobody can pay in them.
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

PRICE_PATTERN: Final = r"^[0-9]{1,8}(\.[0-9]{1,2})?$"
_AMOUNT: Final = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,2}))?")


_SHOWN: Final = 2  # decimals, of every currency
MOST_MINOR: Final = 10**16  # of an order: an error in a rate must not overflow the ledger


class Money(msgspec.Struct, frozen=True, order=True):
    """An amount: ``minor`` whole minor units of ``currency`` (ISO 4217, capitals)."""

    minor: int
    currency: str

    @property
    def text(self) -> str:
        """The amount as the contract writes it: two decimals, for example ``"9.99"``."""
        return show(self.minor, self.currency)


def exponent(currency: str) -> int:
    """Return how many decimals the currency's minor unit has. Raises KeyError if not active."""
    return EXPONENTS[currency]


def most(currency: str) -> int:
    """Return the largest price: 99999999.99, in minor units. Raises KeyError if not active."""
    return parse("99999999.99" if exponent(currency) else "99999999", currency)


def parse(text: str, currency: str) -> int:
    """Turn decimal text with at most two fraction digits into minor units of the currency.

    Raises ValueError with a sentence that says what is accepted: for a text that is no such number
    and for a fraction that the currency does not have (JPY ``10.50``).
    """
    found = _AMOUNT.fullmatch(text)
    if found is None:
        msg = 'must be a decimal number in text with at most two fraction digits, such as "10.00"'
        raise ValueError(msg)
    whole, fraction = found[1], (found[2] or "").ljust(2, "0")
    decimals = exponent(currency)
    if decimals < len(fraction.rstrip("0")):
        msg = f'must have no fraction, since {currency} has none, such as "10" or "10.00"'
        raise ValueError(msg)
    return int(whole + fraction.ljust(decimals, "0")[:decimals])


def show(minor: int, currency: str) -> str:
    """Write minor units with exactly two decimals: ``"9.99"``, ``"10.00"`` for 10 yen, ``"-0.40"``.

    Raises ValueError for fils or millimes below a hundredth: ``times`` never makes any, and hiding
    one would make the shown numbers disagree with the books.
    """
    decimals = exponent(currency)
    hundredths = abs(minor)
    if decimals != _SHOWN:  # most currencies have as many as are shown
        hundredths, rest = divmod(hundredths * 100, 10**decimals)
        if rest:
            msg = f"{minor} minor units of {currency} are no whole hundredths"
            raise ValueError(msg)
    return f"{'-' if minor < 0 else ''}{hundredths // 100}.{hundredths % 100:02}"


def shown(minor: int, currency: str) -> str | None:
    """Write minor units as ``show`` does; None for what it cannot write.

    For amounts that others name: in any currency, and with any number of decimals.
    """
    try:
        return show(minor, currency)
    except (KeyError, ValueError):
        return None


def named(minor: int, currency: str) -> str:
    """Write an amount that others name: ``"9.99 USD"``, else ``"9991 minor units of KWD"``."""
    text = shown(minor, currency)
    return f"{minor} minor units of {currency}" if text is None else f"{text} {currency}"


def times(minor: int, rate: Decimal, source: str, target: str) -> int:
    """Convert minor units of ``source`` by ``rate`` into minor units of ``target``, half up.

    The only place that rounds money. ``rate`` is target units per source unit; with the same
    currency on both sides it is a plain share, such as a fee rate. Three-decimal currencies are
    rounded to whole hundredths (ten fils), which is what card acquirers accept and what the
    contract's two decimals can show.
    """
    with localcontext() as context:
        context.prec = 60
        decimals = min(exponent(target), 2)
        exact = (Decimal(minor) * rate).scaleb(decimals - exponent(source))
        whole = int(exact.quantize(Decimal(1), rounding=ROUND_HALF_UP))
        grain: int = 10 ** (exponent(target) - decimals)
        return whole * grain


def share(minor: int, part: int, whole: int, currency: str) -> int:
    """Return ``minor * part / whole`` in the same currency, half up, exact for any integers."""
    grain: int = 10 ** max(0, exponent(currency) - 2)
    units = minor // grain
    return (2 * units * part + whole) // (2 * whole) * grain


def rate_text(rate: Decimal) -> str:
    """Write a rate without exponent and without needless zeros: ``"0.04"``, ``"1"``."""
    text = format(rate, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
