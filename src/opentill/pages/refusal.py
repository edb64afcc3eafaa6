"""The page of an Epay submission that was refused, for a customer's browser."""

from starlette.responses import Response

from opentill.core.settings import Settings
from opentill.pages import render, responses
from opentill.web import language


def submission_refused(
    settings: Settings, accept_language: str, now: int, code: int, message: str
) -> Response:
    """Show code and message of a refusal, which other clients get in JSON, with HTTP 200.

    The page is in Chinese unless the browser asks for another language; the message, which is for
    the shop, always is.
    """
    localizer = language.choose("customer", None, accept_language, "zh-Hans")
    visit = render.Visit(
        localizer=localizer,
        now=now,
        public_url=settings.public_url,
        test_mode=not settings.livemode,
    )
    return responses.page(render.refusal_page(visit, code, message), localizer.language)
