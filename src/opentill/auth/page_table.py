"""The table of this portal's pages: login, mailed links, security settings and applications."""

from pathlib import Path
from typing import Final

from opentill.auth import application, forgotten_password, invitations, login, security
from opentill.portal import endpoint
from opentill.portal.model import Page
from opentill.portal.portal import Portal
from opentill.portal.request import PageRequest

PAGES: Final[tuple[Page[PageRequest], ...]] = (
    *security.pages,
    *login.pages,
    *forgotten_password.pages,
    *invitations.pages,
    *application.pages,
)
PORTAL: Final = Portal(PAGES, "/security", Path(__file__).parent / "templates")
routes: Final = endpoint.routes(PORTAL)
