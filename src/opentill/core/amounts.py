"""Amounts as people write them: ``$24.90``, ``12,50``, ``1 200``, ``EUR 1.234,56``.

A separator may stand for thousands or for the fraction. A text that can be read in both ways has
two readings: ``1,200`` is 1200, or 1.200 in a currency with three decimals. A search uses all
readings; a form refuses such a text (``parse_entry``).
"""

import re
import unicodedata
from typing import Final, Literal

import msgspec

from opentill.core.errors import Invalid
from opentill.core.money import EXPONENTS, Money, parse

_LONGEST: Final = 40  # characters of a text that can be an amount
_MOST_DIGITS: Final = 15  # of whole units
_DOLLARS: Final = (
    "USD AUD BBD BMD BND BSD BZD CAD FJD GYD HKD JMD KYD LRD NAD NZD SBD SGD SRD TTD TWD XCD"
)
_PESOS: Final = "ARS CLP COP CUP DOP MXN UYU"  # pesos are written with the dollar sign too
# Currency signs and abbreviations in small letters → the currencies that are written so.
_SIGNS: Final[dict[str, tuple[str, ...]]] = {
    sign: tuple(codes.split())
    for sign, codes in {
        "$": f"{_DOLLARS} {_PESOS}",
        "us$": "USD",
        "a$": "AUD",
        "au$": "AUD",
        "c$": "CAD",
        "ca$": "CAD",
        "hk$": "HKD",
        "mx$": "MXN",
        "nt$": "TWD",
        "nz$": "NZD",
        "s$": "SGD",
        "r$": "BRL",
        "€": "EUR",
        "£": "GBP EGP GIP LBP SDG SHP SSP SYP",
        "¥": "JPY CNY",
        "円": "JPY",
        "元": "CNY HKD TWD",
        "₩": "KRW",
        "₹": "INR",
        "₺": "TRY",
        "₽": "RUB",
        "₴": "UAH",
        "₫": "VND",
        "₪": "ILS",
        "₦": "NGN",
        "₱": "PHP",
        "฿": "THB",
        "₡": "CRC",
        "₲": "PYG",
        "₸": "KZT",
        "₾": "GEL",
        "zł": "PLN",
        "kč": "CZK",
        "ft": "HUF",
        "kr": "DKK ISK NOK SEK",
        "lei": "RON MDL",
        "rm": "MYR",
        "rp": "IDR",
        "fr.": "CHF",
        "r": "ZAR",
    }.items()
}
_PARTS: Final = re.compile(
    r"(?P<before>[^\d\s]*) ?(?P<number>\d[\d .,'’]*\d|\d) ?(?P<after>[^\d\s]*)", re.ASCII
)
_PLAIN: Final = re.compile(r"(\d+)(?:[.,](\d{1,3}))?", re.ASCII)
# Groups of three digits, or of two and at last three as in India, with a separator between them.
_GROUPED: Final = re.compile(
    r"(?P<whole>\d{1,3}(?P<separator>[ .,'’])\d{2,3}(?:(?P=separator)\d{2,3})*)"
    r"(?:(?!(?P=separator))[.,](?P<fraction>\d{1,3}))?",
    re.ASCII,
)
_NOTHING: Final = re.compile(r"0+(?:[.,]0{1,3})?", re.ASCII)
_MINUS: Final = ("-", "\N{MINUS SIGN}")
_THREE_AT_LAST: Final = re.compile(r"[ .,'’]\d{3}$", re.ASCII)
# A point or comma before the last three digits may stand for thousands or for the fraction.
_UNCLEAR: Final = re.compile(r"\D*\d{1,3}[.,]\d{3}\D*", re.ASCII)


class AmountReading(msgspec.Struct, frozen=True):
    """One way to read an amount.

    ``text`` has the contract's format, two decimals. ``currencies`` are the codes of the currencies
    that it may be in; none: any.
    """

    text: str
    currencies: tuple[str, ...]


def read_amount(text: str) -> tuple[AmountReading, ...]:
    """Return the ways to read a text as an amount above zero, the likeliest first.

    Returns () for a text that is no amount. A sign or code of a currency may precede or follow the
    number. A reading has a fraction only in currencies that have one: ``JPY 12.50`` is no amount.
    """
    if len(text) > _LONGEST:
        return ()
    match = _PARTS.fullmatch(" ".join(unicodedata.normalize("NFKC", text).split()))
    if match is None:
        return ()
    before, after = _currencies_of(match["before"]), _currencies_of(match["after"])
    if before is None or after is None:
        return ()
    currencies = (
        tuple(code for code in before if code in after) if after and before else before or after
    )
    if before and after and not currencies:
        return ()
    readings = [
        AmountReading(f"{whole}.{fraction[:2].ljust(2, '0')}", of_reading)
        for whole, fraction in _numbers(match["number"])
        if (of_reading := _with_decimals(currencies, fraction)) is not None
        and (whole != "0" or fraction.strip("0"))
    ]
    return tuple(dict.fromkeys(readings))


class UnreadableAmount(Invalid):
    """The entry of a form is not one amount of the form's currency."""

    def __init__(
        self, field: str, problem: Literal["format", "currency", "separator", "decimals"]
    ) -> None:
        """``problem`` is what is wrong with the entry."""
        super().__init__(field, f"{field} must be one amount of the currency, such as 24.90")
        self.problem: Final = problem


def parse_entry(field: str, text: str, currency: str) -> str:
    """Return the amount that a person entered in a form, in the contract's format.

    ``currency`` is that of the form; an unknown code accepts every currency. Raises
    UnreadableAmount for no amount above zero, for another currency, for a fraction that the
    currency does not have, and for a separator that may stand for thousands or for the fraction.
    """
    readings = read_amount(text)
    if not readings:
        raise UnreadableAmount(field, "format")
    if currency not in EXPONENTS:
        return readings[0].text
    texts = [
        reading.text
        for reading in readings
        if not reading.currencies or currency in reading.currencies
    ]
    if not texts:
        raise UnreadableAmount(field, "currency")
    if EXPONENTS[currency] and _UNCLEAR.fullmatch(unicodedata.normalize("NFKC", text)):
        raise UnreadableAmount(field, "separator")
    if not EXPONENTS[currency] and not texts[0].endswith(".00"):
        raise UnreadableAmount(field, "decimals")
    return texts[0]


def parse_minor(
    field: str, text: str, currency: str, *, signed: bool = False, zero: bool = False
) -> int:
    """Return the minor units of the amount that a person entered in a form.

    ``signed`` accepts a minus before the amount, ``zero`` accepts zero. Raises UnreadableAmount
    like ``parse_entry``, and for an amount that is too large.
    """
    bare = unicodedata.normalize("NFKC", text).strip()
    if zero and _NOTHING.fullmatch(bare):
        return 0
    is_negative = signed and bare[:1] in _MINUS
    entry = parse_entry(field, bare[1:] if is_negative else bare, currency)
    try:
        minor = parse(entry, currency)
    except ValueError:
        raise UnreadableAmount(field, "format") from None
    return -minor if is_negative else minor


def minor_amounts(text: str) -> list[Money]:
    """Return the amounts that a text may mean, one for each currency; none for other texts."""
    return [
        Money(parse(reading.text, currency), currency)
        for reading in read_amount(text)
        for currency in reading.currencies or EXPONENTS
        if EXPONENTS[currency] or reading.text.endswith(".00")
    ]


def _currencies_of(name: str) -> tuple[str, ...] | None:
    """Return the currencies of a sign or code, () if it is empty, None if there is none."""
    if not name:
        return ()
    if name.upper() in EXPONENTS:
        return (name.upper(),)
    return _SIGNS.get(name.lower())


def _numbers(number: str) -> list[tuple[str, str]]:
    """Return the whole units and the fraction of each way to read a number."""
    results: list[tuple[str, str]] = []
    if (grouped := _GROUPED.fullmatch(number)) and _THREE_AT_LAST.search(grouped["whole"]):
        results.append((re.sub(r"\D", "", grouped["whole"]), grouped["fraction"] or ""))
    if plain := _PLAIN.fullmatch(number):
        results.append((plain[1], plain[2] or ""))
    return [
        (whole.lstrip("0") or "0", fraction)
        for whole, fraction in results
        if len(whole) <= _MOST_DIGITS
    ]


def _with_decimals(currencies: tuple[str, ...], fraction: str) -> tuple[str, ...] | None:
    """Return the currencies in which an amount may have this fraction; None if there is none.

    ``currencies`` () means any currency; so does the result for up to two decimals. Amounts are
    whole hundredths, also in currencies with three decimals.
    """
    if fraction[2:].strip("0"):
        return None
    decimals = 3 if len(fraction) == 3 else len(fraction.rstrip("0"))  # noqa: PLR2004 - digits
    if not currencies and decimals < 3:  # noqa: PLR2004 - digits
        return ()
    fitting = tuple(code for code in currencies or EXPONENTS if EXPONENTS[code] >= decimals)
    return fitting or None
