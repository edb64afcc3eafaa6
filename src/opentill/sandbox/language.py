"""Chooses the language of the bank's pages: the payment page's, otherwise the browser's.

The region (en-GB, zh-HK) is the browser's, so that an amount looks as on the shop's page.
"""

from typing import Final

from markupsafe import Markup, escape

from opentill.sandbox.catalogue import SENTENCES, Language

_LONGEST_HEADER: Final = 500
_TRADITIONAL: Final = frozenset({"HANT", "TW", "HK", "MO"})
# language → regions whose conventions are used if the browser names them
_REGIONS: Final[dict[Language, frozenset[str]]] = {
    "en": frozenset({"US", "GB", "AU", "NZ", "CA", "IE", "IN", "SG", "HK", "ZA"}),
    "zh-Hans": frozenset({"CN", "SG", "MY"}),
    "zh-Hant": frozenset({"TW", "HK", "MO"}),
}


class Localizer:
    """One language, for templates; immutable."""

    def __init__(self, language: Language, locale: str = "") -> None:
        """Take the sentences of the language; ``locale`` is for amounts, if it says more."""
        self.language: Language = language
        self.locale = locale or language
        self._sentences = SENTENCES[language]

    def say(self, key: str, /, **values: object) -> Markup:
        """Return a sentence with values filled in, each escaped unless it is markup already."""
        return Markup(str(escape(self._sentences[key]))).format(**values)  # noqa: S704 - escaped


def choose(locale: str, accept_language: str) -> Localizer:
    """Choose by the locale that the payment was started with, else by the browser, else English.

    A locale that is none of ours leaves it to the browser.
    """
    ranges = _ranges(accept_language)
    found: list[Language] = [each for each in map(_match, (locale, *ranges)) if each is not None]
    language: Language = found[0] if found else "en"
    if locale and _match(locale) is None:
        return Localizer(language, locale)  # we have no sentences in it, but amounts
    alike = next((tag for tag in ranges if _match(tag) == language), "")
    region = _region(locale, language) or _region(alike, language)
    return Localizer(language, f"{language}-{region}" if region else language)


def _ranges(header: str) -> list[str]:
    """Return the ranges of Accept-Language, best first (RFC 9110 §12.5.4)."""
    weighted: list[tuple[float, str]] = []
    for part in header[:_LONGEST_HEADER].split(","):
        tag, _, parameter = part.strip().partition(";")
        name, _, weight = parameter.strip().partition("=")
        try:
            quality = float(weight) if name.strip() == "q" else 1.0
        except ValueError:
            continue
        if quality > 0:
            weighted.append((-quality, tag.strip()))
    return [tag for _, tag in sorted(weighted, key=lambda pair: pair[0])]


def _match(tag: str) -> Language | None:
    """Return our language for a tag such as ``zh-HK``, or None."""
    first, *rest = tag.replace("_", "-").upper().split("-")
    if first == "EN":
        return "en"
    if first != "ZH":
        return None
    return "zh-Hant" if _TRADITIONAL.intersection(rest) and "HANS" not in rest else "zh-Hans"


def _region(tag: str, language: Language) -> str | None:
    rest = tag.replace("_", "-").upper().split("-")[1:]
    return next((part for part in rest if part in _REGIONS[language]), None)
