"""The reader's language: translated texts, and localized amounts, times and durations.

``?lang=`` takes precedence over the remembered language, and that over Accept-Language. The region
(en-GB, zh-HK) comes from Accept-Language, so that formats are the reader's own. Customers may have
more languages to choose from than merchants (``core/languages.py``).

The choice is remembered in a cookie that contains only the language (decision 0063). It is set only
if ``?lang=`` changes the language, because the site's own links contain the present one.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from functools import cache, lru_cache
from operator import itemgetter
from typing import Final, Literal, cast

from babel import Locale, localedata
from babel.dates import (
    DateTimeFormat,
    format_date,
    format_skeleton,
    format_timedelta,
    get_datetime_format,
    get_time_format,
)
from babel.numbers import (
    NumberPattern,
    format_decimal,
    get_currency_name,
    get_currency_symbol,
    parse_pattern,
)
from markupsafe import Markup, escape

from opentill.core import languages, times
from opentill.core.languages import ENGLISH, Area, Language
from opentill.core.money import Money, exponent
from opentill.web import cookies, translations
from opentill.web.translations import NC_

Precision = Literal["short", "medium"]  # of a time of day: to the minute, to the second
_LONGEST_S: Final = 10**11  # a longer duration is formatted as this one

# By language: the regions whose conventions are used if the browser requests them. A language that
# is missing here has all regions that Babel knows.
_REGIONS: Final[dict[Language, frozenset[str]]] = {
    "en": frozenset({"US", "GB", "AU", "NZ", "CA", "IE", "IN", "SG", "HK", "ZA"}),
    "zh-Hans": frozenset({"CN", "SG", "MY"}),
    "zh-Hant": frozenset({"TW", "HK", "MO"}),
}
_LONGEST_HEADER: Final = 500
_ADJACENT_CODE: Final = re.compile(r"[^\W\d_](?=\d)")  # the last letter before a digit
COOKIE: Final = "opentill_language"
_A_YEAR_S: Final = 365 * 86_400
_DAY_MS: Final = 86_400_000

# Codes of CLDR that are groups of countries, parts of countries (not in ISO 3166-1), or none.
_NO_COUNTRIES: Final = {
    "AC", "CP", "CQ", "DG", "EA", "EU", "EZ", "IC", "QO", "TA", "UN", "XA", "XB", "ZZ",
}  # fmt: skip
# A sign of several currencies, alone: ``$`` but not ``A$`` or ``$US``, ``¥`` but not ``CN¥``.
_SHARED_SIGN: Final = re.compile(r"(?<![A-Z])[$¥￥](?!\xa0?[A-Z])|\bkr\b")


class Localizer:
    """A language with the conventions of a region; immutable. ``choose`` creates it."""

    def __init__(self, area: Area, language: Language, region: str | None = None) -> None:
        """``region`` is an ISO 3166 or UN M.49 code (``CA``, ``419``), or None.

        A language that the area does not have becomes English.
        """
        self.area: Area = area
        self.language: Language = language if language in languages.offered(area) else ENGLISH
        self._locale = _locale(self.language.replace("-", "_"), region)

    @property
    def functions(self) -> dict[str, Callable[..., Markup]]:
        """The functions with which templates translate texts."""
        return {
            "_": self.gettext,
            "gettext": self.gettext,
            "ngettext": self.ngettext,
            "pgettext": self.pgettext,
            "npgettext": self.npgettext,
        }

    def gettext(self, message: str, /, **values: object) -> Markup:
        """Translate a text and fill values in, each escaped unless it is markup already."""
        return _fill_in(_translate(self.area, self.language, message), values)

    def pgettext(self, context: str, message: str, /, **values: object) -> Markup:
        """Translate a text whose meaning needs a context."""
        return self.gettext(NC_(context, message), **values)

    def ngettext(self, singular: str, plural: str, count: int, /, **values: object) -> Markup:
        """Translate a text about ``count`` things. It may contain the number as ``{number}``."""
        text = translations.translate_plural(self.area, self.language, singular, plural, count)
        return _fill_in(escape(text), {"number": self.number(count), **values})

    def npgettext(
        self, context: str, singular: str, plural: str, count: int, /, **values: object
    ) -> Markup:
        """Translate a text about ``count`` things whose meaning needs a context."""
        return self.ngettext(NC_(context, singular), plural, count, **values)

    def amount(self, money: Money) -> str:
        """Format an amount with the decimals of ISO 4217: ``$9.99``, ``¥1,000``."""
        return _amount(self._locale, money.minor, money.currency)

    def amount_with_code(self, money: Money) -> str:
        """Format an amount, with the currency's code if its sign is that of several currencies.

        ``€39.00``, ``$9.99 USD``. A sign at the end is replaced by the code: ``9,99 USD``.
        """
        amount = self.amount(money)
        sign = _SHARED_SIGN.search(amount)
        if sign is None:
            return amount
        is_at_end = sign.end() == len(amount)
        return f"{amount[: sign.start()].rstrip() if is_at_end else amount} {money.currency}"

    def has_shared_sign(self, money: Money) -> bool:
        """Whether other currencies have the same sign as the amount's, such as ``$``."""
        return _SHARED_SIGN.search(self.amount(money)) is not None

    def currency_sign(self, code: str) -> str:
        """Return the sign of a currency: ``€``, ``CN¥``, or its code if it has none."""
        return str(get_currency_symbol(code, locale=self._locale))

    def clock(self, time_ms: int, zone: tzinfo) -> str:
        """Format the time of day in a time zone: ``5:39 PM``, with 24 hours ``17:39``."""
        return _clock(self._locale, times.moment(time_ms, zone), "short")

    def number(self, number: int) -> str:
        """Format an integer: ``1,234``."""
        return _number(self._locale, number)

    def tenths(self, number: float) -> str:
        """Format a number with one decimal: ``1.3``."""
        return str(format_decimal(number, format="#,##0.0", locale=self._locale))

    def currency(self, code: str) -> str:
        """Return a currency's name, or its code if it has none in this language: ``US Dollar``."""
        return get_currency_name(code, locale=self._locale)

    def countries(self) -> list[tuple[str, str]]:
        """Return the codes and names of all countries, by name."""
        names = cast("Mapping[str, str]", self._locale.territories)
        codes = [code for code in names if code.isalpha() and code not in _NO_COUNTRIES]
        return sorted(((code, names[code]) for code in codes), key=itemgetter(1))

    def percent(self, share: float) -> str:
        """Format a share from 0 to 1 with one decimal: ``97.5%``."""
        return _percent(self._locale, share, decimals=1, least=1)

    def exact_percent(self, share: Decimal) -> str:
        """Format a share with all of its decimals: ``8.875%``."""
        return _percent(self._locale, share, decimals=5)

    def rate(self, share: Decimal) -> str:
        """Format a small share from 0 to 1 with two decimals: ``0.42%``."""
        return _percent(self._locale, share, decimals=2, least=2)

    def month(self, day: date) -> str:
        """Format the month of a day: ``Mar 2026``."""
        return _format_day(self._locale, "yMMM", day)

    def day(self, day: date) -> str:
        """Format a day with its weekday: ``Mon, Mar 30, 2026``."""
        return _format_day(self._locale, "yMMMEd", day)

    def short_day(self, day: date, *, with_year: bool = False) -> str:
        """Format a day for an axis or a filter: ``Mar 30``, or with its year."""
        return _format_day(self._locale, "yMMMd" if with_year else "MMMd", day)

    def day_in(self, time_ms: int, zone: tzinfo) -> str:
        """Format the day of a time in a time zone."""
        return _format_date(self._locale, "medium", times.moment(time_ms, zone).date())

    def moment_in(self, time_ms: int, zone: tzinfo) -> str:
        """Format a time to the minute in a time zone, which the page names."""
        time = times.moment(time_ms, zone)
        return self._join(self.day_in(time_ms, zone), time, "short")

    def recent_day(self, day: date, today: date) -> str:
        """Format a day as ``Mon, Mar 30``, with its year if that is not the year of ``today``."""
        skeleton = "MMMEd" if day.year == today.year else "yMMMEd"
        return _format_day(self._locale, skeleton, day)

    def recent_date(self, time_ms: int, zone: tzinfo, now: int) -> str:
        """Format the day of a time, with its year if that is not ``now``'s: ``Nov 27``."""
        return self._recent_date(times.moment(time_ms, zone), zone, now)

    def _recent_date(self, time: datetime, zone: tzinfo, now: int) -> str:
        skeleton = "MMMd" if time.year == _year(now, zone) else "yMMMd"
        return _format_day(self._locale, skeleton, time.date())

    def recent_moment(self, time_ms: int, zone: tzinfo, now: int, *, seconds: bool = False) -> str:
        """Format a time for a page: ``Nov 27, 2:05 PM``, with its year if that is not ``now``'s.

        Documents that are read in later years, such as receipts and mails, use ``moment_in``.
        """
        return self._recent_moment(times.moment(time_ms, zone), zone, now, seconds=seconds)

    def _recent_moment(self, time: datetime, zone: tzinfo, now: int, *, seconds: bool) -> str:
        day = self._recent_date(time, zone, now)
        return self._join(day, time, "medium" if seconds else "short")

    def time_element(
        self, time_ms: int, zone: tzinfo, now: int, *, seconds: bool = False, relative: bool = False
    ) -> Markup:
        """Return ``recent_moment`` or, if ``relative``, how long ago, with the date as title."""
        time = times.moment(time_ms, zone)
        day = _format_day(self._locale, "yMMMEd", time.date())
        title = escape(f"{self._join(day, time, 'medium')} ({zone})")
        age_ms = now - time_ms
        if relative and 0 <= age_ms < _DAY_MS:
            ago = timedelta(milliseconds=-age_ms)
            text = escape(format_timedelta(ago, add_direction=True, locale=self._locale))
        else:
            text = escape(self._recent_moment(time, zone, now, seconds=seconds))
        iso = times.iso(time_ms)
        html = f'<time datetime="{iso}" title="{title}">{text}</time>'
        return Markup(html)  # noqa: S704 - its texts are escaped; Markup.format is ten times slower

    def _join(self, day: str, time: datetime, precision: Precision) -> str:
        """Append a time of day, with 12 or 24 hours as is usual in the region."""
        return _pattern_of_moment(self._locale).format(_clock(self._locale, time, precision), day)

    def moment(self, time_ms: int) -> str:
        """Format a time to the minute in UTC."""
        time = times.moment(time_ms)
        day = _format_date(self._locale, "long", time.date())
        return f"{self._join(day, time, 'short')} UTC"

    def time_of_day(self, time_ms: int, zone: tzinfo) -> str:
        """Format the time of day, with 12 or 24 hours as is usual in the region: ``2:05 PM``."""
        return _clock(self._locale, times.moment(time_ms, zone), "short")

    def duration(self, length_ms: int) -> str:
        """Format a duration in one unit: ``24 hours``, ``15 minutes``."""
        length = timedelta(seconds=min(max(length_ms // 1000, 1), _LONGEST_S))
        return format_timedelta(length, granularity="second", threshold=2, locale=self._locale)


def choose(
    area: Area,
    requested: str | None,
    accept_language: str | None,
    default: Language = "en",
    remembered: Language | None = None,
) -> Localizer:
    """Choose the language by ``?lang=`` if supported, else ``remembered``, else Accept-Language.

    Else it is ``default`` if the browser requests no language, and English if it requests only
    languages that are not supported.
    """
    ranges = _ranges((accept_language or "")[:_LONGEST_HEADER])
    fixed = supported(area, requested) or supported(area, remembered)
    for tag in ranges:
        language, region = _match(area, tag)
        if language is not None and fixed in {None, language}:
            return Localizer(area, language, region)
    is_unspecified = all(tag in {"", "*", "*/*"} for tag in ranges)
    return Localizer(area, fixed or (default if is_unspecified else ENGLISH))


def supported(area: Area, tag: str | None) -> Language | None:
    """Return ``tag`` if the area is offered in this language, else None."""
    return tag if tag in languages.offered(area) else None


@cache
def names(area: Area) -> Mapping[Language, str]:
    """Return the languages that an area is offered in, each with its own name."""
    return {language: _own_name(language) for language in languages.offered(area)}


def _own_name(language: Language) -> str:
    locale = Locale.parse(language.replace("-", "_"))
    own_names = cast("Mapping[str, str]", locale.languages)
    name = own_names.get(str(locale)) or locale.get_display_name() or language
    return name[:1].upper() + name[1:]  # CLDR has names as they are within a sentence


def cookie_language(area: Area, headers: Mapping[bytes, bytes]) -> Language | None:
    """Return the language in the browser's cookie, None if there is none or it is unsupported."""
    return supported(area, cookies.read_cookie(headers, COOKIE).decode("latin-1"))


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


def _match(area: Area, tag: str) -> tuple[Language | None, str | None]:
    """Return the supported language and region of a range such as ``zh-HK``, or (None, None).

    If several supported languages have the same first part (``zh``), the script or region of the
    range selects one, else the first is returned.
    """
    first, *others = tag.replace("_", "-").split("-")
    subtags = {part.upper() for part in others}
    candidates = [
        language
        for language in languages.offered(area)
        if language.partition("-")[0] == first.lower()
    ]
    if not candidates:
        return None, None
    by_script = [each for each in candidates if subtags.intersection(each.upper().split("-")[1:])]
    by_region = [each for each in candidates if subtags & _regions(each)]
    language = [*by_script, *by_region, *candidates][0]
    return language, next(iter(subtags & _regions(language)), None)


@cache
def _regions(language: Language) -> frozenset[str]:
    prefix = language.replace("-", "_") + "_"
    suffixes = {name.removeprefix(prefix) for name in localedata.locale_identifiers()}
    regions = {suffix for suffix in suffixes if suffix.isupper() or suffix.isdigit()}
    return _REGIONS.get(language) or frozenset(regions)


@lru_cache
def _locale(name: str, region: str | None) -> Locale:
    return Locale.parse(f"{name}_{region}" if region else name)


@lru_cache(maxsize=4096)
def _format_day(locale: Locale, skeleton: str, day: date) -> str:
    return str(format_skeleton(skeleton, day, locale=locale))


@lru_cache(maxsize=4096)
def _format_date(locale: Locale, length: Literal["medium", "long"], day: date) -> str:
    return str(format_date(day, length, locale=locale))


@lru_cache(maxsize=64)
def _year(now: int, zone: tzinfo) -> int:
    return times.moment(now, zone).year


@cache
def _pattern_of_moment(locale: Locale) -> str:
    """Return the pattern that joins a time of day, its value 0, and a day, its value 1."""
    return str(get_datetime_format("medium", locale=locale))


class _AnyMinute(DateTimeFormat):
    """The fields of the times of an hour, as patterns that lack the minute and the second."""

    def __getitem__(self, name: str) -> str:
        """Return the pattern of a field, such as ``mm`` or ``h``."""
        if name[0] in "ms":
            return f"%({name[0]})0{len(name)}d"
        return super().__getitem__(name).replace("%", "%%")


@lru_cache(maxsize=1024)
def _pattern_of_hour(locale: Locale, precision: Precision, hour: int, past_second: int) -> str:
    """Return the pattern of the times of an hour, for ``%`` with a minute ``m`` and second ``s``.

    ``past_second`` is 0 for the full hour, which may have a name such as noon, and 1 for all other
    times. Babel takes ten times as long as the pattern, and a list has a time in each row.
    """
    moment = time(hour, 0, past_second)
    return get_time_format(precision, locale=locale) % _AnyMinute(moment, locale)


def _clock(locale: Locale, time: datetime, precision: Precision) -> str:
    """Format the time of day in the time zone of ``time``."""
    past_second = 1 if time.minute or time.second else 0
    pattern = _pattern_of_hour(locale, precision, time.hour, past_second)
    return pattern % {"m": time.minute, "s": time.second}


@lru_cache(maxsize=4096)
def _number(locale: Locale, number: int) -> str:
    return str(format_decimal(number, locale=locale))


@lru_cache(maxsize=8192)
def _translate(area: Area, language: Language, message: str) -> Markup:
    return escape(translations.translate(area, language, message))


def _fill_in(text: Markup, values: Mapping[str, object]) -> Markup:
    """Fill escaped values in. The names in texts have no attributes or formats."""
    if "{" not in text and "}" not in text:
        return text
    filled_in = str.format(text, **{name: escape(value) for name, value in values.items()})
    return Markup(filled_in)  # noqa: S704 - its parts are escaped; Markup.format is slow


@lru_cache(maxsize=4096)
def _amount(locale: Locale, minor: int, currency: str) -> str:
    decimals = exponent(currency)
    pattern = _pattern(locale, decimals)
    number = Decimal(minor).scaleb(-decimals)
    text = str(pattern.apply(number, locale, currency=currency, currency_digits=False))
    # CLDR separates a code such as USD from its number by a space, which Babel leaves out.
    return _ADJACENT_CODE.sub("\\g<0>\N{NO-BREAK SPACE}", text)


@lru_cache(maxsize=4096)
def _percent(locale: Locale, share: float | Decimal, decimals: int, least: int = 0) -> str:
    """Format a share with at most so many decimals: ``97.5%``, in German ``97,5 %``.

    It has at least ``least`` decimals.
    """
    return str(_percent_pattern(locale, decimals, least).apply(share, locale))


@lru_cache
def _percent_pattern(locale: Locale, decimals: int, least: int) -> NumberPattern:
    pattern = parse_pattern(locale.percent_formats[None].pattern)
    pattern.frac_prec = (least, decimals)
    return pattern


@lru_cache
def _pattern(locale: Locale, decimals: int) -> NumberPattern:
    """Return the locale's currency pattern with ISO 4217's decimals, from which CLDR differs."""
    pattern = parse_pattern(locale.currency_formats["standard"].pattern)
    pattern.frac_prec = (decimals, decimals)
    return pattern
