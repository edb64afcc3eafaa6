"""A drawing of the payment page with the shop's name, logo and color, in both color schemes.

The page itself cannot be shown in a color that is not saved yet, and must not be shown in a frame.
"""

import re
from base64 import b64encode
from typing import Final

from markupsafe import Markup, escape
from starlette.responses import Response

from opentill import merchants
from opentill.core import money
from opentill.core.errors import NotFound
from opentill.core.money import Money
from opentill.dashboard import page_helpers
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web import accent, responses
from opentill.web.language import Localizer

_COLOR: Final = re.compile("[0-9a-f]{6}", re.ASCII)
_EXAMPLE_UNITS: Final = 42  # of the settlement currency
# Texts of the payment page, which are in the catalogue of customers.
_EMAIL, _METHOD, _PAY = "Email", "Payment method", "Pay {amount}"
_LONGEST_NAME: Final = 22  # characters that fit the panel
_SCHEMES: Final[tuple[tuple[accent.Scheme, int], ...]] = (("light", 0), ("dark", 396))
_FRAME: Final = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" width="776" height="252" viewBox="0 0 776 252"'
    ' font-family="system-ui, sans-serif" font-size="12">{pages}</svg>'
)
_PAGE: Final = Markup(
    '<g transform="translate({x})">'
    '<rect x=".5" y=".5" width="379" height="251" rx="12" fill="{card}" stroke="#7c8a83"/>'
    '<path d="M170 0H12A12 12 0 0 0 0 12v228a12 12 0 0 0 12 12h158z" fill="{panel}"/>{mark}'
    '<text x="20" y="94" fill="{ink}" font-size="13" font-weight="600">{name}</text>'
    '<text x="20" y="132" fill="{ink}" font-size="26" font-weight="700">{amount}</text>'
    '<rect x="20" y="152" width="96" height="6" rx="3" fill="{soft}" fill-opacity=".6"/>'
    '<text x="190" y="40" fill="{text}" font-weight="600">{email}</text>'
    '<rect x="190" y="48" width="170" height="30" rx="8" fill="none" stroke="#7c8a83"/>'
    '<text x="190" y="104" fill="{text}" font-weight="600">{method}</text>'
    '<rect x="190" y="112" width="170" height="30" rx="8" fill="{wash}" stroke="{link}"'
    ' stroke-width="1.5"/>'
    '<circle cx="206" cy="127" r="5" fill="none" stroke="{link}" stroke-width="4"/>'
    '<text x="220" y="131" fill="{text}">Visa •••• 4242</text>'
    '<rect x="190" y="172" width="170" height="38" rx="8" fill="{ground}"/>'
    '<text x="275" y="196" fill="{on_ground}" font-size="13" font-weight="600"'
    ' text-anchor="middle">{pay}</text></g>'
)
_LOGO: Final = Markup(
    '<rect x="20" y="24" width="44" height="44" rx="10" fill="#fff"/>'
    '<image x="24" y="28" width="36" height="36" href="data:{media_type};base64,{content}"/>'
)
_ICON: Final = Markup(
    '<rect x="21" y="25" width="42" height="42" rx="10" fill="none" stroke="{line}"'
    ' stroke-width="2"/><path d="M33 40h18v16H33zm4 0v-3a5 5 0 0 1 10 0v3" fill="none"'
    ' stroke="{ink}" stroke-width="2"/>'
)


def draw(name: str, amount: str, color: str, localizer: Localizer, logo: Markup | None) -> str:
    """Return the drawing as an SVG; ``localizer`` has the texts of customers' pages."""
    shown = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    pages = Markup()
    for scheme, x in _SCHEMES:
        shade = accent.shade(color, scheme)
        icon = _ICON.format(line=shade.panel_line, ink=shade.panel_ink)
        pages += _PAGE.format(
            x=x,
            card=accent.CARDS[scheme],
            text=accent.CARDS["dark" if scheme == "light" else "light"],
            mark=icon if logo is None else logo,
            panel=shade.panel,
            ink=shade.panel_ink,
            soft=shade.panel_soft,
            wash=shade.wash,
            link=shade.link,
            ground=shade.ground,
            on_ground=shade.ink,
            name=escape(shown),
            amount=amount,
            email=localizer.gettext(_EMAIL),
            method=localizer.gettext(_METHOD),
            pay=localizer.gettext(_PAY, amount=amount),
        )
    return _FRAME.format(pages=pages)


async def show(request: PageRequest) -> Response:
    """Draw the payment page in the color of the query. Raises NotFound for no color."""
    color = request.query.get("color", "")
    if not _COLOR.fullmatch(color):
        raise NotFound
    merchant = await page_helpers.find_merchant(request)
    logo: Markup | None = None
    digest = merchant.logo_sha256
    if digest is not None:
        async with request.app.db.connection() as tx:
            file = await merchants.find_logo(tx, merchant.id, digest)
        content = b64encode(file.content).decode()
        logo = _LOGO.format(media_type=file.media_type, content=content)
    localizer = Localizer("customer", request.localizer.language)
    currency = merchant.settlement_currency
    minor = _EXAMPLE_UNITS * 10 ** min(money.exponent(currency), 2)
    name = merchant.display_name or merchant.name
    amount = localizer.amount(Money(minor, currency))
    return responses.drawing(draw(name, amount, f"#{color}", localizer, logo).encode())


pages: Final = (
    Page("GET", f"{DASHBOARD_PATH}/settings/branding/preview.svg", "settings.read", show,
         is_file=True),
)  # fmt: skip
