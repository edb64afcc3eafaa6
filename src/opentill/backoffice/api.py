"""The table of the pages that dashboard and console share: logging in, links, one's own account."""

from typing import Final

from opentill.backoffice import account, endpoint, forgotten, invitations, security
from opentill.backoffice.faces import Face
from opentill.backoffice.model import Page

PAGES: Final[tuple[Page, ...]] = (
    *security.pages,
    *account.pages,
    *forgotten.pages,
    *invitations.pages,
)
FACE: Final = Face(PAGES, "/security")
routes: Final = endpoint.routes(FACE)
