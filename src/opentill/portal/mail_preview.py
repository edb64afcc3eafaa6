"""The page of one mail: what its recipient sees, in a frame that can run and load nothing."""

from typing import Any, Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import mail
from opentill.core.errors import NotFound
from opentill.mail import Mail
from opentill.portal import render
from opentill.portal.request import PageRequest
from opentill.web import responses

# The frame has the styles of the mail, and the shop's logo as data. Links of the mail do nothing:
# they open a new window, which a sandbox does not allow.
_FRAME_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'self'; "
    "form-action 'none'; frame-ancestors 'self'; sandbox"
)
# The page may show the frame.
_PAGE_POLICY: Final = responses.POLICY.format(picture="") + "; script-src 'self'; frame-src 'self'"
_HEAD: Final = "<head>"
_INERT_LINKS: Final = '<base target="_blank">'


async def page(
    request: PageRequest,
    row: Mail,
    zone: ZoneInfo,
    merchant_name: str = "",
    *,
    status: int = 200,
    template: str = "mail.html",
    frame: str = "",
    **values: Any,
) -> Response:
    """Return the page of a mail: its result and its text. Only the console names the merchant.

    ``values`` are further values of the ``template``; ``frame`` is the URL of the frame, "" for the
    one below the page's.
    """
    preview: mail.Preview | None = None
    try:
        preview = await mail.preview(request.app.db, request.app.settings, row)
    except mail.Unrenderable:
        preview = None  # the page says that the mail cannot be shown
    return render.page(
        request,
        template,
        status,
        headers={"content-security-policy": _PAGE_POLICY},
        mail=row,
        preview=preview,
        frame_path=frame or f"{request.base}{request.path.rstrip('/')}/html",
        zone=zone,
        merchant_name=merchant_name,
        **values,
    )


async def frame(request: PageRequest, row: Mail) -> Response:
    """Return the HTML of a mail, for the frame of its page. Raises NotFound."""
    try:
        preview = await mail.preview(request.app.db, request.app.settings, row)
    except mail.Unrenderable as error:
        raise NotFound(str(error)) from None
    html = preview.html.replace(_HEAD, _HEAD + _INERT_LINKS, 1)
    headers = {"content-security-policy": _FRAME_POLICY, "x-frame-options": "SAMEORIGIN"}
    return responses.page(html, row.language, headers=headers)
