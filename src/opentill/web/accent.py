"""A merchant's accent colour, adjusted so that buttons are readable.

Text on a button is white or black: one of them has a contrast of at least 4.58 : 1 on any colour
(WCAG 2.2, 1.4.3, requires 4.5). The button itself needs a contrast of 3 : 1 to the card behind it
(1.4.11); other colours are darkened, or lightened in the dark scheme.

The content security policy allows no inline styles, so each colour has a separate style sheet,
generated from its URL.
"""

import hashlib
from typing import Final, Literal

import msgspec

Scheme = Literal["light", "dark"]
# The background of cards in tokens.css, on which the accent colour must be visible.
CARDS: Final[dict[Scheme, str]] = {
    "light": "#ffffff",
    "dark": "#171e1b",
}
TEXT_CONTRAST: Final = 4.5
BUTTON_CONTRAST: Final = 3.0
_WHITE: Final = "#ffffff"
_BLACK: Final = "#000000"
_HOVER: Final = 12  # under the pointer, a button is this many percent nearer to white or black


class Shade(msgspec.Struct, frozen=True):
    """Colours of a button in one scheme: background, text, and background on hover."""

    ground: str
    ink: str
    hover: str


def contrast(color: str, other: str) -> float:
    """Return the contrast ratio of two colours (WCAG 2.2), from 1 to 21."""
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


def _mixed(color: str, other: str, percent: int) -> str:
    pairs = zip(_channels(color), _channels(other), strict=True)
    mixed = bytes((a * (100 - percent) + b * percent + 50) // 100 for a, b in pairs)
    return f"#{mixed.hex()}"


def shade(color: str, scheme: Scheme) -> Shade:
    """Return the button's colours for an accent colour ``#rrggbb``."""
    card, away = CARDS[scheme], _BLACK if scheme == "light" else _WHITE
    ground = next(
        mixed
        for percent in range(101)
        for mixed in [_mixed(color, away, percent)]
        if contrast(mixed, card) >= BUTTON_CONTRAST
    )
    ink = _WHITE if contrast(_WHITE, ground) >= TEXT_CONTRAST else _BLACK
    hover = _mixed(ground, _BLACK if ink == _WHITE else _WHITE, _HOVER)
    return Shade(ground, ink, hover)


def style_sheet(color: str) -> str:
    """Return the style sheet of an accent colour."""
    light, dark = _rules(shade(color, "light")), _rules(shade(color, "dark"))
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}"


def _rules(colors: Shade) -> str:
    button = ".button:not(.plain)"
    return (
        f"{button}{{background:{colors.ground};color:{colors.ink}}}"
        f"{button}:hover{{background:{colors.hover};color:{colors.ink}}}"
    )


def drawing(color: str) -> str:
    """Return an SVG preview of the button in both schemes."""
    offsets: tuple[tuple[Scheme, int], ...] = (("light", 0), ("dark", 120))
    buttons = "".join(
        f'<g transform="translate({x})"><rect width="120" height="64" fill="{CARDS[scheme]}"/>'
        f'<rect x="16" y="12" width="88" height="40" rx="10" fill="{one.ground}"/>'
        f'<path d="M48 32l8 8 16-16" fill="none" stroke="{one.ink}" stroke-width="4"/></g>'
        for scheme, x in offsets
        for one in [shade(color, scheme)]
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="240" height="64" viewBox="0 0 240 64">'
        f"{buttons}</svg>"
    )


# Part of the URLs of style sheets and drawings. It changes when this module's output changes,
# because browsers cache the content of a URL for a year.
VERSION: Final = hashlib.sha256(
    "".join(style_sheet(color) + drawing(color) for color in ("#808080", "#ffff00")).encode()
).hexdigest()[:16]


def address(color: str, kind: Literal["css", "svg"] = "css") -> str:
    """Return the path of a colour's style sheet or preview."""
    return f"/accents/{color[1:]}.{kind}?v={VERSION}"
