"""The start page for developers, with links to keys, endpoints, refused requests and Epay."""

from typing import Final

from starlette.responses import Response

from opentill.people import Permission
from opentill.portal import render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

PLACE: Final = f"{DASHBOARD_PATH}/developers"
# The pages below this one, and the permission that each needs.
_PAGES: Final[tuple[tuple[str, Permission], ...]] = (
    ("keys", "keys.read"),
    ("webhooks", "endpoints.read"),
    ("events", "events.read"),
    ("requests", "requests.read"),
    ("epay", "epay.read"),
)


async def show(request: PageRequest) -> Response:
    """Show links to the pages that this person may see."""
    names = [name for name, permission in _PAGES if request.access.may(permission)]
    return render.page(request, "developers.html", names=names)


# Every role that may see one of the pages has this permission too.
pages: Final = (
    Page("GET", PLACE, "endpoints.read", show, menu=N_("Developers"), group="developers"),
)
