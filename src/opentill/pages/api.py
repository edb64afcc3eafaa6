"""The routes of customers' and public pages."""

from typing import Final

from opentill.pages import branding, link_page, payment_page, receipt, site

routes: Final = (
    *payment_page.routes,
    *receipt.routes,
    *link_page.routes,
    *branding.routes,
    *site.routes,
)
