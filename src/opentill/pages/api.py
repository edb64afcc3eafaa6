"""The routes of all pages for people."""

from typing import Final

from opentill.pages import branding, payment_page, receipt, site

routes: Final = (*payment_page.routes, *receipt.routes, *branding.routes, *site.routes)
