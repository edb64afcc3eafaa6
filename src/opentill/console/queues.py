"""What is due for the worker, how much of it and for how long."""

from typing import Final

from starlette.responses import Response

from opentill import queues
from opentill.backoffice import render
from opentill.backoffice.model import OF_CONSOLE, Page
from opentill.backoffice.request import PageRequest

LATE_MS: Final = 300_000  # as the alert OpenTillQueueLate in deploy/prometheus/alerts.yml


async def show(request: PageRequest) -> Response:
    """List every queue with how much waits and how long the oldest has been due."""
    localizer = request.localizer
    found = await queues.read(request.app.db, request.now)

    def number(waiting: int) -> str:
        return localizer.number(waiting) + ("+" if waiting >= queues.MOST else "")

    return render.page(
        request,
        "queues.html",
        rows=[(one, number(one.waiting)) for one in found],
        late=LATE_MS,
        most=localizer.number(queues.MOST),
    )


pages: Final = (Page("GET", f"{OF_CONSOLE}/queues", "deployment.read", show, menu="menu_queues"),)
