"""The page of one mail of a merchant."""

from typing import Final

from starlette.responses import Response

from opentill import mail
from opentill.dashboard import page_helpers
from opentill.portal import mail_preview
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest


async def _find(request: PageRequest) -> mail.Mail:
    """Find the mail in the path. Raises NotFound."""
    async with request.app.db.connection() as tx:
        return await mail.find(tx, request.merchant_id, request.ids["mail"])


async def show_mail(request: PageRequest) -> Response:
    """Show a mail: its result, and its text. Raises NotFound."""
    row = await _find(request)
    return await mail_preview.page(request, row, page_helpers.zone_of(request))


async def show_frame(request: PageRequest) -> Response:
    """Return the HTML of a mail, for the frame of its page. Raises NotFound."""
    return await mail_preview.frame(request, await _find(request))


_PLACE: Final = f"{DASHBOARD_PATH}/mails/{{mail:id}}"
pages: Final = (
    Page("GET", _PLACE, "mails.read", show_mail),
    Page("GET", f"{_PLACE}/html", "mails.read", show_frame),
)
