"""Formatting amounts in the customer's locale, with the currency's ISO 4217 decimals."""

import copy
import re
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
_TEXT: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,3})?", re.ASCII)


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
    """Parse decimal text into minor units; None if it is no amount of the currency."""
    if _TEXT.fullmatch(text) is None:
        return None
    exact = Decimal(text).scaleb(_DECIMALS.get(currency, 2))
    return int(exact) if exact == int(exact) else None
