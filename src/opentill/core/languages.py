"""The languages of pages and mails: English, and each language with a folder in ``locale``.

English is the language of the source and needs no catalogue. Another language has a folder, named
as gettext names it (``zh_Hans``), with a catalogue for each area that is translated: what customers
read, and what merchants and staff read. It is offered in an area if its catalogue translates at
least 95 % of the area's texts; the few others are shown in English until they are translated.
"""

import re
from functools import cache
from pathlib import Path
from typing import Final, Literal

Area = Literal["customer", "merchant"]
Language = str  # BCP 47 tag, such as zh-Hans
ENGLISH: Final[Language] = "en"
LEAST_SHARE: Final = 0.95
FOLDER: Final = Path(__file__).parents[1] / "locale"
_UNTRANSLATED: Final = re.compile(r'^msgstr(?:\[\d+\])? ""$(?!\n")', re.MULTILINE)
_FUZZY: Final = re.compile(r"^#,.*\bfuzzy\b", re.MULTILINE)


@cache
def offered(area: Area) -> tuple[Language, ...]:
    """Return the languages in which an area is offered, English first."""
    files = sorted(FOLDER.glob(f"*/LC_MESSAGES/{area}.po"))
    complete = (file for file in files if share_translated(file.read_text("utf-8")) >= LEAST_SHARE)
    return (ENGLISH, *(file.parents[1].name.replace("_", "-") for file in complete))


def catalogue(area: Area, language: Language) -> Path:
    """Return the path of a language's catalogue; English has none."""
    return FOLDER / language.replace("-", "_") / "LC_MESSAGES" / f"{area}.po"


def share_translated(text: str) -> float:
    """Return the share of texts that a catalogue (``text``) translates, from 0 to 1.

    Reads the text itself: parsing all catalogues would take too long at every start.
    """
    header, *entries = text.strip().split("\n\n")
    entries = [entry for entry in entries if "\nmsgstr" in f"\n{entry}"]
    missing = sum(1 for entry in entries if _UNTRANSLATED.search(entry) or _FUZZY.search(entry))
    return 1 - missing / len(entries) if header and entries else 0.0
