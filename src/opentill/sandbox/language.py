"""Choosing the language of the bank's pages: the payment page's, otherwise the browser's.

The region (en-GB, zh-HK) is that of the payment's locale, otherwise the browser's, so that amounts
have the format of the payment page. The texts are English in the source, and translated by the
catalogues ``sandbox.po`` of ``locale``.
"""

import io
from functools import cache
from gettext import GNUTranslations, NullTranslations
from pathlib import Path
from typing import Final

from babel import localedata
from babel.messages import mofile, pofile
from markupsafe import Markup, escape

Language = str  # a BCP 47 tag
_FOLDER: Final = Path(__file__).parents[1] / "locale"
LANGUAGES: Final[tuple[Language, ...]] = (
    "en",
    *(
        file.parents[1].name.replace("_", "-")
        for file in sorted(_FOLDER.glob("*/LC_MESSAGES/sandbox.po"))
    ),
)
_CONTEXT: Final = "\x04"  # separates a context from its text, as in compiled catalogues
_MAX_HEADER: Final = 500
_TRADITIONAL: Final = frozenset({"HANT", "TW", "HK", "MO"})
# Language → the regions whose conventions are used if the browser requests them. A language that is
# missing here has all regions that Babel knows.
_REGIONS: Final[dict[Language, frozenset[str]]] = {
    "en": frozenset({"US", "GB", "AU", "NZ", "CA", "IE", "IN", "SG", "HK", "ZA"}),
    "zh-Hans": frozenset({"CN", "SG", "MY"}),
    "zh-Hant": frozenset({"TW", "HK", "MO"}),
}


def N_(message: str) -> str:  # noqa: N802 - gettext's own name
    """Mark a text that is translated where it is shown."""
    return message


def NC_(context: str, message: str) -> str:  # noqa: N802 - the name that GLib has given it
    """Mark a text with its context: the same English may have another meaning elsewhere."""
    return f"{context}{_CONTEXT}{message}"


class Localizer:
    """One language, for templates; immutable."""

    def __init__(self, language: Language, locale: str = "") -> None:
        """``locale`` is the locale that formats amounts; if it is "", the language formats them."""
        self.language: Language = language
        self.locale = locale or language
        self._catalogue = _catalogue(language)

    def gettext(self, message: str, /, **values: object) -> Markup:
        """Translate a text and fill values in, each escaped unless it is markup already."""
        text = self._catalogue.gettext(message).rpartition(_CONTEXT)[2]
        return Markup(str(escape(text))).format(**values)  # noqa: S704 - escaped

    def pgettext(self, context: str, message: str, /, **values: object) -> Markup:
        """Translate a text whose meaning needs a context."""
        return self.gettext(NC_(context, message), **values)


@cache
def _catalogue(language: Language) -> NullTranslations:
    if language == "en":
        return NullTranslations()
    file = _FOLDER / language.replace("-", "_") / "LC_MESSAGES" / "sandbox.po"
    compiled = io.BytesIO()
    with file.open("rb") as source:
        mofile.write_mo(compiled, pofile.read_po(source, ignore_obsolete=True))
    compiled.seek(0)
    return GNUTranslations(compiled)


def choose(locale: str, accept_language: str) -> Localizer:
    """Choose a page's language: the payment's locale decides, else the browser, else it is English.

    A locale without a catalogue leaves the choice to the browser.
    """
    ranges = _ranges(accept_language)
    matches: list[Language] = [each for each in map(_match, (locale, *ranges)) if each is not None]
    language: Language = matches[0] if matches else "en"
    if locale and _match(locale) is None:
        # The locale has no catalogue, but it can format amounts.
        return Localizer(language, locale)
    same_language = next((tag for tag in ranges if _match(tag) == language), "")
    region = _region(locale, language) or _region(same_language, language)
    return Localizer(language, f"{language}-{region}" if region else language)


def _ranges(header: str) -> list[str]:
    """Return the ranges of Accept-Language, best first (RFC 9110 §12.5.4)."""
    weighted: list[tuple[float, str]] = []
    for part in header[:_MAX_HEADER].split(","):
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
    """Return the language of the catalogue for a tag such as ``zh-HK``, or None."""
    first, *rest = tag.replace("_", "-").upper().split("-")
    if first == "ZH":
        is_traditional = _TRADITIONAL.intersection(rest) and "HANS" not in rest
        return "zh-Hant" if is_traditional else "zh-Hans"
    return next((language for language in LANGUAGES if language.upper() == first), None)


def _region(tag: str, language: Language) -> str | None:
    rest = tag.replace("_", "-").upper().split("-")[1:]
    regions = _REGIONS.get(language)
    return next(
        (
            part
            for part in rest
            if (part in regions if regions else localedata.exists(f"{language}_{part}"))
        ),
        None,
    )
