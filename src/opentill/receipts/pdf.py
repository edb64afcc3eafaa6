"""Receipts and reports as PDF, drawn by worker processes: ``python -m opentill.receipts.pdf``.

Fonts with Chinese are large and would stay in the memory of every server process. A worker reads
each task as JSON and writes its result; ``pdf_workers`` runs them. A worker of the pages ends after
it has read a font. With the argument ``--keep`` it goes on, for mails, of which there may be many.

The standard fonts of PDF are enough for Western European text. Other text needs a font of the
machine (decision 0086): that of the setting, or the first of ``FONT_FILES`` that has all letters.
Without one there is no PDF, and the page says so. HarfBuzz shapes such text, and fpdf2 orders it by
Unicode's bidirectional algorithm, so that Arabic and Hebrew can be read.

Workers also reduce logos for mails, so that only they decode pictures that somebody uploaded.
"""

import io
import logging
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import msgspec

from opentill.receipts.pdf_workers import LENGTH_BYTES, NO_FONT, Limits, PdfCache, PdfWorkers
from opentill.receipts.sheet import (
    Logo,
    Party,
    Report,
    Sheet,
    SumLine,
    Table,
    is_letter,
    plain,
)

if TYPE_CHECKING:
    from fpdf import FPDF
    from PIL.Image import Image

_Color = tuple[int, int, int]
_ERROR: Final = 1  # result code: the task failed
_MODULE: Final = "opentill.receipts.pdf"
_KEEP: Final = "--keep"
_MOST_KEPT: Final = 200  # tasks of a worker that keeps running, which bounds its memory
_LOGO_KEY: Final = b"logo"  # of logos in the cache
_STANDARD: Final = "helvetica"
_NOTO: Final = "NotoSansCJK"
_NOTO_FACES: Final = {"zh-Hans": 2, "zh-Hant": 3}  # in Noto's collection; 0 is Japanese, 1 Korean
_ENCODING: Final = "windows-1252"  # encoding of PDF's standard fonts; it has the euro sign
_INK: Final = (26, 30, 28)
_SOFT: Final = (95, 104, 99)
_WARN: Final = (140, 80, 0)
_RULE: Final = (214, 219, 216)
_NOTHING: Final = "–"  # in place of an item whose name consists of emoji
_MARGIN_MM: Final = 20
_SHOP_DROP_MM: Final = 3.6  # puts the shop's name on the baseline of the title
_BAND_MM: Final = 3  # height of the band in the accent color
_LOGO_MM: Final = (60, 18)  # largest width and height
_LOGO_PX: Final = (480, 144)  # the same at about 200 pixels per inch
_LABEL_MM: Final = 42
_COLUMNS_MM: Final = (82, 20, 34, 34)
_SUMS_MM: Final = (54, 34)  # the label and the amount of a sum
_AMOUNT_MM: Final = 30  # the usual width of an amount in a table
_TABLE_START_MM: Final = 40  # a table with less room begins on the next page
_WIDE: Final = 4  # a table with more columns has smaller letters
_TABLE_SIZE, _SMALL_TABLE_SIZE = 9.5, 8
_OUTLINE_MM: Final = 0.11  # of letters that replace bold ones, which fonts of files lack


class NoFont(Exception):
    """No font of this machine has all letters of a receipt."""


_PAGE_WORKERS: Final = PdfWorkers([sys.executable, "-P", "-m", _MODULE])
# The number of mails that are being rendered is limited by the connections to the mail server.
_MAIL_WORKERS: Final = PdfWorkers(
    [sys.executable, "-P", "-m", _MODULE, _KEEP], Limits(most=64, each=64)
)
_CACHE: Final = PdfCache()


def find_cached(receipt: str, sheet: Sheet) -> bytes | None:
    """Return the PDF of a receipt from the cache if it has not changed since."""
    return _CACHE.find(receipt, msgspec.json.encode(sheet))


async def draw(receipt: str, sheet: Sheet | Report) -> bytes:
    """Have a worker draw the sheet of a receipt or a report, and cache the PDF.

    Raises NoFont, Failed, and Unavailable if there are too many sheets or the worker hangs.
    """
    encoded = msgspec.json.encode(sheet)
    pdf = await _drawn(_PAGE_WORKERS, receipt, encoded)
    _CACHE.add(receipt, encoded, pdf)
    return pdf


async def draw_for_mail(receipt: str, sheet: Sheet) -> bytes:
    """Have a worker draw the sheet of a mail. Raises NoFont, Failed and Unavailable."""
    return await _drawn(_MAIL_WORKERS, receipt, msgspec.json.encode(sheet))


async def _drawn(workers: PdfWorkers, receipt: str, encoded: bytes) -> bytes:
    code, pdf = await workers.draw(receipt, encoded)
    if code == NO_FONT:
        raise NoFont
    return pdf


def find_reduced_logo(digest: str) -> bytes | None:
    """Return the small PNG of a logo from the cache; ``digest`` identifies the logo."""
    return _CACHE.find(digest, _LOGO_KEY)


async def reduce_logo(digest: str, content: bytes) -> bytes:
    """Have a worker make a small PNG of a logo, and cache it. Raises Failed and Unavailable.

    It is a PNG, because some mail programs show no WebP.
    """
    _, picture = await _MAIL_WORKERS.draw(digest, msgspec.json.encode(Logo(content)))
    _CACHE.add(digest, _LOGO_KEY, picture)
    return picture


def close() -> None:
    """End the idle workers."""
    _PAGE_WORKERS.close()
    _MAIL_WORKERS.close()


def draw_in_process(sheet: Sheet | Report) -> bytes:
    """Draw a sheet in this process. Raises NoFont."""
    from fpdf import FPDF

    class Numbered(FPDF):
        def footer(self) -> None:
            self.set_y(-12)
            self.set_font(_STANDARD, size=8)
            self.set_text_color(*_SOFT)
            self.cell(0, 4, f"{self.page_no()} / {{nb}}", align="R")

    pdf = Numbered(format="A4") if isinstance(sheet, Report) else FPDF(format="A4")
    pdf.core_fonts_encoding = _ENCODING
    pdf.set_margin(_MARGIN_MM)
    pdf.set_title(sheet.title)
    pdf.set_author(plain(sheet.shop))
    pdf.set_lang(sheet.language)
    pdf.add_page()
    _Writer(pdf, *_font(pdf, sheet)).write(sheet)
    return bytes(pdf.output())


def _font(pdf: "FPDF", sheet: Sheet | Report) -> tuple[str, frozenset[int]]:
    """Return the font's family, and the characters that it or its fallbacks can write."""
    characters = set(sheet.text)
    if _is_western(characters):
        return _STANDARD, frozenset(ord(each) for each in characters if _in_standard_fonts(each))
    missing = {ord(character) for character in characters if is_letter(character)}
    families: list[str] = []
    available: set[int] = set()
    for number, file in enumerate(sheet.fonts):
        if not missing:
            break
        if not Path(file).is_file():
            continue
        family = f"body{number}"
        pdf.add_font(family, fname=file, collection_font_number=_face(file, sheet.language))
        of_font = set(pdf.fonts[family].cmap)  # type: ignore[union-attr] # fonts of files have it
        if of_font & missing:
            families.append(family)
            available |= of_font
            missing -= of_font
    if missing:
        raise NoFont
    pdf.set_fallback_fonts(families[1:])
    pdf.set_text_shaping(use_shaping_engine=True)
    return families[0], frozenset(available)


def _face(file: str, language: str) -> int:
    """Return the number of a language's font in a file that may be a collection of fonts."""
    return _NOTO_FACES.get(language, 0) if Path(file).name.startswith(_NOTO) else 0


def _is_western(characters: set[str]) -> bool:
    """Whether the standard fonts have all letters of a text."""
    return all(_in_standard_fonts(each) for each in characters if is_letter(each))


def _in_standard_fonts(character: str) -> bool:
    try:
        character.encode(_ENCODING)
    except UnicodeEncodeError:
        return False
    return True


class _Writer:
    """Writes a sheet from top to bottom."""

    def __init__(self, pdf: "FPDF", family: str, available: frozenset[int]) -> None:
        self._pdf = pdf
        self._family = family
        self._available = available

    def write(self, sheet: Sheet | Report) -> None:
        self._head(sheet)
        if isinstance(sheet, Report):
            for table in sheet.tables:
                self._table(table)
        else:
            self._payment(sheet)
        for note in sheet.notes:
            self._text(note, 9, color=_SOFT)

    def _head(self, sheet: Sheet | Report) -> None:
        pdf = self._pdf
        pdf.set_fill_color(*sheet.accent)
        pdf.rect(0, 0, pdf.w, _BAND_MM, style="F")
        if sheet.mark:
            self._text(sheet.mark, 10, color=_WARN)
            pdf.ln(3)
        top = pdf.get_y()
        self._shop(sheet, top)
        pdf.set_xy(pdf.l_margin, top)
        self._text(sheet.title, 22, width=pdf.epw - _LOGO_MM[0], is_bold=True)
        pdf.set_y(max(pdf.get_y(), top + _LOGO_MM[1]) + 4)
        self._facts(sheet.facts)
        pdf.ln(8)

    def _payment(self, sheet: Sheet) -> None:
        pdf = self._pdf
        self._parties(sheet.parties)
        self._text(sheet.headline, 15, is_bold=True)
        pdf.ln(6)
        self._item(sheet)
        for line in sheet.sums:
            self._sum(line)
        pdf.ln(12)
        if sheet.details:
            self._text(sheet.details_title, 12, is_bold=True)
            pdf.ln(3)
            self._facts(sheet.details)
            pdf.ln(12)

    def _table(self, table: Table) -> None:
        pdf = self._pdf
        if pdf.will_page_break(_TABLE_START_MM):
            pdf.add_page()
        self._text(table.heading, 12, is_bold=True)
        pdf.ln(3)
        first = max(_LABEL_MM, pdf.epw - _AMOUNT_MM * (len(table.columns) - 1))
        widths = [first, *[(pdf.epw - first) / (len(table.columns) - 1)] * (len(table.columns) - 1)]
        size = _TABLE_SIZE if len(table.columns) <= _WIDE else _SMALL_TABLE_SIZE
        aligns = ["L", *"R" * (len(table.columns) - 1)]
        rows = [table.columns, *table.rows]
        for number, cells in enumerate(rows, -1):
            color = _SOFT if number < 0 else _INK
            self._row(
                [(*cell, color) for cell in zip(cells, widths, aligns, strict=True)],
                size,
                is_bold=number in table.totals,
            )
            self._rule(_MARGIN_MM)
        pdf.ln(8)

    def _facts(self, facts: Sequence[tuple[str, str]]) -> None:
        width = self._pdf.epw - _LABEL_MM
        for label, value in facts:
            self._row([(label, _LABEL_MM, "L", _SOFT), (value, width, "L", _INK)])

    def _writable(self, text: str) -> str:
        """Return the text without the symbols that no font has."""
        return plain(
            "".join(each for each in plain(text) if each == " " or ord(each) in self._available)
        )

    @contextmanager
    def _font_of(self, size: float, color: _Color, *, is_bold: bool = False) -> Iterator[None]:
        """Set the font. Fonts of files have no bold letters; their outline is drawn instead."""
        pdf = self._pdf
        is_standard = self._family == _STANDARD
        pdf.set_font(self._family, "B" if is_bold and is_standard else "", size)
        pdf.set_text_color(*color)
        if not is_bold or is_standard:
            yield
            return
        pdf.set_draw_color(*color)
        with pdf.local_context(text_mode=2, line_width=_OUTLINE_MM):
            yield

    def _text(
        self,
        text: str,
        size: float,
        color: _Color = _INK,
        width: float = 0,
        align: str = "L",
        *,
        is_bold: bool = False,
    ) -> None:
        """Write a paragraph; the next one begins below it at the same place."""
        pdf = self._pdf
        left = pdf.get_x()
        with self._font_of(size, color, is_bold=is_bold):
            pdf.multi_cell(width, size * 0.5, self._writable(text), align=align, new_y="NEXT")
        pdf.set_x(left)

    def _height(
        self, text: str, size: float, width: float, color: _Color, *, is_bold: bool
    ) -> float:
        """Return the height in mm of a paragraph that is not written yet."""
        with self._font_of(size, color, is_bold=is_bold):
            height = self._pdf.multi_cell(
                width, size * 0.5, self._writable(text), dry_run=True, output="HEIGHT"
            )
        return cast("float", height)

    def _row(
        self,
        cells: Sequence[tuple[str, float, str, _Color]],
        size: float = 10,
        *,
        is_bold: bool = False,
        left: float = _MARGIN_MM,
    ) -> None:
        """Write cells side by side; each has a text, a width in mm, an alignment and a color."""
        pdf = self._pdf
        heights = (
            self._height(text, size, width, color, is_bold=is_bold)
            for text, width, _, color in cells
        )
        if pdf.will_page_break(max(heights)):
            pdf.add_page()
        top = bottom = pdf.get_y()
        for text, width, align, color in cells:
            pdf.set_xy(left, top)
            self._text(text, size, color, width, align, is_bold=is_bold)
            bottom = max(bottom, pdf.get_y())
            left += width
        pdf.set_xy(pdf.l_margin, bottom + 1)

    def _rule(self, left: float) -> None:
        pdf = self._pdf
        pdf.set_draw_color(*_RULE)
        pdf.set_line_width(0.2)
        pdf.line(left, pdf.get_y(), pdf.w - pdf.r_margin, pdf.get_y())
        pdf.ln(2)

    def _shop(self, sheet: Sheet | Report, top: float) -> None:
        """Draw the logo at the right or, without a logo, write the shop's name there."""
        pdf = self._pdf
        right, (width, height) = pdf.w - pdf.r_margin, _LOGO_MM
        if sheet.logo is None:
            pdf.set_xy(right - width, top + _SHOP_DROP_MM)
            self._text(sheet.shop, 12, sheet.accent, width, "R", is_bold=True)
            return
        picture = _reduce_logo(sheet.logo)
        scale = min(width / picture.width, height / picture.height)
        pdf.image(picture, right - picture.width * scale, top, w=picture.width * scale)

    def _parties(self, parties: Sequence[Party]) -> None:
        pdf = self._pdf
        top = bottom = pdf.get_y()
        width = pdf.epw / 2
        for number, party in enumerate(parties):
            pdf.set_xy(pdf.l_margin + number * width, top)
            self._text(party.heading, 10, width=width - 4, is_bold=True)
            for line in party.lines:
                pdf.set_xy(pdf.get_x(), pdf.get_y() + 0.6)
                self._text(line, 10, width=width - 4)
            bottom = max(bottom, pdf.get_y())
        pdf.set_xy(pdf.l_margin, bottom + 10)

    def _item(self, sheet: Sheet) -> None:
        aligns = ("L", "R", "R", "R")
        headings = zip(sheet.columns, _COLUMNS_MM, aligns, [_SOFT] * 4, strict=True)
        self._row(list(headings), 9)
        self._rule(_MARGIN_MM)
        name = self._writable(sheet.item[0]) or _NOTHING
        values = (name, *sheet.item[1:])
        self._row(list(zip(values, _COLUMNS_MM, aligns, [_INK] * 4, strict=True)))
        self._pdf.ln(4)

    def _sum(self, line: SumLine) -> None:
        left = self._pdf.w - self._pdf.r_margin - sum(_SUMS_MM)
        if self._pdf.will_page_break(14):
            self._pdf.add_page()
        self._rule(left)
        color = _INK if line.is_total else _SOFT
        cells = [(line.label, _SUMS_MM[0], "L", color), (line.amount, _SUMS_MM[1], "R", _INK)]
        self._row(cells, is_bold=line.is_total, left=left)


def _reduce_logo(content: bytes) -> "Image":
    """Return a logo in the size in which it is printed."""
    from PIL import Image

    with Image.open(io.BytesIO(content)) as original:
        picture = original.convert("RGBA")
    picture.thumbnail(_LOGO_PX)
    return picture


def _png(content: bytes) -> bytes:
    target = io.BytesIO()
    _reduce_logo(content).save(target, "PNG", optimize=True)
    return target.getvalue()


def main() -> int:
    """Read tasks from the standard input and write their results to the standard output.

    A "+" after a result means that the worker takes another task.
    """
    logging.disable()  # fpdf logs every defect of a font
    source, target = sys.stdin.buffer, sys.stdout.buffer
    keeps_fonts = _KEEP in sys.argv[1:]
    tasks = 0
    while len(head := source.read(LENGTH_BYTES)) == LENGTH_BYTES:
        tasks += 1
        code, result, has_fonts = _perform(source.read(int.from_bytes(head)))
        is_reusable = code != _ERROR and (not has_fonts or (keeps_fonts and tasks < _MOST_KEPT))
        target.write(bytes([code]) + len(result).to_bytes(LENGTH_BYTES) + result)
        target.write(b"+" if is_reusable else b"-")
        target.flush()
        if not is_reusable:
            break
    return 0


def _perform(encoded: bytes) -> tuple[int, bytes, bool]:
    """Return code and result of a task, and whether the worker has read a font for it."""
    try:
        task = msgspec.json.decode(encoded, type=Sheet | Report | Logo)
        if isinstance(task, Logo):
            return 0, _png(task.content), False
        return 0, draw_in_process(task), not _is_western(set(task.text))
    except NoFont:
        return NO_FONT, b"", True
    except Exception:  # noqa: BLE001 - the caller and the log get it
        return _ERROR, traceback.format_exc().encode(), False


if __name__ == "__main__":
    sys.exit(main())
