"""Receipts as PDF, drawn by processes of their own: ``python -m opentill.pages.pdf``.

Fonts with Chinese are large, and reading one would stay in the memory of every server process. The
program reads each ``Sheet`` as JSON and writes its PDF, until it has read a font or there is none
left to draw; ``press`` runs two of them.

The standard fonts of PDF are enough for Western European text. For anything else a font of the
machine is taken (decision 0086): that of the setting, or the first of ``PLACES`` that has all
letters. Where none has, there is no PDF, and the page says so.
"""

import logging
import sys
import traceback
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from opentill.pages.press import LENGTH_BYTES, NO_FONT, Press, Shelf

if TYPE_CHECKING:
    from fpdf import FPDF

PLACES: Final = (
    "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
    "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/noto-cjk/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf",
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu/DejaVuSans.ttf",
)
_ERROR: Final = 1  # code of a result
_STANDARD: Final = "helvetica"
_ENCODING: Final = "windows-1252"  # of the standard fonts, with the sign of the euro
_BODY: Final = "body"
_INSTEAD: Final = "□"  # of a symbol that no font has, such as an emoji
_GREY: Final = 90
_MARGIN_MM: Final = 20
_LABEL_MM: Final = 55
_LINE_MM: Final = 6.5


class NoFont(Exception):
    """No font of this machine has all letters of a receipt."""


class Sheet(msgspec.Struct, frozen=True, kw_only=True):
    """What stands on a page: lines of the shop, a title, facts, and lines at the end."""

    language: str
    title: str
    shop: str
    contact: list[str]
    mark: str  # that money is not real; "" where it is
    facts: list[tuple[str, str]]
    total: tuple[str, str]
    notes: list[str]
    fonts: list[str]  # files to look at, in this order

    @property
    def text(self) -> str:
        """Everything that is written."""
        pairs = [*self.facts, self.total]
        parts = [self.title, self.shop, self.mark, *self.contact, *self.notes]
        return "".join((*parts, *(part for pair in pairs for part in pair)))


def places(chosen: Path | None) -> list[str]:
    """Return the files of fonts to look at: the one of the setting, or those of the machine."""
    return [str(chosen)] if chosen is not None else list(PLACES)


_PRESS: Final = Press([sys.executable, "-P", "-m", __name__])
_SHELF: Final = Shelf()


def kept(receipt: str, sheet: Sheet) -> bytes | None:
    """Return the PDF of a receipt that was drawn before and has not changed since."""
    return _SHELF.find(receipt, msgspec.json.encode(sheet))


async def draw(receipt: str, sheet: Sheet) -> bytes:
    """Return the sheet of a receipt as PDF, and keep it.

    Raises NoFont, and Unavailable if too many are drawn or it hangs.
    """
    encoded = msgspec.json.encode(sheet)
    code, drawn = await _PRESS.draw(receipt, encoded)
    if code == NO_FONT:
        raise NoFont
    _SHELF.keep(receipt, encoded, drawn)
    return drawn


def close() -> None:
    """End the processes that draw."""
    _PRESS.close()


def made(sheet: Sheet) -> bytes:
    """Draw a sheet, here. Raises NoFont."""
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
    """Return the font to write with, and the characters that it has (None: all of the text).

    Where no font has all letters, one after the other stands in for those before.
    """
    if _is_western(sheet):
        return _STANDARD, None
    missing = {ord(character) for character in sheet.text if _is_letter(character)}
    families: list[str] = []
    found: set[int] = set()
    for number, place in enumerate(sheet.fonts):
        if not missing:
            break
        if not Path(place).is_file():
            continue
        family = f"{_BODY}{number}"
        pdf.add_font(family, fname=place)
        has = set(pdf.fonts[family].cmap)  # type: ignore[union-attr] # one of a file has it
        if has & missing:
            families.append(family)
            found |= has
            missing -= has
    if missing:
        raise NoFont
    pdf.set_fallback_fonts(families[1:])
    return families[0], frozenset(found)


def _is_western(sheet: Sheet) -> bool:
    """Return whether the standard fonts have everything that is written."""
    try:
        sheet.text.encode(_ENCODING)
    except UnicodeEncodeError:
        return False
    return True


def _is_letter(character: str) -> bool:
    """Return whether a text says something else without a character: not so for an emoji."""
    return unicodedata.category(character)[0] in "LNPZ" and not character.isspace()


class _Writer:
    """Writes a sheet from top to bottom."""

    def __init__(self, pdf: "FPDF", family: str, has: frozenset[int] | None) -> None:
        self._pdf = pdf
        self._family = family
        self._has = has

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

    def _shown(self, text: str) -> str:
        text = " ".join(text.split())
        if self._has is None:
            return text
        return "".join(
            one if one == " " or ord(one) in self._has else _INSTEAD
            for one in text
            if unicodedata.category(one) not in {"Cf", "Mn", "Cc"} or ord(one) in self._has
        ).replace(_INSTEAD, _INSTEAD if ord(_INSTEAD) in self._has else " ")

    def _line(self, text: str, size: int, color: Sequence[int] = (0, 0, 0)) -> None:
        self._pdf.set_font(self._family, size=size)
        self._pdf.set_text_color(*color)
        height = size * 0.5
        self._pdf.multi_cell(0, height, self._shown(text), new_x="LMARGIN", new_y="NEXT")

    def _fact(self, name: str, value: str, size: int) -> None:
        pdf = self._pdf
        pdf.set_font(self._family, size=size)
        pdf.set_draw_color(215)
        pdf.line(pdf.l_margin, pdf.get_y() + 1, pdf.w - pdf.r_margin, pdf.get_y() + 1)
        pdf.ln(2)
        top = pdf.get_y()
        pdf.set_text_color(_GREY)
        pdf.multi_cell(_LABEL_MM, _LINE_MM, self._shown(name), align="L", new_y="NEXT")
        left_end = pdf.get_y()
        pdf.set_xy(pdf.l_margin + _LABEL_MM, top)
        pdf.set_text_color(0)
        pdf.multi_cell(0, _LINE_MM, self._shown(value), align="R", new_x="LMARGIN", new_y="NEXT")
        pdf.set_y(max(left_end, pdf.get_y()))


def main() -> int:
    """Read sheets from the standard input and write their PDFs to the standard output.

    After a result stands "+" where another sheet may follow.
    """
    logging.disable()  # nobody reads what a library says of a font
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while len(head := source.read(LENGTH_BYTES)) == LENGTH_BYTES:
        code, drawn, goes_on = _result(source.read(int.from_bytes(head)))
        target.write(bytes([code]) + len(drawn).to_bytes(LENGTH_BYTES) + drawn)
        target.write(b"+" if goes_on else b"-")
        target.flush()
        if not goes_on:
            break
    return 0


def _result(encoded: bytes) -> tuple[int, bytes, bool]:
    """Return the code of a result, the result, and whether no font has been read for it."""
    try:
        sheet = msgspec.json.decode(encoded, type=Sheet)
        return 0, made(sheet), _is_western(sheet)
    except NoFont:
        return NO_FONT, b"", False
    except Exception:  # noqa: BLE001 - the caller and the log get it
        return _ERROR, traceback.format_exc().encode(), False


if __name__ == "__main__":
    sys.exit(main())
