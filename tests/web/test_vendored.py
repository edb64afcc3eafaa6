"""Vendored files are identical to the published ones and have their licences."""

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
