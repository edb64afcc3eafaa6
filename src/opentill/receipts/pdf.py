"""Receipts as PDF, drawn by worker processes: ``python -m opentill.pages.pdf``.

Fonts with Chinese are large and would stay in the memory of every server process. A worker reads
each ``Sheet`` as JSON and writes its PDF, until it has read a font or its input ends;
``pdf_workers`` runs two of them.

The standard fonts of PDF are enough for Western European text. Other text needs a font of the
machine (decision 0086): that of the setting, or the first of ``FONT_FILES`` that has all letters.
Without one there is no PDF, and the page says so.
"""

import logging
import sys
import traceback
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from opentill.pages.pdf_workers import LENGTH_BYTES, NO_FONT, PdfCache, PdfWorkers

if TYPE_CHECKING:
    from fpdf import FPDF

FONT_FILES: Final = (
    "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
    "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/noto-cjk/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf",
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu/DejaVuSans.ttf",
)
_ERROR: Final = 1  # the result code that says that the sheet could not be drawn
_STANDARD: Final = "helvetica"
_ENCODING: Final = "windows-1252"  # the encoding of PDF's standard fonts
_REPLACEMENT: Final = "□"  # is drawn for a symbol that no font has, such as an emoji
_GREY: Final = 90
_MARGIN_MM: Final = 20
_LABEL_MM: Final = 55
_LINE_MM: Final = 6.5


class NoFont(Exception):
    """No font of this machine has all letters of a receipt."""


class Sheet(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a page, from top to bottom."""

    language: str
    title: str
    shop: str
    contact: list[str]
    mark: str  # the text that marks a receipt of test mode; "" in live mode
    facts: list[tuple[str, str]]
    total: tuple[str, str]
    notes: list[str]
    fonts: list[str]  # paths of font files; the first one that has all letters is used

    @property
    def text(self) -> str:
        """All texts of the page, joined."""
        pairs = [*self.facts, self.total]
        parts = [self.title, self.shop, self.mark, *self.contact, *self.notes]
        return "".join((*parts, *(part for pair in pairs for part in pair)))


def font_files(setting: Path | None) -> list[str]:
    """Return paths of the fonts to try: the one of the setting, else usual ones of the machine."""
    return [str(setting)] if setting is not None else list(FONT_FILES)


_WORKERS: Final = PdfWorkers([sys.executable, "-P", "-m", __name__])
_CACHE: Final = PdfCache()


def find_cached(receipt: str, sheet: Sheet) -> bytes | None:
    """Return the PDF of a receipt from the cache if it has not changed since."""
    return _CACHE.find(receipt, msgspec.json.encode(sheet))


async def draw(receipt: str, sheet: Sheet) -> bytes:
    """Have a worker draw the sheet of a receipt, and cache the PDF.

    Raises NoFont, and Unavailable if there are too many sheets or the worker hangs.
    """
    encoded = msgspec.json.encode(sheet)
    code, pdf = await _WORKERS.draw(receipt, encoded)
    if code == NO_FONT:
        raise NoFont
    _CACHE.add(receipt, encoded, pdf)
    return pdf


def close() -> None:
    """End the idle workers."""
    _WORKERS.close()


def draw_in_process(sheet: Sheet) -> bytes:
    """Draw a sheet in this process. Raises NoFont."""
    from fpdf import FPDF

    pdf = FPDF(format="A4")
    pdf.core_fonts_encoding = _ENCODING
    pdf.set_margin(_MARGIN_MM)
    pdf.set_title(sheet.title)
    pdf.set_lang(sheet.language)
    pdf.add_page()
    _Writer(pdf, *_font(pdf, sheet)).write(sheet)
    return bytes(pdf.output())


def _font(pdf: "FPDF", sheet: Sheet) -> tuple[str, frozenset[int] | None]:
    """Return the font's family, and the characters that can be written (None: all of them).

    If no single font has all letters, further fonts are added as fallbacks.
    """
    if _is_western(sheet):
        return _STANDARD, None
    missing = {ord(character) for character in sheet.text if _is_letter(character)}
    families: list[str] = []
    available: set[int] = set()
    for number, file in enumerate(sheet.fonts):
        if not missing:
            break
        if not Path(file).is_file():
            continue
        family = f"body{number}"
        pdf.add_font(family, fname=file)
        characters = set(pdf.fonts[family].cmap)  # type: ignore[union-attr] # fonts of files have it
        if characters & missing:
            families.append(family)
            available |= characters
            missing -= characters
    if missing:
        raise NoFont
    pdf.set_fallback_fonts(families[1:])
    return families[0], frozenset(available)


def _is_western(sheet: Sheet) -> bool:
    """Whether the standard fonts have all characters of the text."""
    try:
        sheet.text.encode(_ENCODING)
    except UnicodeEncodeError:
        return False
    return True


def _is_letter(character: str) -> bool:
    """Whether a text would lose meaning without the character, as opposed to an emoji."""
    return unicodedata.category(character)[0] in "LNPZ" and not character.isspace()


class _Writer:
    """Writes a sheet from top to bottom."""

    def __init__(self, pdf: "FPDF", family: str, available: frozenset[int] | None) -> None:
        self._pdf = pdf
        self._family = family
        self._available = available

    def write(self, sheet: Sheet) -> None:
        if sheet.mark:
            self._line(sheet.mark, 10, color=(140, 80, 0))
        self._line(sheet.shop, 16)
        for line in sheet.contact:
            self._line(line, 10, color=(_GREY,) * 3)
        self._pdf.ln(_LINE_MM)
        self._line(sheet.title, 20)
        self._pdf.ln(2)
        for name, value in sheet.facts:
            self._fact(name, value, 11)
        self._fact(*sheet.total, 13)
        self._pdf.ln(_LINE_MM)
        for line in sheet.notes:
            self._line(line, 9, color=(_GREY,) * 3)

    def _writable(self, text: str) -> str:
        """Replace characters that no font has, and drop those that are invisible anyway."""
        text = " ".join(text.split())
        available = self._available
        if available is None:
            return text
        replacement = _REPLACEMENT if ord(_REPLACEMENT) in available else " "
        return "".join(
            c if c == " " or ord(c) in available else replacement
            for c in text
            if ord(c) in available or unicodedata.category(c) not in {"Cf", "Mn", "Cc"}
        )

    def _line(self, text: str, size: int, color: Sequence[int] = (0, 0, 0)) -> None:
        self._pdf.set_font(self._family, size=size)
        self._pdf.set_text_color(*color)
        height = size * 0.5
        self._pdf.multi_cell(0, height, self._writable(text), new_x="LMARGIN", new_y="NEXT")

    def _fact(self, name: str, value: str, size: int) -> None:
        pdf = self._pdf
        pdf.set_font(self._family, size=size)
        pdf.set_draw_color(215)
        pdf.line(pdf.l_margin, pdf.get_y() + 1, pdf.w - pdf.r_margin, pdf.get_y() + 1)
        pdf.ln(2)
        top = pdf.get_y()
        pdf.set_text_color(_GREY)
        pdf.multi_cell(_LABEL_MM, _LINE_MM, self._writable(name), align="L", new_y="NEXT")
        left_end = pdf.get_y()
        pdf.set_xy(pdf.l_margin + _LABEL_MM, top)
        pdf.set_text_color(0)
        pdf.multi_cell(0, _LINE_MM, self._writable(value), align="R", new_x="LMARGIN", new_y="NEXT")
        pdf.set_y(max(left_end, pdf.get_y()))


def main() -> int:
    """Read sheets from the standard input and write their PDFs to the standard output.

    A "+" after a result means that the worker takes another sheet.
    """
    logging.disable()  # otherwise fpdf would log every defect of a font
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while len(head := source.read(LENGTH_BYTES)) == LENGTH_BYTES:
        code, result, is_reusable = _draw_encoded(source.read(int.from_bytes(head)))
        target.write(bytes([code]) + len(result).to_bytes(LENGTH_BYTES) + result)
        target.write(b"+" if is_reusable else b"-")
        target.flush()
        if not is_reusable:
            break
    return 0


def _draw_encoded(encoded: bytes) -> tuple[int, bytes, bool]:
    """Return code, result, and whether the worker has read no font and so can be reused."""
    try:
        sheet = msgspec.json.decode(encoded, type=Sheet)
        return 0, draw_in_process(sheet), _is_western(sheet)
    except NoFont:
        return NO_FONT, b"", False
    except Exception:  # noqa: BLE001 - the caller and the log get it
        return _ERROR, traceback.format_exc().encode(), False


if __name__ == "__main__":
    sys.exit(main())
