"""The PDF of a receipt: its layout, fonts, right-to-left scripts, emoji and logo."""

import io
import re
from pathlib import Path
from typing import Final

import msgspec
import pytest

from opentill.receipts import pdf
from opentill.receipts.pdf import NoFont
from opentill.receipts.sheet import Logo, Party, Sheet, SumLine, font_files, plain
from support.pdf_streams import streams_of
from support.pictures import png

DEJAVU: Final = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
SHEET: Final = Sheet(
    language="en",
    title="Receipt",
    shop="Harbour Books",
    facts=[("Receipt number", "261127-4K7D-9QXM-T3RW")],
    parties=[Party("Seller", ["Harbour Books GmbH", "Hafenstraße 1"])],
    headline="$9.99 USD paid on Nov 27, 2026",
    columns=("Item", "Quantity", "Price", "Amount"),
    item=("A mug", "1", "$9.99", "$9.99"),
    sums=[SumLine("Total paid", "$9.99 USD", is_total=True)],
    notes=["https://pay.example.com/receipt/cs_1"],
    fonts=[],
)


def _with_item(name: str, *fonts: str) -> Sheet:
    return msgspec.structs.replace(SHEET, item=(name, *SHEET.item[1:]), fonts=list(fonts))


def _drawn_glyphs(content: bytes) -> list[tuple[int, str]]:
    """Return glyph and character in the order of drawing; the PDF has one font of a file."""
    streams = streams_of(content)
    (table,) = [stream for stream in streams if b"beginbfchar" in stream]
    characters = {
        int(code, 16): bytes.fromhex(text.decode()).decode("utf-16-be")
        for code, text in re.findall(rb"<([0-9A-F]{4})> <([0-9A-F]+)>", table)
    }
    (page,) = [stream for stream in streams if b") Tj" in stream]
    texts = b"".join(re.findall(rb"\(((?:\\.|[^\\)])*)\) Tj", page, re.DOTALL))
    codes = re.sub(rb"\\(.)", lambda each: b"\r" if each[1] == b"r" else each[1], texts,
                   flags=re.DOTALL)  # fmt: skip
    glyphs = [int.from_bytes(codes[at : at + 2]) for at in range(0, len(codes), 2)]
    return [(glyph, characters[glyph]) for glyph in glyphs]


def _drawn_text(content: bytes) -> str:
    return "".join(character for _, character in _drawn_glyphs(content))


@pytest.fixture
def dejavu() -> str:
    """The path of a font with Arabic and Hebrew letters."""
    if not Path(DEJAVU).is_file():
        pytest.skip("this machine lacks DejaVu Sans")
    return DEJAVU


def test_a_western_receipt_needs_no_font_of_the_machine() -> None:
    text = b"".join(streams_of(pdf.draw_in_process(_with_item("Café – 5 €"))))
    for part in (b"261127-4K7D-9QXM-T3RW", b"Harbour Books GmbH", "Café".encode("cp1252")):
        assert part in text


def test_hebrew_is_drawn_from_right_to_left(dejavu: str) -> None:
    name = "חולצה כחולה"
    drawn = _drawn_text(pdf.draw_in_process(_with_item(f"{name} 42", dejavu)))
    assert f"42 {name[::-1]}" in drawn
    assert "Harbour Books" in drawn


def test_arabic_letters_are_joined_and_drawn_from_right_to_left(dejavu: str) -> None:
    """The first, middle and last of three equal letters have different glyphs."""
    beh, seen, meem = "\u0628", "\u0633", "\u0645"
    glyphs = _drawn_glyphs(pdf.draw_in_process(_with_item(beh * 3, dejavu)))
    assert len({glyph for glyph, character in glyphs if character == beh}) == 3
    drawn = _drawn_text(pdf.draw_in_process(_with_item(f"XL {meem}{seen} 7", dejavu)))
    assert f"{seen}{meem}" in drawn


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tea 🍵 pot", "Tea pot"),
        ("👩‍💻 course 👍🏽", "course"),
        ("1️⃣ Flag 🇩🇪", "1 Flag"),
        ("می‌خواهم", "می‌خواهم"),
        ("a\u202eb\u2066c\x00d", "a b c d"),
        ("茶 ☕️", "茶 ☕"),
        ("🍵", ""),
    ],
)
def test_emoji_and_invisible_marks_are_left_out(text: str, expected: str) -> None:
    assert plain(text) == expected


def test_a_symbol_that_the_standard_fonts_lack_does_not_need_another_font() -> None:
    drawn = pdf.draw_in_process(_with_item("Mug ★ 🍵 ☕️"))
    text = b"".join(streams_of(drawn))
    assert b"(Mug)" in text
    for item in ("🍵", "★"):  # nothing of the name is left
        assert pdf.draw_in_process(_with_item(item)).startswith(b"%PDF-")


def test_letters_that_no_font_has_are_an_error() -> None:
    sheet = _with_item("茶 🍵 żółw", *font_files(None, "zh-Hans"))
    try:
        drawn = pdf.draw_in_process(sheet)
    except NoFont:
        pytest.skip("this machine has no font with Chinese")
    assert drawn.startswith(b"%PDF-")
    with pytest.raises(NoFont):
        pdf.draw_in_process(_with_item("茶"))


def test_a_long_receipt_continues_on_further_pages() -> None:
    refunds = [SumLine(f"Refunded on Nov {day}", "-$0.01") for day in range(1, 90)]
    sheet = msgspec.structs.replace(SHEET, sums=refunds, item=("word " * 60, *SHEET.item[1:]))
    content = pdf.draw_in_process(sheet)
    assert content.count(b"/Type /Page\n") == 4
    assert sum(b"Refunded on Nov 89" in stream for stream in streams_of(content)) == 1


def test_a_row_of_several_lines_stays_on_one_page() -> None:
    details = [(f"label {number} " * 12, f"value {number} " * 20) for number in range(40)]
    sheet = msgspec.structs.replace(SHEET, details_title="Metadata", details=details)
    streams = streams_of(pdf.draw_in_process(sheet))
    pages = [stream for stream in streams if b"label" in stream or b"value" in stream]
    assert len(pages) == 4
    for number in range(40):
        name = f" {number} ".encode()
        assert sum(b"label" + name in page or b"value" + name in page for page in pages) == 1
    (total,) = [index for index, page in enumerate(streams) if b"Total paid" in page]
    assert total == streams.index(pages[0])  # the details follow the amounts


def test_a_logo_is_drawn_in_the_size_in_which_it_is_printed() -> None:
    content = pdf.draw_in_process(msgspec.structs.replace(SHEET, logo=png(2048, 205)))
    assert b"/Subtype /Image" in content
    assert b"/Width 480" in content


def test_a_worker_makes_a_small_png_of_a_logo() -> None:
    code, picture, has_fonts = pdf._perform(msgspec.json.encode(Logo(png(600, 400))))
    assert (code, has_fonts) == (0, False)
    from PIL import Image

    with Image.open(io.BytesIO(picture)) as image:
        assert (image.format, image.size) == ("PNG", (216, 144))


def test_a_worker_reports_a_broken_logo() -> None:
    code, error, _ = pdf._perform(msgspec.json.encode(Logo(b"no picture")))
    assert code == 1
    assert b"UnidentifiedImageError" in error


def test_japanese_and_chinese_receipts_have_their_own_forms_of_a_character() -> None:
    """U+76F4 (直) has one code and three forms."""
    noto = "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc"
    if not Path(noto).is_file():
        pytest.skip("this machine lacks Noto Sans CJK")
    for language, form in (("ja", "JP"), ("zh-Hans", "SC"), ("zh-Hant", "TC")):
        sheet = msgspec.structs.replace(_with_item("直", noto), language=language)
        assert f"NotoSansCJK{form}".encode() in pdf.draw_in_process(sheet)


def test_japanese_receipts_try_japanese_fonts_first() -> None:
    assert font_files(None, "ja")[0] not in font_files(None, "zh-Hans")
    assert set(font_files(None, "zh-Hans")) < set(font_files(None, "ja"))
    assert font_files(Path("own.ttf"), "ja") == ["own.ttf"]
