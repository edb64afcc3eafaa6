"""Pages out of templates and requests, and the menu out of the table of pages."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import structlog
from jinja2.ext import Extension
from starlette.responses import Response

from opentill.core.errors import MethodNotAllowed, Problem, TooManyRequests, Unavailable
from opentill.dashboard import devices
from opentill.dashboard.model import OF_MERCHANT, MenuItem, Page
from opentill.dashboard.request import SENDER, PageRequest
from opentill.people import Permission
from opentill.web import assets, responses, templates
from opentill.web.catalogue import LANGUAGES

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


def _pretty(json: str) -> str:
    """Return JSON with a line for each value; numbers and strings stay as they are written."""
    return msgspec.json.format(json, indent=2)


class _Senders(Extension):
    """Lets each form say whom it was shown to, so that no other person sends it (kept_forms.py)."""

    _FORM = re.compile(r"<form\b[^>]*\bmethod=\"post\"[^>]*>")
    _FIELD = (
        "{%- if request is defined and request.person %}"
        f'<input type="hidden" name="{SENDER}" value="{{{{ request.person }}}}">'
        "{% endif -%}"
    )

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """Put the field into every form of a template."""
        del name, filename
        return self._FORM.sub(lambda found: found[0] + self._FIELD, source)


ENVIRONMENT: Final = templates.environment(Path(__file__).parent / "templates")
ENVIRONMENT.add_extension(_Senders)
ENVIRONMENT.filters["device"] = devices.name_of
ENVIRONMENT.filters["pretty"] = _pretty
SHOWN: Final[set[str]] = set()  # the paths of all pages, * for an id: api.py, which has them


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
    return ENVIRONMENT.get_template(template).render(
        request=request,
        localizer=localizer,
        say=localizer.say,
        languages=LANGUAGES,
        now=request.now,
        asset=assets.finder(request.base),
        base=request.base,
        isolated=templates.isolated,
        test_mode=not request.app.settings.livemode,
        **{"errors": {}, "refresh": None, **values},
    )


def see_other(request: PageRequest, path: str) -> Response:
    """Send the browser to one of our paths, given without the base."""
    return responses.see_other(request.base + path)


def has_page(below: str) -> bool:
    """Return whether there is a page at a path below a merchant's, in which * stands for an id."""
    return f"/dashboard/*{below}" in SHOWN


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


def menu(pages: tuple[Page, ...], request: PageRequest) -> list[MenuItem]:
    """Return the menu of a merchant's pages: those that this person may see."""
    access = request.known_access
    if access is None:
        return []
    found: list[MenuItem] = []
    for one in pages:
        if not one.menu or one.allowed in {"anyone", "a person"}:
            continue
        permission: Permission = one.allowed  # type: ignore[assignment] # the others are left out
        if access.may(permission):
            below = one.path.removeprefix(OF_MERCHANT)
            path = f"/dashboard/{access.merchant_id}{below}"
            here = request.path.rstrip("/") == path or (
                below != "" and request.path.startswith(f"{path}/")
            )
            href = f"{request.base}{path}" if below else f"{request.base}{path}/"
            found.append(MenuItem(one.menu, href, here))
    return found
