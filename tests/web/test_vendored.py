"""Vendored files are identical to the published ones and have their licences."""

import re
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from opentill.web import assets

STATIC: Final = Path(assets.__file__).parent / "static"
# SHA-256 of the files of uPlot 1.6.32 (decision 0067) and htmx 2.0.11 (decision 0068) in the npm
# registry.
PUBLISHED: Final = {
    "htmx.js": "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
    "uplot.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}

# A part of Inter in npm's @fontsource-variable/inter 5.3.0; docs/design.md says how it was made.
FONT: Final = "4f29a88887a29485f81b89f05ab3ac2a5492812c75bdd44fb4cd5271e0fca239"
LOCALES: Final = STATIC.parents[1] / "locale"


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_vendored_file_is_the_published_one_and_is_served_unchanged(name: str) -> None:
    content = (STATIC / name).read_bytes()
    assert sha256(content).hexdigest() == PUBLISHED[name]
    assert assets.ASSETS[name].body == content


def test_versions_and_licences_of_vendored_files_are_present() -> None:
    assert (STATIC / "uplot.js").read_bytes().startswith(
        b"/*! https://github.com/leeoniya/uPlot (v1.6.32) */"
    )  # fmt: skip
    assert "The MIT License" in (STATIC / "uplot.license.txt").read_text()
    assert b'version:"2.0.11"' in (STATIC / "htmx.js").read_bytes()
    assert "Zero-Clause BSD" in (STATIC / "htmx.license.txt").read_text()


def test_the_font_has_its_licence_and_the_letters_of_our_texts() -> None:
    content = (STATIC / "inter.woff2").read_bytes()
    assert sha256(content).hexdigest() == FONT
    assert len(content) < 25_000  # a page of the dashboard weighs at most 100 kB
    assert "SIL Open Font License, Version 1.1" in (STATIC / "inter.license.txt").read_text()
    sheet = (STATIC / "tokens.css").read_text()
    (listed,) = re.findall(r"unicode-range: ([^;]+);", sheet)
    has: set[int] = set()
    for part in re.findall(r"U\+([0-9A-F]+(?:-[0-9A-F]+)?)", listed):
        first, _, last = part.partition("-")
        has |= set(range(int(first, 16), int(last or first, 16) + 1))
    missing = {
        letter
        for language in ("de", "es", "fr", "pt")
        for path in LOCALES.glob(f"{language}/LC_MESSAGES/*.po")
        for letter in path.read_text()
        if letter.isalpha() and ord(letter) not in has
    }
    assert missing == set()


def test_icons_are_the_published_files_of_one_version() -> None:
    icons = sorted((STATIC / "lucide").glob("*.svg"))
    assert len(icons) > 10
    for icon in icons:
        assert icon.read_text().startswith("<!-- @license lucide-static v1.62.0 - ISC -->\n<svg")
    assert "ISC License" in (STATIC / "lucide" / "LICENSE.txt").read_text()


def test_every_icon_file_is_used_by_a_style_sheet() -> None:
    sheets = "".join(path.read_text() for path in STATIC.glob("*.css"))
    for icon in (STATIC / "lucide").glob("*.svg"):
        assert f'url("lucide/{icon.name}")' in sheets, icon.name
