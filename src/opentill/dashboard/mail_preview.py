"""The page of one mail: what its recipient sees, in a frame that can run and load nothing."""

from typing import Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import mail, merchants
from opentill.core.errors import NotFound
from opentill.portal import render
from opentill.portal.model import DASHBOARD_PATH, Page
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


async def _find(request: PageRequest) -> mail.Mail:
    """Find the mail in the path. Raises NotFound."""
    async with request.app.db.connection() as tx:
        return await mail.find(tx, request.merchant_id, request.ids["mail"])


async def show_mail(request: PageRequest) -> Response:
    """Show a mail: its result, and its text. Raises NotFound."""
    row = await _find(request)
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
    preview: mail.Preview | None = None
    try:
        preview = await mail.preview(request.app.db, request.app.settings, row)
    except mail.Unrenderable:
        preview = None  # the page says that the mail cannot be shown
    return render.page(
        request,
        "mail.html",
        headers={"content-security-policy": _PAGE_POLICY},
        mail=row,
        preview=preview,
        zone=ZoneInfo(merchant.time_zone),
    )


async def show_frame(request: PageRequest) -> Response:
    """Return the HTML of a mail, for the frame of its page. Raises NotFound."""
    row = await _find(request)
    try:
        preview = await mail.preview(request.app.db, request.app.settings, row)
    except mail.Unrenderable as error:
        raise NotFound(str(error)) from None
    html = preview.html.replace(_HEAD, _HEAD + _INERT_LINKS, 1)
    headers = {"content-security-policy": _FRAME_POLICY, "x-frame-options": "SAMEORIGIN"}
    return responses.page(html, row.language, headers=headers)


_PLACE: Final = f"{DASHBOARD_PATH}/mails/{{mail:id}}"
pages: Final = (
    Page("GET", _PLACE, "mails.read", show_mail),
    Page("GET", f"{_PLACE}/html", "mails.read", show_frame),
)
