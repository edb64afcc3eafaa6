"""The routes of all pages for people."""

from typing import Final

from opentill.pages import hosted, site

routes: Final = (*hosted.routes, *site.routes)
