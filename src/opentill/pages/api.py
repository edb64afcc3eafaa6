"""All handlers for people: ``routes`` is what the application mounts.

The application puts ``state.app`` (``context.App``) and ``state.openapi`` (the OpenAPI document,
as a mapping or JSON bytes) in place before the first request.
"""

from typing import Any, Final

from opentill.pages import hosted, site

routes: Final[list[Any]] = [*hosted.routes, *site.routes]
