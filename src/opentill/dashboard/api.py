"""The table of all pages of a merchant's dashboard, and their routes."""

from pathlib import Path
from typing import Final

from opentill.backoffice import endpoint
from opentill.backoffice.faces import Face
from opentill.backoffice.model import OF_MERCHANT, Page
from opentill.dashboard import (
    agreement,
    balance,
    bank_account,
    customers,
    developers,
    disputes,
    epay,
    events,
    home,
    keys,
    labels,
    links,
    mails,
    payment,
    payments_list,
    payouts,
    products,
    requests,
    sessions,
    settings,
    team,
    webhook,
    webhooks,
)

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
    *bank_account.pages,
    *developers.pages,
    *keys.pages,
    *webhooks.pages,
    *webhook.pages,
    *events.pages,
    *requests.pages,
    *epay.pages,
    *mails.pages,
    *settings.pages,
    *agreement.pages,
    *team.pages,
)

FACE: Final = Face(PAGES, OF_MERCHANT, Path(__file__).parent / "templates", (labels,))
routes: Final = endpoint.routes(FACE, "/dashboard")
