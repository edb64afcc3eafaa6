"""The table of all pages for people who log in, and their routes."""

import re
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
_SHOWN: Final = {re.sub(r"{[^}]+}", "*", one.path) for one in PAGES if one.method == "GET"}


def _has_page(below: str) -> bool:
    """Return whether there is a page at a path below a merchant's, in which * stands for an id."""
    return f"/dashboard/*{below}" in _SHOWN


render.ENVIRONMENT.globals["has_page"] = _has_page
_NO_PAGE: Final = Endpoint(())
routes: Final = (*routing.of_rows(PAGES, Endpoint), Route("/dashboard/{rest:path}", _NO_PAGE))
