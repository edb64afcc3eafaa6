"""Pages out of templates and requests."""

from collections.abc import Mapping, Sequence
from typing import Final

import structlog
from starlette.responses import Response

from opentill.core.errors import MethodNotAllowed, Problem, TooManyRequests, Unavailable
from opentill.portal.request import PageRequest
from opentill.web import assets, language, responses, templates

_log: Final = structlog.get_logger()
# status → page; what is not listed is "refused"
_TROUBLES: Final[Mapping[int, str]] = {
    403: "forbidden",
    404: "missing",
    429: "busy",
    500: "unavailable",
    503: "unavailable",
}
_RETRY_S: Final = 2


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
    """Return a page for whoever made the request; ``scripts``: it runs some of ours.

    Pictures of the merchant's may come from ``picture_origins``. ``live``: it updates itself
    (decision 0068).
    """
    html = fragment(request, template, **values)
    return responses.page(
        html,
        request.localizer.language,
        status,
        headers,
        picture_origins=picture_origins,
        scripts=scripts,
        live=live,
    )


def fragment(request: PageRequest, template: str, **values: object) -> str:
    """Return what a template makes of a request and some values."""
    localizer = request.localizer
    return request.portal.environment.get_template(template).render(
        request=request,
        localizer=localizer,
        languages=language.names("merchant"),
        now=request.now,
        asset=assets.finder(request.base),
        base=request.base,
        isolated=templates.isolated,
        test_mode=not request.app.settings.livemode,
        **localizer.functions,
        **{"errors": {}, "refresh": None, **values},
    )


def see_other(request: PageRequest, path: str) -> Response:
    """Send the browser to one of our paths, given without the base."""
    return responses.see_other(request.base + path)


def trouble(error: Exception, request: PageRequest) -> Response:
    """Return the page of a problem; any other exception is a defect of ours, and logged."""
    if not isinstance(error, Problem):
        _log.error("internal error", exc_info=error)
    status = error.status if isinstance(error, Problem) else 500
    headers: dict[str, str] = {}
    match error:
        case TooManyRequests():
            headers["retry-after"] = str(error.retry_after_s)
        case Unavailable():
            headers["retry-after"] = str(_RETRY_S)
        case MethodNotAllowed():
            headers["allow"] = error.allow
        case _:
            pass
    name = _TROUBLES.get(status, "refused")
    return page(request, "trouble.html", status, headers, trouble=name)
