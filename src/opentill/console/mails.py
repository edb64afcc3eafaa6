"""The emails to merchants, customers and staff, with their results."""

import re
from typing import Final

from starlette.responses import Response

from opentill import mail, merchants, people
from opentill.console.zone import ZONE
from opentill.core.ids import is_id
from opentill.mail import LAST_CHANGE, LastChange, Mail
from opentill.portal import lists, mail_preview, render
from opentill.portal.labels import MAIL_STATUS
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_PLACE_OF_ROW: Final = re.compile(r"([0-9]{1,16})-([0-9a-z_]{1,40})")


async def list_mails(request: PageRequest) -> Response:
    """List the mails of all merchants and staff, last changed first."""
    chosen = lists.choice(request, "status", mail.STATUSES)
    async with request.app.db.connection() as tx:
        rows = await mail.list_newest(tx, None, chosen, lists.SIZE + 1, before=_before(request))
        page = rows[: lists.SIZE]
        names = await merchants.names(tx, (row.merchant_id for row in page if row.merchant_id))
    return render.page(
        request,
        "mails.html",
        mails=page,
        names=names,
        before=_row_place(page[-1]) if len(rows) > lists.SIZE else "",
        options=[(name, request.localizer.gettext(MAIL_STATUS[name])) for name in mail.STATUSES],
        chosen=chosen,
        sends_mail=request.app.settings.sends_mail,
        zone=ZONE,
    )


async def _find(request: PageRequest) -> Mail:
    """Find the mail in the path, and record the visit of its merchant. Raises NotFound."""
    async with request.app.db.connection() as tx:
        row = await mail.find_anywhere(tx, request.ids["mail"])
    if row.merchant_id:
        await people.visit(request.app.db, request.login, row.merchant_id, request.now)
    return row


async def show_mail(request: PageRequest) -> Response:
    """Show a mail: its result, and its text. Raises NotFound."""
    row = await _find(request)
    async with request.app.db.connection() as tx:
        names = await merchants.names(tx, [row.merchant_id] if row.merchant_id else [])
    return await mail_preview.page(request, row, ZONE, merchant_name=names.get(row.merchant_id, ""))


async def show_frame(request: PageRequest) -> Response:
    """Return the HTML of a mail, for the frame of its page. Raises NotFound."""
    return await mail_preview.frame(request, await _find(request))


def _row_place(row: Mail) -> str:
    return f"{row.updated_at}-{row.id}"


def _before(request: PageRequest) -> LastChange:
    """Return the place of the last row of the previous page."""
    match = _PLACE_OF_ROW.fullmatch(request.query.get("before", ""))
    if match is None or not is_id(match[2]):
        return LAST_CHANGE
    return LastChange(int(match[1]), match[2])


_PLACE: Final = f"{CONSOLE_PATH}/mails"
pages: Final = (
    Page(
        "GET",
        _PLACE,
        "mails.read",
        list_mails,
        menu=N_("Emails"),
        group="system",
    ),
    Page("GET", f"{_PLACE}/{{mail:id}}", "mails.read", show_mail),
    Page("GET", f"{_PLACE}/{{mail:id}}/html", "mails.read", show_frame),
)
