"""The worker's queues with their length and age, and the dead letters of mail."""

from typing import Final

from markupsafe import Markup
from starlette.responses import Response

from opentill import mail, merchants, queues
from opentill.console.zone import ZONE
from opentill.portal import render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

# The threshold of the alert OpenTillQueueLate in deploy/prometheus/alerts.yml.
LATE_MS: Final = 300_000
_MOST_EVENTS: Final = 50  # the list shows at most this many dead letters
_REREAD: Final = Markup("<code>opentill mail reread</code>")


async def show_queues(request: PageRequest) -> Response:
    """List the queues, and below them the events that could not be turned into mail."""
    localizer = request.localizer
    rows = await queues.read(request.app.db, request.now)
    async with request.app.db.connection() as tx:
        events = await mail.list_dead_letters(tx, _MOST_EVENTS)
        names = await merchants.names(tx, (e.merchant_id for e in events if e.merchant_id))

    def write_length(waiting: int) -> str:
        return localizer.number(waiting) + ("+" if waiting >= queues.MOST else "")

    return render.page(
        request,
        "queues.html",
        rows=[(row, write_length(row.waiting)) for row in rows],
        late=LATE_MS,
        late_queues=sum(1 for row in rows if row.age_ms and row.age_ms > LATE_MS),
        events=events,
        most_events=_MOST_EVENTS,
        reread=_REREAD,
        names=names,
        zone=ZONE,
    )


pages: Final = (
    Page(
        "GET",
        f"{CONSOLE_PATH}/queues",
        "deployment.read",
        show_queues,
        menu=N_("Queues"),
        group="system",
    ),
)
