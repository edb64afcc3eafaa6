"""The public pages: the front page and the agreement."""

import re
from collections.abc import Mapping
from html import unescape
from typing import Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill import agreement, context
from opentill.pages import render, responses
from opentill.pages.payment_page import PageRequest
from opentill.pages.render import ENVIRONMENT
from opentill.web import assets, templates
from opentill.web.markdown import markdown
from opentill.web.responses import GUARDS, POLICY
from opentill.web.translations import N_

_TAG: Final = re.compile(r"<[^>]*>")
_HEADING: Final = re.compile(r"<h2>(.*?)</h2>", re.DOTALL)
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
    content, contents = _with_contents(markdown(current.markdown_content))
    title, end, text = content.partition("</h1>")
    values = {
        "agreement": current,
        "title": title + end,
        "content": text,
        "contents": contents,
        "test_mode": _badge(request),
    }
    return _html("agreement.html", _base(request), **values)


def _with_contents(html: Markup) -> tuple[Markup, list[tuple[str, str]]]:
    """Give the headings of a text ids; return them with the titles, which are the contents."""
    contents: list[tuple[str, str]] = []

    def add_id(match: re.Match[str]) -> str:
        heading_id = f"section-{len(contents) + 1}"
        contents.append((heading_id, unescape(_TAG.sub("", match[1]))))
        return f'<h2 id="{heading_id}">{match[1]}</h2>'

    return Markup(_HEADING.sub(add_id, html)), contents  # noqa: S704 - rendered Markdown


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
