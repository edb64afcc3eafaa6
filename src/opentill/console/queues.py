"""What is due for the worker, how much of it and for how long; and what it has put aside."""

from typing import Final

from markupsafe import Markup
from starlette.responses import Response

from opentill import mail, merchants, queues
from opentill.console.zone import ZONE
from opentill.portal import render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

LATE_MS: Final = 300_000  # as the alert OpenTillQueueLate in deploy/prometheus/alerts.yml
_ASIDE: Final = 50  # events put aside that are listed
_REREAD: Final = Markup("<code>opentill mail reread</code>")


async def show(request: PageRequest) -> Response:
    """List every queue with how much waits and how long the oldest has been due.

    Below: what no mail could be made of, if there is anything.
    """
    localizer = request.localizer
    found = await queues.read(request.app.db, request.now)
    async with request.app.db.connection() as tx:
        aside = await mail.events_put_aside(tx, _ASIDE)
        names = await merchants.names(tx, (one.merchant_id for one in aside if one.merchant_id))

    def number(waiting: int) -> str:
        return localizer.number(waiting) + ("+" if waiting >= queues.MOST else "")

    return render.page(
        request,
        "queues.html",
        rows=[(one, number(one.waiting)) for one in found],
        late=LATE_MS,
        most=localizer.number(queues.MOST),
        aside=aside,
        aside_most=_ASIDE,
        reread=_REREAD,
        names=names,
        zone=ZONE,
    )


pages: Final = (Page("GET", f"{CONSOLE_PATH}/queues", "deployment.read", show, menu=N_("Queues")),)
