"""The sentences of the bank's pages: one dict for each language, with the same keys."""

from collections.abc import Mapping
from typing import Final, Literal

from opentill.sandbox.catalogue import en, zh_hans, zh_hant

Language = Literal["en", "zh-Hans", "zh-Hant"]
SENTENCES: Final[Mapping[Language, Mapping[str, str]]] = {
    "en": en.SENTENCES,
    "zh-Hans": zh_hans.SENTENCES,
    "zh-Hant": zh_hant.SENTENCES,
}
