"""The page of an Epay submission that was refused, for a customer's browser."""

from opentill.core.settings import Settings
from opentill.pages import language, render, responses
from opentill.pages.responses import PageResponse


def submission_refused(
    settings: Settings, accept_language: str, now: int, code: int, message: str
) -> PageResponse:
    """Show code and message of a refusal, as other clients get them in JSON, with HTTP 200.

    Customers of the Epay door are spoken to in Chinese, unless their browser says otherwise; the
    message is in Chinese, for the shop.
    """
    tongue = language.choose(None, accept_language, "zh-Hans")
    visit = render.Visit(
        tongue=tongue, now=now, public_url=settings.public_url, test_mode=not settings.livemode
    )
    return responses.page(render.refusal_page(visit, code, message), tongue.language)
