"""The page of a refused Epay submission, for a customer's browser."""

from starlette.responses import Response

from opentill.core.settings import Settings
from opentill.pages import render, responses
from opentill.web import language


def submission_refused(
    settings: Settings, accept_language: str, now: int, code: int, message: str
) -> Response:
    """Show code and message of a refusal with HTTP 200; other clients get them as JSON.

    The page is in Chinese unless the browser prefers another language. The message is for the shop
    and always in Chinese.
    """
    localizer = language.choose("customer", None, accept_language, "zh-Hans")
    visit = render.Visit(
        localizer=localizer,
        now=now,
        public_url=settings.public_url,
        test_mode=not settings.livemode,
    )
    return responses.page(render.refusal_page(visit, code, message), localizer.language)
