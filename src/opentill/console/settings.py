"""The page of the deployment's settings. Secrets are masked."""

from typing import Final

from starlette.responses import Response

from opentill.gateways.masked_settings import masked_rows
from opentill.portal import render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_


async def show_settings(request: PageRequest) -> Response:
    """Show each setting with its value and its description."""
    return render.page(request, "settings.html", settings=masked_rows(request.app.settings))


pages: Final = (
    Page(
        "GET",
        f"{CONSOLE_PATH}/settings",
        "deployment.read",
        show_settings,
        menu=N_("Settings"),
        group="system",
    ),
)
