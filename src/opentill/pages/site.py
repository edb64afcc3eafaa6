"""The public pages: the front page and the agreement."""

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill import agreement, context
from opentill.pages import render, responses
from opentill.pages.payment_page import PageRequest
from opentill.pages.render import ENVIRONMENT
from opentill.web import assets, templates
from opentill.web.markdown import markdown, with_contents
from opentill.web.responses import GUARDS, POLICY
from opentill.web.translations import N_

_PUBLIC: Final[Mapping[str, str]] = {
    **GUARDS,
    "cache-control": "no-cache",
    "content-security-policy": POLICY.format(picture=""),
}


async def front_page(request: Request) -> Response:
    """Show what kind of service this is, and nothing about the deployment."""
    visitor = PageRequest(request.scope, request.receive)
    settings = context.app_of(request.scope).settings
    visit = visitor.visit()
    html = render.front_page(visit, agreement.PAGE_PATH, takes_applications=settings.applications)
    response = responses.page(html, visit.localizer.language)
    return visitor.remember_language(response)


async def agreement_page(request: Request) -> Response:
    """Show the merchant services agreement (its ``documentUrl``)."""
    current = agreement.current(context.app_of(request.scope).settings)
    content, contents = with_contents(markdown(current.markdown_content, curly_quotes=True))
    title, end, text = content.partition("</h1>")
    values = {
        "agreement": current,
        "title": title + end,
        "content": text,
        "contents": contents,
        "test_mode": _badge(request),
    }
    return _html("agreement.html", _base(request), **values)


def _html(template: str, base: str, **values: object) -> Response:
    html = ENVIRONMENT.get_template(template).render(asset=assets.finder(base), base=base, **values)
    return Response(html, 200, _PUBLIC, "text/html")


def _badge(request: Request) -> str:
    """Return the text that marks pages of a test deployment, empty in live mode."""
    livemode = context.app_of(request.scope).settings.livemode
    return "" if livemode else N_("Test mode – no real money")


def _base(request: Request) -> str:
    return templates.base_path(context.app_of(request.scope).settings.public_url)


routes: Final = (
    Route("/", front_page),
    Route(agreement.PAGE_PATH, agreement_page),
)
