"""The languages, and what the frame of all pages says in them.

Each face adds its own table of sentences, with the same keys in every language (``with_frame``).
Values in braces are filled in when a page is made; they are escaped there, so that no sentence
here and no value can bring markup along.
"""

from collections.abc import Mapping
from typing import Final, Literal

from opentill.web.catalogue import en, zh_hans, zh_hant

Language = Literal["en", "zh-Hans", "zh-Hant"]

# BCP 47 tag of a language, its own name for the switch.
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
    """Return the sentences of a face together with those of the frame."""
    return {language: {**FRAME[language], **own[language]} for language in LANGUAGES}
