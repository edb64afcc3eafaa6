"""QR codes, as SVG and PNG."""

import io

import segno

from opentill.core.errors import NotFound


def svg(text: str) -> bytes:
    """Draw the code of a text, black on white. Raises NotFound for more than a code can hold."""
    image = io.BytesIO()
    _code(text).save(
        image, kind="svg", scale=8, border=4, light="#fff", svgclass=None, lineclass=None
    )
    return image.getvalue()


def png(text: str) -> bytes:
    """Draw the code of a text for print: ten dots for each of its squares. Raises NotFound."""
    image = io.BytesIO()
    _code(text).save(image, kind="png", scale=10, border=4)
    return image.getvalue()


def _code(text: str) -> segno.QRCode:
    try:
        return segno.make(text, error="m", micro=False)
    except segno.DataOverflowError:
        raise NotFound from None
