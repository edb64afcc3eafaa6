"""The table of the pages that dashboard and console share: logging in, links, one's own account.

And the one on which anybody applies to become a merchant.
"""

from typing import Final

from opentill.backoffice import account, apply, endpoint, forgotten, invitations, security
from opentill.backoffice.faces import Face
from opentill.backoffice.model import Page

PAGES: Final[tuple[Page, ...]] = (
    *security.pages,
    *account.pages,
    *forgotten.pages,
    *invitations.pages,
    *apply.pages,
)
FACE: Final = Face(PAGES, "/security")
routes: Final = endpoint.routes(FACE)
