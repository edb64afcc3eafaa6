"""Translated texts out of gettext catalogues, and marks for texts that are translated elsewhere.

The source has the English texts. ``Localizer`` translates where a text is shown; ``N_``
and ``NC_`` mark it where it is only named, in a table or as an error, so that ``make messages``
finds it.
"""

import io
from functools import cache
from gettext import GNUTranslations, NullTranslations
from typing import Final

from opentill.core import languages
from opentill.core.languages import ENGLISH, Area, Language
from opentill.core.translatable import N_

__all__ = ["NC_", "N_", "catalogue", "translate", "translate_plural"]

_CONTEXT: Final = "\x04"  # separates a context from its text, as in compiled catalogues


def NC_(context: str, message: str) -> str:  # noqa: N802 - the name that GLib has given it
    """Mark a text with its context: the same English may have another meaning elsewhere."""
    return f"{context}{_CONTEXT}{message}"


def translate(area: Area, language: Language, message: str) -> str:
    """Translate a text, which ``NC_`` may have given a context."""
    return _without_context(catalogue(area, language).gettext(message))


def translate_plural(
    area: Area, language: Language, singular: str, plural: str, number: int
) -> str:
    """Translate a text about ``number`` things; ``NC_`` may have given ``singular`` a context."""
    context, separator, text = singular.partition(_CONTEXT)
    texts = catalogue(area, language)
    if separator:
        return texts.npgettext(context, text, plural, number)
    return texts.ngettext(singular, plural, number)


def _without_context(text: str) -> str:
    return text.partition(_CONTEXT)[2] if _CONTEXT in text else text


@cache
def catalogue(area: Area, language: Language) -> NullTranslations:
    """Read the catalogue of a language, once; English has none."""
    if language == ENGLISH:
        return NullTranslations()
    from babel.messages import mofile, pofile

    with languages.catalogue(area, language).open("rb") as file:
        messages = pofile.read_po(file, ignore_obsolete=True)
    compiled = io.BytesIO()
    mofile.write_mo(compiled, messages)
    compiled.seek(0)
    return GNUTranslations(compiled)
