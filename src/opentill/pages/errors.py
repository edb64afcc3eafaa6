"""Error pages for browsers outside the payment page; other clients get the JSON body."""

from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope

from opentill.pages.payment_page import PageRequest
from opentill.pages.responses import trouble

_HTML: Final = b"text/html"


def error_page(scope: Scope, receive: Receive, error: Exception) -> Response | None:
    """Return the page of an error in the reader's language; None if the client is no browser."""
    request = PageRequest(scope, receive)
    if _HTML not in request.headers.get(b"accept", b"").lower():
        return None
    return request.remember_language(trouble(error, request.visit(), None))
