"""What the PDF of a sheet contains, as data that a worker process can read."""

import re
import unicodedata
from pathlib import Path
from typing import Final

import msgspec

FONT_FILES: Final = (  # fonts with the forms of characters in China are first
    "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
    "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/noto-cjk/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf",
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu/DejaVuSans.ttf",
)
_JAPANESE_FONT_FILES: Final = (
    "/usr/share/fonts/opentype/ipaexfont-gothic/ipaexg.ttf",
    "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/noto-cjk/NotoSansCJK-Regular.ttc",
)
# Control characters, and marks that change the direction of the text around them. The joiners
# U+200C and U+200D remain, because Persian and Indian scripts need them.
_INVISIBLE: Final = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]+"
)
# Pictographs and flags, with the characters that join or change them: variation selectors, skin
# tones, the keycap and tags. Joiners are part of an emoji only between two pictographs.
_EMOJI: Final = re.compile(
    "[\U0001f000-\U0001faff\ufe0e\ufe0f\u20e3\U000e0020-\U000e007f]"
    "(?:\u200d+(?=[\u2190-\u2bff\U0001f000-\U0001faff]))?"
)


class Party(msgspec.Struct, frozen=True):
    """The seller or the customer: a heading and lines of text."""

    heading: str
    lines: list[str]


class SumLine(msgspec.Struct, frozen=True):
    """A line below the item: a label and an amount. ``is_total`` lines are emphasized."""

    label: str
    amount: str
    is_total: bool = False


class Sheet(msgspec.Struct, frozen=True, kw_only=True, tag="sheet"):
    """The contents of a receipt, from top to bottom."""

    language: str
    title: str
    shop: str
    accent: tuple[int, int, int] = (13, 92, 73)  # red, green and blue, from 0 to 255
    logo: bytes | None = None
    mark: str = ""  # a text that marks the receipt as one of test mode; "" in live mode
    facts: list[tuple[str, str]]
    parties: list[Party]
    headline: str
    columns: tuple[str, str, str, str]  # headings of item, quantity, price and amount
    item: tuple[str, str, str, str]
    sums: list[SumLine]
    notes: list[str]
    details_title: str = ""  # the heading of ``details``
    details: list[tuple[str, str]] = []  # further facts, below the amounts
    fonts: list[str]  # paths of font files, the preferred one first

    @property
    def text(self) -> str:
        """All texts of the page without what is left out, joined."""
        parts = [self.title, self.shop, self.mark, self.headline, *self.notes, self.details_title]
        parts += [part for fact in (*self.facts, *self.details) for part in fact]
        parts += [part for party in self.parties for part in (party.heading, *party.lines)]
        parts += [*self.columns, *self.item]
        parts += [part for line in self.sums for part in (line.label, line.amount)]
        return "".join(map(plain, parts))


class Table(msgspec.Struct, frozen=True):
    """A table of a report: texts in the first column, amounts in the others."""

    heading: str
    columns: list[str]
    rows: list[list[str]]
    totals: list[int] = []  # the numbers of rows that are emphasized


class Report(msgspec.Struct, frozen=True, kw_only=True, tag="report"):
    """The contents of a report for the merchant, such as a statement, from top to bottom."""

    language: str
    title: str
    shop: str
    accent: tuple[int, int, int] = (13, 92, 73)
    logo: bytes | None = None
    mark: str = ""
    facts: list[tuple[str, str]]
    tables: list[Table]
    notes: list[str]
    fonts: list[str]

    @property
    def text(self) -> str:
        """All texts of the report without what is left out, joined."""
        parts = [self.title, self.shop, self.mark, *self.notes]
        parts += [part for fact in self.facts for part in fact]
        for table in self.tables:
            parts += [table.heading, *table.columns, *(cell for row in table.rows for cell in row)]
        return "".join(map(plain, parts))


class Logo(msgspec.Struct, frozen=True, tag="logo"):
    """A logo that is to become a small PNG."""

    content: bytes


def font_files(setting: Path | None, language: str) -> list[str]:
    """Return the paths of the fonts to try: the setting's font, else usual ones of machines.

    Japanese has forms of its own for many Chinese characters, so its fonts are tried first.
    """
    if setting is not None:
        return [str(setting)]
    preferred = _JAPANESE_FONT_FILES if language == "ja" else ()
    return list(dict.fromkeys((*preferred, *FONT_FILES)))


def plain(text: str) -> str:
    """Return a text on one line, without emoji and without invisible marks.

    Fonts with emoji have several megabytes, and a receipt loses nothing without them.
    """
    return " ".join(_EMOJI.sub("", _INVISIBLE.sub(" ", text)).split())


def is_letter(character: str) -> bool:
    """Whether a text would lose meaning without the character, as opposed to a symbol."""
    return unicodedata.category(character)[0] in "LMNPZ" and not character.isspace()
