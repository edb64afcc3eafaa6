"""All merchants, found by a part of their name or by their id."""

from typing import Final

from starlette.responses import Response

from opentill import merchants
from opentill.backoffice import lists, render
from opentill.backoffice.lists import Pager
from opentill.backoffice.model import OF_CONSOLE, Page
from opentill.backoffice.request import PageRequest
from opentill.console.zone import ZONE


async def show(request: PageRequest) -> Response:
    """List merchants, newest first."""
    text, number = lists.text(request, "query"), lists.page_number(request)
    async with request.app.db.connection() as tx:
        found, total = await merchants.search(tx, text, number, lists.SIZE)
    if total == 1 and found and found[0].id == text:
        return render.see_other(request, f"{PLACE}/{text}")
    return render.page(
        request,
        "merchants.html",
        text=text,
        merchants=found,
        pager=Pager(number, total),
        zone=ZONE,
    )


PLACE: Final = f"{OF_CONSOLE}/merchants"
pages: Final = (Page("GET", PLACE, "merchants.read", show, menu="menu_merchants"),)
