"""The public pages: the front page and the agreement."""

import re
from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill import agreement, context, gateways
from opentill.context import App
from opentill.core.links import safe_url
from opentill.core.settings import Settings
from opentill.gateways.model import Method
from opentill.pages import model, render, responses
from opentill.pages.payment_page import PageRequest
from opentill.pages.render import ENVIRONMENT
from opentill.web import assets, templates
from opentill.web.markdown import markdown, with_contents
from opentill.web.responses import GUARDS, POLICY
from opentill.web.translations import N_

_CURRENCIES: Final = ("USD", "EUR", "GBP", "CNY", "HKD", "JPY", "SGD")
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+", re.ASCII)
_PUBLIC: Final[Mapping[str, str]] = {
    **GUARDS,
    "cache-control": "no-cache",
    "content-security-policy": POLICY.format(picture=""),
}


async def front_page(request: Request) -> Response:
    """Show what the service is for, how customers pay, and who operates it."""
    visitor = PageRequest(request.scope, request.receive)
    app = context.app_of(request.scope)
    visit = visitor.visit()
    html = render.front_page(
        visit,
        agreement.PAGE_PATH,
        operator_of(app.settings),
        _methods(app),
        takes_applications=app.settings.applications,
    )
    response = responses.page(html, visit.localizer.language)
    return visitor.remember_language(response)


def operator_of(settings: Settings) -> model.Operator:
    """Return who operates the deployment; an example contact is left out."""
    contact = settings.public_contact
    address = f"mailto:{contact}" if _EMAIL.fullmatch(contact) else ""
    url = contact if safe_url(contact) else address
    return model.Operator(settings.operator_name, settings.operator_address, contact, url)


def _methods(app: App) -> tuple[Method, ...]:
    """Return the methods that are offered in some common currency."""
    offered = {
        method
        for currency in _CURRENCIES
        for method in gateways.offered_methods(app.gateways, currency)
    }
    return tuple(method for method in model.METHODS if method in offered)


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
