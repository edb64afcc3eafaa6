"""The table of the pages that dashboard and console share: logging in, links, one's own account.

And the one on which anybody applies to become a merchant.
"""

from pathlib import Path
from typing import Final

from opentill.auth import application, forgotten_password, invitations, login, security
from opentill.portal import endpoint
from opentill.portal.model import Page
from opentill.portal.portal import Portal

PAGES: Final[tuple[Page, ...]] = (
    *security.pages,
    *login.pages,
    *forgotten_password.pages,
    *invitations.pages,
    *application.pages,
)
PORTAL: Final = Portal(PAGES, "/security", Path(__file__).parent / "templates")
routes: Final = endpoint.routes(PORTAL)
