"""The reader's language, and localized formats of amounts, times and durations.

``?lang=`` takes precedence over the remembered language, and that over Accept-Language. The region
(en-GB, zh-HK) comes from Accept-Language, so that formats are the reader's own. Each face has its
own sentences.

The choice is remembered in a cookie that contains only the language (decision 0063). It is set only
if ``?lang=`` changes the language, because the site's own links contain the present one.
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

_LONGEST_S: Final = 10**11  # the longest formatted duration; stored values may be arbitrary

Sentences = Mapping[Language, Mapping[str, str]]  # language → key → sentence
# language → regions whose conventions are used if the browser requests them
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
    """A language with the conventions of a region; immutable. ``choose`` creates it."""

    def __init__(self, sentences: Sentences, language: Language, region: str | None = None) -> None:
        """``region`` is an ISO 3166 code of ``_REGIONS``, or None."""
        self.language: Language = language
        self._locale = _locale(_BABEL[language], region)
        self._sentences = sentences[language]

    def say(self, key: str, /, **values: object) -> Markup:
        """Return a sentence with values inserted, each escaped unless it is markup."""
        sentence = _escaped(self._sentences[key])
        return sentence.format(**values) if "{" in sentence or "}" in sentence else sentence

    def amount(self, money: Money) -> str:
        """Format an amount with the decimals of ISO 4217: ``$9.99``, ``¥1,000``."""
        return _amount(self._locale, money.minor, money.currency)

    def number(self, number: int) -> str:
        """Format an integer: ``1,234``."""
        return str(format_decimal(number, locale=self._locale))

    def currency(self, code: str) -> str:
        """Return a currency's name, or its code if it has none in this language: ``US Dollar``."""
        return get_currency_name(code, locale=self._locale)

    def percent(self, share: float) -> str:
        """Format a share from 0 to 1 with at most one decimal: ``97.5%``."""
        return str(format_percent(share, "#,##0.#%", locale=self._locale))

    def day(self, day: date) -> str:
        """Format a day with its weekday: ``Mon, Mar 30, 2026``."""
        return str(format_skeleton("yMMMEd", day, locale=self._locale))

    def short_day(self, day: date) -> str:
        """Format a day for an axis: ``Mar 30``."""
        return str(format_skeleton("MMMd", day, locale=self._locale))

    def moment_in(self, time_ms: int, zone: tzinfo) -> str:
        """Format a time to the minute in a time zone, which the page names."""
        time = times.moment(time_ms, zone)
        return f"{format_date(time, 'medium', locale=self._locale)}, {time:%H:%M}"

    def moment(self, time_ms: int) -> str:
        """Format a time to the minute in UTC."""
        time = times.moment(time_ms)
        return f"{format_date(time, 'long', locale=self._locale)}, {time:%H:%M} UTC"

    def duration(self, length_ms: int) -> str:
        """Format a duration in one unit: ``24 hours``, ``15 minutes``."""
        length = timedelta(seconds=min(max(length_ms // 1000, 1), _LONGEST_S))
        return format_timedelta(length, granularity="second", threshold=2, locale=self._locale)


def choose(
    sentences: Sentences,
    requested: str | None,
    accept_language: str | None,
    default: Language = "en",
    remembered: Language | None = None,
) -> Localizer:
    """Choose the language by ``?lang=`` if supported, else ``remembered``, else Accept-Language.

    ``default`` applies if the browser requests no language, English if it requests other ones.
    """
    ranges = _ranges((accept_language or "")[:_LONGEST_HEADER])
    fixed = supported(requested) or remembered
    for tag in ranges:
        language, region = _match(tag)
        if language is not None and fixed in {None, language}:
            return Localizer(sentences, language, region)
    is_unspecified = all(tag in {"", "*", "*/*"} for tag in ranges)
    return Localizer(sentences, fixed or (default if is_unspecified else "en"))


def supported(tag: str | None) -> Language | None:
    """Return a tag as a supported language, None if it is not supported."""
    return next((language for language in LANGUAGES if language == tag), None)


def remembered(headers: Mapping[bytes, bytes]) -> Language | None:
    """Return the language in the browser's cookie, None without one."""
    return supported(cookies.read_cookie(headers, COOKIE).decode("latin-1"))


def cookie(language: Language, public_url: str) -> str:
    """Return the ``set-cookie`` header that remembers a language for all pages."""
    return cookies.cookie_header(COOKIE, language, public_url=public_url, age_s=_A_YEAR_S)


@lru_cache(maxsize=1024)
def _ranges(header: str) -> tuple[str, ...]:
    """Return the valid ranges of Accept-Language, best first (RFC 9110 §12.5.4).

    Results are cached, so the caller must limit the length of the untrusted header.
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
    """Return the supported language and region of a range such as ``zh-HK``, or (None, None)."""
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


@cache  # unbounded, since it contains only the catalogues' sentences
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
    """Return the locale's currency pattern with ISO 4217's decimals, from which CLDR differs."""
    pattern = parse_pattern(locale.currency_formats["standard"].pattern)
    pattern.frac_prec = (decimals, decimals)
    return pattern
