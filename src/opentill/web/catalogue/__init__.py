"""The languages, and the sentences of the frame of all pages.

Each face adds its own table of sentences with the same keys in every language (``with_frame``).
Values in braces are inserted when a page is rendered. Sentences and values are escaped then, so
that neither can contain markup.
"""

from collections.abc import Mapping
from typing import Final, Literal

from opentill.web.catalogue import en, zh_hans, zh_hant

Language = Literal["en", "zh-Hans", "zh-Hant"]

# BCP 47 tag → the language's own name.
LANGUAGES: Final[dict[Language, str]] = {
    "en": "English",
    "zh-Hans": "简体中文",
    "zh-Hant": "繁體中文",
}

FRAME: Final[dict[Language, dict[str, str]]] = {
    "en": en.SENTENCES,
    "zh-Hans": zh_hans.SENTENCES,
    "zh-Hant": zh_hant.SENTENCES,
}


def with_frame(own: Mapping[Language, Mapping[str, str]]) -> dict[Language, dict[str, str]]:
    """Add the frame's sentences to those of a face."""
    return {language: {**FRAME[language], **own[language]} for language in LANGUAGES}
