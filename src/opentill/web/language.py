"""The reader's language: which one, and how amounts, times and durations look in it.

``?lang=`` wins over what was chosen before, and that over Accept-Language; the region (en-GB,
zh-HK) is taken from Accept-Language, so that an amount looks as its reader knows it. Each face has
its own sentences.

A choice is remembered in a cookie that says nothing but the language (decision 0063). It is set
only where ``?lang=`` changes the language: our own links carry the present one along.
"""

from collections.abc import Mapping
from datetime import date, timedelta, tzinfo
from decimal import Decimal
from functools import cache, lru_cache
from typing import Final

from babel import Locale
from babel.dates import format_date, format_skeleton, format_timedelta
from babel.numbers import (
    NumberPattern,
    format_decimal,
    format_percent,
    get_currency_name,
    parse_pattern,
)
from markupsafe import Markup, escape

from opentill.core import times
from opentill.core.money import Money, exponent
from opentill.web import cookies
from opentill.web.catalogue import LANGUAGES, Language

_LONGEST_S: Final = 10**11  # of a length that is written: what is stored may be any number

Sentences = Mapping[Language, Mapping[str, str]]  # language → key → sentence
# language → regions whose conventions are used if the customer's browser names them
_REGIONS: Final[dict[Language, frozenset[str]]] = {
    "en": frozenset({"US", "GB", "AU", "NZ", "CA", "IE", "IN", "SG", "HK", "ZA"}),
    "zh-Hans": frozenset({"CN", "SG", "MY"}),
    "zh-Hant": frozenset({"TW", "HK", "MO"}),
}
_BABEL: Final[dict[Language, str]] = {"en": "en", "zh-Hans": "zh_Hans", "zh-Hant": "zh_Hant"}
_LONGEST_HEADER: Final = 500
COOKIE: Final = "opentill_language"
_A_YEAR_S: Final = 365 * 86_400


class Localizer:
    """One language with one region's conventions. Made by ``choose``; immutable."""

    def __init__(self, sentences: Sentences, language: Language, region: str | None = None) -> None:
        """``region`` is an ISO 3166 code out of the table, or None."""
        self.language: Language = language
        self._locale = _locale(_BABEL[language], region)
        self._sentences = sentences[language]

    def say(self, key: str, /, **values: object) -> Markup:
        """Return a sentence with values filled in, each escaped unless it is markup already."""
        sentence = _escaped(self._sentences[key])
        return sentence.format(**values) if "{" in sentence or "}" in sentence else sentence

    def amount(self, money: Money) -> str:
        """Write an amount with as many decimals as ISO 4217 says: ``$9.99``, ``¥1,000``."""
        return _amount(self._locale, money.minor, money.currency)

    def number(self, number: int) -> str:
        """Write a number of things: ``1,234``."""
        return str(format_decimal(number, locale=self._locale))

    def currency(self, code: str) -> str:
        """Write a currency's name, its code if it has none in this language: ``US Dollar``."""
        return get_currency_name(code, locale=self._locale)

    def percent(self, share: float) -> str:
        """Write a share from 0 to 1 with at most one decimal: ``97.5%``."""
        return str(format_percent(share, "#,##0.#%", locale=self._locale))

    def day(self, day: date) -> str:
        """Write a day with its weekday: ``Mon, Mar 30, 2026``."""
        return str(format_skeleton("yMMMEd", day, locale=self._locale))

    def short_day(self, day: date) -> str:
        """Write a day for an axis: ``Mar 30``."""
        return str(format_skeleton("MMMd", day, locale=self._locale))

    def moment_in(self, time_ms: int, zone: tzinfo) -> str:
        """Write a time to the minute as a zone has it; the page names the zone."""
        time = times.moment(time_ms, zone)
        return f"{format_date(time, 'medium', locale=self._locale)}, {time:%H:%M}"

    def moment(self, time_ms: int) -> str:
        """Write a time to the minute, in UTC."""
        time = times.moment(time_ms)
        return f"{format_date(time, 'long', locale=self._locale)}, {time:%H:%M} UTC"

    def duration(self, length_ms: int) -> str:
        """Write a length of time in one unit: ``24 hours``, ``15 minutes``."""
        length = timedelta(seconds=min(max(length_ms // 1000, 1), _LONGEST_S))
        return format_timedelta(length, granularity="second", threshold=2, locale=self._locale)


def choose(
    sentences: Sentences,
    wanted: str | None,
    accept_language: str | None,
    default: Language = "en",
    remembered: Language | None = None,
) -> Localizer:
    """Choose by ``?lang=`` if it is one of ours, else by ``remembered``, else by the browser.

    ``default`` is the language where the browser names none at all; English where none of ours.
    """
    ranges = _ranges((accept_language or "")[:_LONGEST_HEADER])
    named = ours(wanted) or remembered
    for tag in ranges:
        language, region = _match(tag)
        if language is not None and named in {None, language}:
            return Localizer(sentences, language, region)
    silent = all(tag in {"", "*", "*/*"} for tag in ranges)
    return Localizer(sentences, named or (default if silent else "en"))


def ours(tag: str | None) -> Language | None:
    """Return a tag as a language of ours, None if it is none."""
    return next((language for language in LANGUAGES if language == tag), None)


def remembered(headers: Mapping[bytes, bytes]) -> Language | None:
    """Return the language that this browser's reader chose before."""
    return ours(cookies.value(headers, COOKIE).decode("latin-1"))


def cookie(language: Language, public_url: str) -> str:
    """Return the cookie that remembers a choice, on all pages of this service."""
    return cookies.line(COOKIE, language, public_url=public_url, age_s=_A_YEAR_S)


@lru_cache(maxsize=1024)
def _ranges(header: str) -> tuple[str, ...]:
    """Return the ranges of a header, best first (RFC 9110 §12.5.4), without malformed ones.

    Strangers write it and it is kept, so the caller cuts it before.
    """
    weighted: list[tuple[float, str]] = []
    for part in header.split(","):
        tag, _, parameter = part.strip().partition(";")
        name, _, weight = parameter.strip().partition("=")
        try:
            quality = float(weight) if name.strip() == "q" else 1.0
        except ValueError:
            continue
        if quality > 0:
            weighted.append((-quality, tag.strip()))
    return tuple(tag for _, tag in sorted(weighted, key=lambda pair: pair[0]))


def _match(tag: str) -> tuple[Language | None, str | None]:
    """Return our language and the region for a range such as ``zh-HK``, or (None, None)."""
    parts = tag.replace("_", "-").split("-")
    rest = {part.upper() for part in parts[1:]}
    match parts[0].lower():
        case "en":
            language: Language = "en"
        case "zh":
            hant = "HANT" in rest or (rest & _REGIONS["zh-Hant"] and "HANS" not in rest)
            language = "zh-Hant" if hant else "zh-Hans"
        case _:
            return None, None
    return language, next(iter(rest & _REGIONS[language]), None)


@lru_cache
def _locale(name: str, region: str | None) -> Locale:
    return Locale.parse(f"{name}_{region}" if region else name)


@cache  # of the catalogues' sentences only
def _escaped(sentence: str) -> Markup:
    return escape(sentence)


@lru_cache(maxsize=4096)
def _amount(locale: Locale, minor: int, currency: str) -> str:
    decimals = exponent(currency)
    pattern = _pattern(locale, decimals)
    number = Decimal(minor).scaleb(-decimals)
    return str(pattern.apply(number, locale, currency=currency, currency_digits=False))


@lru_cache
def _pattern(locale: Locale, decimals: int) -> NumberPattern:
    """Return the locale's currency pattern with ISO 4217's decimals: CLDR's differ for some."""
    pattern = parse_pattern(locale.currency_formats["standard"].pattern)
    pattern.frac_prec = (decimals, decimals)
    return pattern
