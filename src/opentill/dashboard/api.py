"""The table of all pages for people who log in, and their routes."""

from typing import Final

from starlette.routing import Route

from opentill.dashboard import account, home, invitations, render, security, team
from opentill.dashboard.endpoint import Endpoint
from opentill.dashboard.model import Page
from opentill.http import routing

# The menu has the order of this table.
PAGES: Final[tuple[Page, ...]] = (
    *home.pages,
    *team.pages,
    *security.pages,
    *account.pages,
    *invitations.pages,
)


render.ENVIRONMENT.globals["menu"] = lambda request: render.menu(PAGES, request)
_NO_PAGE: Final = Endpoint(())
routes: Final = (*routing.of_rows(PAGES, Endpoint), Route("/dashboard/{rest:path}", _NO_PAGE))
