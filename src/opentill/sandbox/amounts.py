"""Formatting amounts in the customer's locale, with the currency's ISO 4217 decimals."""

import copy
import re
import unicodedata
from decimal import Decimal
from typing import Final

from babel.core import Locale, UnknownLocaleError

# ISO 4217: currencies whose minor unit is not a hundredth. Babel's own digits are those that are
# customary in cash (CLDR), which for some currencies are fewer than can be charged.
_ZERO: Final = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_THREE: Final = "BHD IQD JOD KWD LYD OMR TND"
_DECIMALS: Final[dict[str, int]] = {
    **dict.fromkeys(_ZERO.split(), 0),
    **dict.fromkeys(_THREE.split(), 3),
}

_ADJACENT_CODE: Final = re.compile(r"[^\W\d_](?=\d)")  # the last letter before a digit
_SHARED_SIGN: Final = re.compile(r"(?<![A-Z])[$¥￥](?!\xa0?[A-Z])|\bkr\b")
_ENTRY: Final = re.compile(
    r"(?P<before>[A-Za-z]{3}|[$€£¥])? ?"
    r"(?P<whole>[0-9]{1,3}(?P<separator>[ .,'’])[0-9]{3}(?:(?P=separator)[0-9]{3}){0,2}"
    r"|[0-9]{1,12})(?:(?!(?P=separator))[.,](?P<fraction>[0-9]{1,3}))?"
    r" ?(?P<after>[A-Za-z]{3}|[$€£¥])?"
)
_UNCLEAR: Final = re.compile(r"([0-9]{1,3})[.,]([0-9]{3})")


def show(minor: int, currency: str, language: str) -> str:
    """Format minor units for people, such as ``€1,234.50``; an unknown language is English."""
    try:
        locale = Locale.parse(language, sep="-")
    except (ValueError, UnknownLocaleError):
        locale = Locale("en")
    decimals = _DECIMALS.get(currency, 2)
    pattern = copy.copy(locale.currency_formats["standard"])
    pattern.frac_prec = (decimals, decimals)
    amount = Decimal(minor).scaleb(-decimals)
    text = str(pattern.apply(amount, locale, currency=currency, currency_digits=False))
    # CLDR separates a code such as USD from its number by a space, which Babel leaves out.
    return _ADJACENT_CODE.sub("\\g<0>\N{NO-BREAK SPACE}", text)


def has_shared_sign(text: str) -> bool:
    """Whether an amount's sign is that of several currencies: ``$`` but not ``US$``."""
    return _SHARED_SIGN.search(text) is not None


def decimal(minor: int, currency: str) -> str:
    """Format minor units for programs: ``1234.50``, with the decimals of the currency."""
    return f"{Decimal(minor).scaleb(-_DECIMALS.get(currency, 2)):f}"


def minor(text: str, currency: str) -> int | None:
    """Parse an amount as people write it: ``4.00``, ``4,00 €``, ``$1,200.50``, ``EUR 1.200,50``.

    Returns None for a text that is no amount of the currency, or that has one separator before
    three digits, which may stand for thousands or for the fraction. In currencies with three
    decimals it stands for the fraction, in those without decimals for thousands. A sign is not
    compared with the currency, because the page says which currency it is.
    """
    match = _ENTRY.fullmatch(unicodedata.normalize("NFKC", text).strip())
    if match is None:
        return None
    codes = {part for part in (match["before"], match["after"]) if part and part.isalpha()}
    decimals = _DECIMALS.get(currency, 2)
    if {code.upper() for code in codes} - {currency}:
        return None
    whole, fraction = match["whole"], match["fraction"] or ""
    if not fraction and decimals and (parts := _UNCLEAR.fullmatch(whole)) is not None:
        if decimals != len(parts[2]):
            return None
        whole, fraction = parts[1], parts[2]
    whole = re.sub(r"\D", "", whole)
    exact = Decimal(f"{whole}.{fraction or 0}").scaleb(decimals)
    return int(exact) if exact == int(exact) else None
