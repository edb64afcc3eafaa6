"""The table of all pages for people who log in, and their routes."""

import re
from typing import Any, Final, cast

from starlette.routing import Route

from opentill.dashboard import (
    account,
    agreement,
    balance,
    customers,
    developers,
    disputes,
    epay,
    events,
    home,
    invitations,
    keys,
    links,
    payment,
    payments_list,
    payouts,
    products,
    render,
    requests,
    security,
    sessions,
    settings,
    team,
    webhook,
    webhooks,
)
from opentill.dashboard.endpoint import Endpoint
from opentill.dashboard.model import MenuItem, Page
from opentill.dashboard.request import PageRequest
from opentill.http import routing

# The menu has the order of this table.
PAGES: Final[tuple[Page, ...]] = (
    *home.pages,
    *payments_list.pages,
    *payment.pages,
    *customers.pages,
    *products.pages,
    *sessions.pages,
    *links.pages,
    *disputes.pages,
    *balance.pages,
    *payouts.pages,
    *developers.pages,
    *keys.pages,
    *webhooks.pages,
    *webhook.pages,
    *events.pages,
    *requests.pages,
    *epay.pages,
    *settings.pages,
    *agreement.pages,
    *team.pages,
    *security.pages,
    *account.pages,
    *invitations.pages,
)


def _menu(request: PageRequest) -> list[MenuItem]:
    """Return the menu of the page that is asked for."""
    return render.menu(PAGES, request)


render.SHOWN.update(re.sub(r"{[^}]+}", "*", one.path) for one in PAGES if one.method == "GET")
# Jinja2 takes anything here, but type checkers infer the values of its own defaults.
_GLOBALS: Final = cast("dict[str, Any]", render.ENVIRONMENT.globals)
_GLOBALS.update(menu=_menu, has_page=render.has_page)
_NO_PAGE: Final = Endpoint(())
routes: Final = (*routing.of_rows(PAGES, Endpoint), Route("/dashboard/{rest:path}", _NO_PAGE))
