"""The settings of the deployment as they are; what is secret is not shown."""

from typing import Final

from starlette.responses import Response

from opentill.gateways.masked_settings import masked_rows
from opentill.portal import render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_


async def show(request: PageRequest) -> Response:
    """Show every setting, its value here, and what it does."""
    return render.page(request, "settings.html", settings=masked_rows(request.app.settings))


pages: Final = (
    Page("GET", f"{CONSOLE_PATH}/settings", "deployment.read", show, menu=N_("Settings")),
)
