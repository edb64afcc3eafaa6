"""The routes of all pages for people."""

from typing import Final

from opentill.pages import payment_page, site

routes: Final = (*payment_page.routes, *site.routes)
