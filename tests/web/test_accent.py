"""Accent colors: every color gives a readable and visible button."""

import random
import re
from pathlib import Path

import pytest

import opentill
from opentill.web import accent

COLORS = ["#000000", "#ffffff", "#ffff00", "#777777", "#0d5c49", "#171e1b", "#ff0000", "#0000ff"]


def _random_colors(count: int) -> list[str]:
    numbers = random.Random(7)
    return [f"#{numbers.randrange(1 << 24):06x}" for _ in range(count)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_color_has_the_required_contrast(scheme: accent.Scheme) -> None:
    for color in COLORS + _random_colors(2000):
        shade = accent.shade(color, scheme)
        assert shade.ink in {"#ffffff", "#000000"}
        assert accent.contrast(shade.ink, shade.ground) >= 4.5, color
        assert accent.contrast(shade.ink, shade.hover) >= 4.5, color
        assert accent.contrast(shade.ground, accent.CARDS[scheme]) >= 3, color
        if accent.contrast(color, accent.CARDS[scheme]) >= 3:
            assert shade.ground == color
        for text in (shade.link, shade.link_hover):
            for background in (*accent.BACKGROUNDS[scheme], shade.wash):
                assert accent.contrast(text, background) >= 4.5, color
        for text in (shade.panel_ink, shade.panel_soft):
            for background in (shade.panel, shade.panel_end):
                assert accent.contrast(text, background) >= 4.5, color
        if scheme == "light":
            assert shade.panel == color


def test_contrast_is_computed_as_in_wcag() -> None:
    assert accent.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert accent.contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=0.001)
    assert accent.contrast("#ffffff", "#ffffff") == 1


def test_the_backgrounds_equal_those_of_the_style_sheet() -> None:
    sheet = (Path(opentill.__file__).parent / "web/static/tokens.css").read_text()
    assert re.findall(r"--card: (#\w+);", sheet) == [accent.CARDS["light"], accent.CARDS["dark"]]
    light, dark = sheet.split("@media (prefers-color-scheme: dark)")
    for text, scheme in ((light, "light"), (dark, "dark")):
        names = ("ground", "card", "bad-wash", "warn-wash", "good-wash")
        colors = [re.findall(rf"--{name}: (#\w+);", text)[0] for name in names]
        assert accent.BACKGROUNDS[scheme] == tuple(colors)  # type: ignore[index] # a scheme


def test_style_sheets_of_accents_differ_only_in_colors() -> None:
    for color in COLORS:
        plain = re.sub("#[0-9a-f]{6}", "", accent.style_sheet(color))
        assert plain == re.sub("#[0-9a-f]{6}", "", accent.style_sheet("#123456"))


def test_the_style_sheet_reaches_panel_links_buttons_and_selection() -> None:
    sheet = accent.style_sheet("#b03a2e")
    for name in ("accent", "accent-hover", "accent-wash", "side", "side-deep", "side-ink"):
        assert sheet.count(f"--{name}:#") == 2, name
    assert sheet.count("::selection{background:#") == 2
    assert "--side:#b03a2e" in sheet
