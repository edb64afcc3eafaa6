"""QR codes in SVG and PNG."""

import io

import segno

from opentill.core.errors import NotFound


def svg(text: str) -> bytes:
    """Render the QR code of a text. Raises NotFound if the text is too long for one."""
    image = io.BytesIO()
    _code(text).save(
        image, kind="svg", scale=8, border=4, light="#fff", svgclass=None, lineclass=None
    )
    return image.getvalue()


def png(text: str) -> bytes:
    """Render the QR code of a text for print, with ten pixels per module. Raises NotFound."""
    image = io.BytesIO()
    _code(text).save(image, kind="png", scale=10, border=4)
    return image.getvalue()


def _code(text: str) -> segno.QRCode:
    try:
        return segno.make(text, error="m", micro=False)
    except segno.DataOverflowError:
        raise NotFound from None
