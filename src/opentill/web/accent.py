"""A merchant's accent color on its customers' pages, adjusted so that everything is readable.

The panel beside the form has the color itself, darkened in the dark scheme so that it does not
glare. Text on it, and on buttons, is white or black: one of them has a contrast of at least
4.58 : 1 on any color (WCAG 2.2, 1.4.3, requires 4.5). The button needs a contrast of 3 : 1 to the
card behind it (1.4.11), and a link one of 4.5 : 1 to all backgrounds of the page: other colors are
darkened, or lightened in the dark scheme.

The content security policy allows no inline styles, so each color has a separate style sheet,
generated from its URL.
"""

import hashlib
from functools import lru_cache
from typing import Final, Literal

import msgspec

Scheme = Literal["light", "dark"]
# Colors of tokens.css: of cards, and of every background on which a link can be.
CARDS: Final[dict[Scheme, str]] = {"light": "#ffffff", "dark": "#171e1b"}
BACKGROUNDS: Final[dict[Scheme, tuple[str, ...]]] = {
    "light": ("#f6f5f1", "#ffffff", "#fcf0ee", "#fdf5e3", "#e3f2eb"),
    "dark": ("#0e1311", "#171e1b", "#331b18", "#2d2413", "#153026"),
}
TEXT_CONTRAST: Final = 4.5
BUTTON_CONTRAST: Final = 3.0
_WHITE: Final = "#ffffff"
_BLACK: Final = "#000000"
_HOVER: Final = 12  # under the pointer, a color is this many percent nearer to white or black
_WASH: Final = 8  # percent of the color in the background of the chosen payment method
_SOFT: Final = 25  # percent of the panel's color in its less important text, if it stays readable
_LINE: Final = 70  # percent of the panel's color in its lines
_DARK_PANEL: Final = 70  # percent of black that the dark scheme adds to the panel's color


class Shade(msgspec.Struct, frozen=True):
    """The colors of one scheme.

    Of buttons: background, text, and background on hover. Of links: text, and text on hover. Of the
    chosen payment method: background. Of the panel: both ends of its gradient, text, less important
    text, and lines.
    """

    ground: str
    ink: str
    hover: str
    link: str
    link_hover: str
    wash: str
    panel: str
    panel_end: str
    panel_ink: str
    panel_soft: str
    panel_line: str


def contrast(color: str, other: str) -> float:
    """Return the contrast ratio of two colors (WCAG 2.2), from 1 to 21."""
    dark, light = sorted((_luminance(color), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    parts = (value / 255 for value in _channels(color))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4  # noqa: PLR2004 - sRGB
        for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _channels(color: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(color[1:])
    return red, green, blue


def _mix(color: str, other: str, percent: int) -> str:
    pairs = zip(_channels(color), _channels(other), strict=True)
    mixed = bytes((a * (100 - percent) + b * percent + 50) // 100 for a, b in pairs)
    return f"#{mixed.hex()}"


def _adjust(color: str, other: str, backgrounds: tuple[str, ...], least: float) -> str:
    """Return the first mixture with ``other`` that has enough contrast to all backgrounds."""
    return next(
        mixed
        for percent in range(101)
        for mixed in [_mix(color, other, percent)]
        if all(contrast(mixed, background) >= least for background in backgrounds)
    )


def _ink_on(*grounds: str) -> str:
    """Return white if it is readable on all of some similar colors, else black."""
    is_readable = all(contrast(_WHITE, ground) >= TEXT_CONTRAST for ground in grounds)
    return _WHITE if is_readable else _BLACK


@lru_cache(maxsize=512)
def shade(color: str, scheme: Scheme) -> Shade:
    """Return the colors for an accent color ``#rrggbb``."""
    card, opposite = CARDS[scheme], _BLACK if scheme == "light" else _WHITE
    ground = _adjust(color, opposite, (card,), BUTTON_CONTRAST)
    ink = _ink_on(ground)
    wash = _mix(card, color, _WASH)
    link = _adjust(color, opposite, (*BACKGROUNDS[scheme], wash), TEXT_CONTRAST)
    panel = color if scheme == "light" else _mix(color, _BLACK, _DARK_PANEL)
    panel_ink = _ink_on(panel)
    # The gradient goes away from the text, so that its end is at least as readable.
    panel_end = _mix(panel, _BLACK if panel_ink == _WHITE else _WHITE, _HOVER)
    return Shade(
        ground=ground,
        ink=ink,
        hover=_mix(ground, _BLACK if ink == _WHITE else _WHITE, _HOVER),
        link=link,
        link_hover=_mix(link, opposite, _HOVER),
        wash=wash,
        panel=panel,
        panel_end=panel_end,
        panel_ink=panel_ink,
        panel_soft=_adjust(
            _mix(panel_ink, panel, _SOFT), panel_ink, (panel, panel_end), TEXT_CONTRAST
        ),
        panel_line=_mix(panel_ink, panel, _LINE),
    )


def style_sheet(color: str) -> str:
    """Return the style sheet of an accent color, which replaces colors of tokens.css."""
    light, dark = _rules(shade(color, "light")), _rules(shade(color, "dark"))
    more_contrast = "@media (prefers-contrast:more){:root{--side-soft:var(--side-ink)}}"
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}{more_contrast}"


def _rules(colors: Shade) -> str:
    button = ".button:not(.plain)"
    return (
        f":root{{--accent:{colors.link};--accent-hover:{colors.link_hover}"
        f";--accent-wash:{colors.wash}"
        f";--side:{colors.panel};--side-deep:{colors.panel_end};--side-ink:{colors.panel_ink}"
        f";--side-soft:{colors.panel_soft};--side-line:{colors.panel_line}}}"
        f"{button}{{background:{colors.ground};color:{colors.ink}}}"
        f"{button}:hover{{background:{colors.hover};color:{colors.ink}}}"
        f"::selection{{background:{colors.ground};color:{colors.ink}}}"
    )


# Part of the URLs of style sheets. It changes when this module's output changes,
# because browsers cache the content of a URL for a year.
VERSION: Final = hashlib.sha256(
    "".join(style_sheet(color) for color in ("#808080", "#ffff00")).encode()
).hexdigest()[:16]


def address(color: str) -> str:
    """Return the path of a color's style sheet."""
    return f"/accents/{color[1:]}.css?v={VERSION}"
