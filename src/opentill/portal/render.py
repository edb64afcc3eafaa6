"""Responses with pages, rendered from templates."""

from collections.abc import Mapping, Sequence

from starlette.responses import Response

from opentill.core.errors import NotPermitted
from opentill.portal import menu
from opentill.portal.request import PageRequest
from opentill.web import assets, language, responses, templates


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

    ``scripts``: it runs our scripts; pages with the search box always do. ``picture_origins``:
    other origins of its pictures. ``live``: it updates itself (decision 0068).
    """
    html = fragment(request, template, **values)
    return responses.page(
        html,
        request.localizer.language,
        status,
        headers,
        picture_origins=picture_origins,
        scripts=scripts or bool(request.search_path),
        live=live,
    )


def fragment(request: PageRequest, template: str, **values: object) -> str:
    """Render a template as text."""
    localizer = request.localizer
    return request.portal.environment.get_template(template).render(
        request=request,
        menu=menu.sections,
        localizer=localizer,
        languages=language.names("merchant"),
        now=request.now,
        asset=assets.finder(request.base),
        base=request.base,
        isolated=templates.isolated,
        test_mode=not request.app.settings.livemode,
        **localizer.functions,
        **{"errors": {}, "refresh": None, "dialog": None, **values},
    )


def see_other(request: PageRequest, path: str) -> Response:
    """Redirect to a page of this site; ``path`` does not contain the base."""
    return responses.see_other(request.base + path)


def error_page(error: Exception, request: PageRequest) -> Response:
    """Render the page of a problem; other exceptions are defects, and logged."""
    status, headers = responses.error_headers(error)
    is_forbidden = status == NotPermitted.status
    name = "forbidden" if is_forbidden else responses.TROUBLES.get(status, "refused")
    if name == "missing" and "token" in request.ids:
        return page(request, "error.html", status, headers, error="missing_link")
    return page(request, "error.html", status, headers, error=name)
