"""Responses with pages, rendered from templates."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC
from functools import lru_cache, partial
from typing import Final

from jinja2 import Environment
from markupsafe import Markup
from starlette.responses import Response

from opentill.core import times
from opentill.core.errors import NotPermitted
from opentill.core.languages import Area, Language
from opentill.portal import labels, menu
from opentill.portal.menu import MenuSection
from opentill.portal.request import PageRequest
from opentill.web import assets, language, responses, templates
from opentill.web.forms import IncompleteForm
from opentill.web.language import Localizer

# A segment of a path that was meant as an id, though a part of it may be missing.
_LIKE_ID: Final = re.compile(r"[a-z]{2,5}_\w{1,60}", re.ASCII)


def page(
    request: PageRequest,
    template: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    scripts: bool = False,
    picture_origins: Sequence[str] = (),
    live: bool = False,
    **values: object,
) -> Response:
    """Render a page with the values of its template.

    ``scripts``: it runs our scripts. ``picture_origins``: other origins of its pictures. ``live``:
    it updates itself (decision 0068), as the suggestions of the search box do on every page.
    """
    html = fragment(request, template, **values)
    return responses.page(
        html,
        request.localizer.language,
        status,
        headers,
        picture_origins=picture_origins,
        scripts=scripts,
        live=live or bool(request.search_path),
    )


def fragment(request: PageRequest, template: str, **values: object) -> str:
    """Render a template as text."""
    localizer = request.localizer
    return request.portal.environment.get_template(template).render(
        request=request,
        menu=menu.sections,
        create_menu=menu.creations,
        menu_links=partial(_menu_links, request),
        localizer=localizer,
        languages=language.names("merchant"),
        now=request.now,
        today=times.moment(request.now).date(),
        utc=UTC,
        when=partial(localizer.time_element, now=request.now),
        ago=partial(localizer.time_element, now=request.now, relative=True),
        asset=assets.finder(request.base),
        base=request.base,
        isolated=templates.isolated,
        test_mode=not request.app.settings.livemode,
        **localizer.functions,
        **{"errors": {}, "refresh": None, "dialog": None, "account_menu": None, **values},
    )


def _menu_links(request: PageRequest, sections: Sequence[MenuSection]) -> Markup:
    localizer = request.localizer
    environment = request.portal.environment
    return _render_menu(environment, localizer.area, localizer.language, tuple(sections))


@lru_cache(maxsize=512)
def _render_menu(
    environment: Environment, area: Area, language: Language, sections: tuple[MenuSection, ...]
) -> Markup:
    """Render the links of a menu, which every page has and which seldom change."""
    functions = Localizer(area, language).functions
    html = environment.get_template("menu.html").render(sections=sections, **functions)
    return Markup(html)  # noqa: S704 - our own template has escaped it


def see_other(request: PageRequest, path: str) -> Response:
    """Redirect to a page of this site; ``path`` does not contain the base."""
    return responses.see_other(request.base + path)


def error_page(error: Exception, request: PageRequest, owners: Sequence[str] = ()) -> Response:
    """Render the page of a problem; other exceptions are defects, and logged.

    ``owners``: the names of the people who can give the reader another role.
    """
    status, headers = responses.error_headers(error)
    is_forbidden = status == NotPermitted.status
    name: str = "forbidden" if is_forbidden else responses.TROUBLES.get(status, "refused")
    missing_field = error.field if isinstance(error, IncompleteForm) else ""
    if name == "missing" and "token" in request.ids:
        name = "missing_link"
    if not request.has_frame or name not in {"missing", "forbidden", "refused"}:
        return page(request, "error.html", status, headers, error=name, missing_field=missing_field)
    above = menu.nearest(request)
    title, missing_id = labels.ERROR_TITLE[name], ""
    if name == "missing" and above is not None:
        list_path = above.href.rstrip("/")
        below = f"{request.base}{request.path}".removeprefix(list_path).strip("/")
        if _LIKE_ID.fullmatch(below.partition("/")[0]):
            missing_id = below.partition("/")[0]
            title = labels.MISSING_OBJECT.get(list_path.rpartition("/")[2], title)
    return page(
        request,
        "error_in_frame.html",
        status,
        headers,
        error=name,
        missing_field=missing_field,
        error_title=title,
        missing_id=missing_id,
        above=above,
        owners=owners,
    )
