"""What the pages say: one table of sentences for each language, all with the same keys.

Values in braces are filled in when a page is made; they are escaped there, so that no sentence
here and no value can bring markup along.
"""

from typing import Final, Literal

from opentill.pages.catalogue import en, zh_hans, zh_hant

Language = Literal["en", "zh-Hans", "zh-Hant"]

# BCP 47 tag of a language, its own name for the switch, its sentences.
LANGUAGES: Final[dict[Language, str]] = {
    "en": "English",
    "zh-Hans": "简体中文",
    "zh-Hant": "繁體中文",
}

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": en.SENTENCES,
    "zh-Hans": zh_hans.SENTENCES,
    "zh-Hant": zh_hant.SENTENCES,
}
