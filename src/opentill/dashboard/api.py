"""The table of all pages for people who log in, and their routes."""

from itertools import groupby
from operator import attrgetter
from typing import Final

from starlette.routing import Route

from opentill.dashboard import account, home, invitations, render
from opentill.dashboard.endpoint import Endpoint
from opentill.dashboard.model import Page

# The menu has the order of this table.
PAGES: Final[tuple[Page, ...]] = (*home.pages, *account.pages, *invitations.pages)


def _routes() -> tuple[Route, ...]:
    by_path = attrgetter("path")
    return tuple(
        Route(path, Endpoint(list(rows)))
        for path, rows in groupby(sorted(PAGES, key=by_path), by_path)
    )


render.ENVIRONMENT.globals["menu"] = lambda request: render.menu(PAGES, request)
_NO_PAGE: Final = Endpoint(())
routes: Final = (*_routes(), Route("/dashboard/{rest:path}", _NO_PAGE))
