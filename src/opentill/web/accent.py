"""A merchant's accent colour: how buttons of that colour look, so that everybody can read them.

Text on a button is white or black, whichever reads well: one of them has a contrast of at least
4.58 : 1 on any colour (WCAG 2.2, 1.4.3, asks for 4.5). The button itself stands out from the card
behind it by 3 : 1 (1.4.11): a colour that does not is shown darker, or lighter in the dark scheme.

The pages' policy lets no style stand in them, so a colour is a style sheet of its own, which is
made of its address alone.
"""

import hashlib
from typing import Final, Literal

import msgspec

Scheme = Literal["light", "dark"]
CARDS: Final[dict[Scheme, str]] = {"light": "#ffffff", "dark": "#171e1b"}  # as foundation.css
TEXT_CONTRAST: Final = 4.5
BUTTON_CONTRAST: Final = 3.0
_WHITE: Final = "#ffffff"
_BLACK: Final = "#000000"
_HOVER: Final = 12  # percent nearer to white or black


class Shade(msgspec.Struct, frozen=True):
    """A button of one scheme: its colour, the colour of its text, and itself under a pointer."""

    ground: str
    ink: str
    hover: str


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21 (WCAG 2.2, "contrast ratio")."""
    dark, light = sorted((_luminance(one), _luminance(other)))
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
    """Return the button of a colour ``#rrggbb`` in a scheme."""
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
    """Return the style sheet of a colour."""
    light, dark = _rules(shade(color, "light")), _rules(shade(color, "dark"))
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}"


def _rules(one: Shade) -> str:
    button = ".button:not(.plain)"
    return (
        f"{button}{{background:{one.ground};color:{one.ink}}}"
        f"{button}:hover{{background:{one.hover};color:{one.ink}}}"
    )


def drawing(color: str) -> str:
    """Return an SVG of the button in both schemes, for whoever chooses a colour."""
    places: tuple[tuple[Scheme, int], ...] = (("light", 0), ("dark", 120))
    shown = "".join(
        f'<g transform="translate({x})"><rect width="120" height="64" fill="{CARDS[scheme]}"/>'
        f'<rect x="16" y="12" width="88" height="40" rx="10" fill="{one.ground}"/>'
        f'<path d="M48 32l8 8 16-16" fill="none" stroke="{one.ink}" stroke-width="4"/></g>'
        for scheme, x in places
        for one in [shade(color, scheme)]
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="240" height="64" viewBox="0 0 240 64">'
        f"{shown}</svg>"
    )


# Another rule makes other addresses, since what an address names is kept for a year.
VERSION: Final = hashlib.sha256(
    "".join(style_sheet(color) + drawing(color) for color in ("#808080", "#ffff00")).encode()
).hexdigest()[:16]


def address(color: str, kind: Literal["css", "svg"] = "css") -> str:
    """Return the path of a colour's style sheet, or of its drawing."""
    return f"/accents/{color[1:]}.{kind}?v={VERSION}"
