"""The page that leads to what developers need: keys, endpoints, refused requests, Epay."""

from typing import Final

from starlette.responses import Response

from opentill.people import Permission
from opentill.portal import render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

PLACE: Final = f"{DASHBOARD_PATH}/developers"
# The pages below this one, and who sees them.
_PARTS: Final[tuple[tuple[str, Permission], ...]] = (
    ("keys", "keys.read"),
    ("webhooks", "endpoints.read"),
    ("events", "events.read"),
    ("requests", "requests.read"),
    ("epay", "epay.read"),
)


async def show(request: PageRequest) -> Response:
    """Show the parts that this person may see."""
    found = [name for name, permission in _PARTS if request.access.may(permission)]
    return render.page(request, "developers.html", found=found)


# Whoever sees any of the parts sees this one: support has the endpoints.
pages: Final = (Page("GET", PLACE, "endpoints.read", show, menu=N_("Developers")),)
