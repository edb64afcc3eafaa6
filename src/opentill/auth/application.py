"""``/apply``: anybody asks to become a merchant, where the operator lets them (decision 0083)."""

from typing import Final

import msgspec
from starlette.responses import Response

from opentill import merchants, people
from opentill.core.errors import Invalid, NotFound, TooManyRequests
from opentill.core.money import EXPONENTS
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.merchants import ApplicationForm
from opentill.portal import render
from opentill.portal.labels import APPLICATION_ERROR
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_A_MINUTE: Final = 5  # of an address
_PATH: Final = "/apply"
_FIELDS: Final = ApplicationForm.__struct_fields__
_NOTHING: Final = ApplicationForm(
    merchant="", currency="USD", name="", email="", website="", business=""
)


def _check_open(request: PageRequest) -> None:
    """Raise NotFound unless the operator takes applications."""
    if not request.app.settings.applications:
        raise NotFound


async def show(request: PageRequest) -> Response:
    """Show the form, or that an application was taken."""
    _check_open(request)
    if request.query.get("sent"):
        return render.page(request, "applied.html")
    return _form(request, _NOTHING)


def _form(
    request: PageRequest,
    typed: ApplicationForm,
    status: int = 200,
    errors: dict[str, str] | None = None,
    wait_s: int = 0,
) -> Response:
    currencies = [(code, request.localizer.currency(code)) for code in sorted(EXPONENTS)]
    return render.page(
        request,
        "apply.html",
        status,
        {"retry-after": str(wait_s)} if wait_s else None,
        typed=typed,
        currencies=currencies,
        longest=merchants.LONGEST_OF_APPLICATION,
        errors=errors or {},
        wait=request.localizer.duration(wait_s * 1000) if wait_s else "",
    )


async def send(request: PageRequest) -> Response:
    """Take an application; whoever sends it learns nothing else."""
    _check_open(request)
    form = await request.form()
    typed = ApplicationForm(
        **{name: form.get(name, "").replace("\r\n", "\n").strip() for name in _FIELDS}
    )
    errors = _errors(typed)
    if errors:
        return _form(request, typed, 400, errors)
    subject = people.limit_subject(request.browser.address)

    async def work(tx: Tx) -> None:
        if await rate_limits.hit(tx, "apply", subject, _A_MINUTE, request.now) is None:
            wait = await rate_limits.retry_after_s(tx, "apply", subject, request.now)
            raise TooManyRequests(_A_MINUTE, wait)
        await merchants.apply(tx, typed, request.now, address=request.browser.address)

    try:
        await request.app.db.run(work)
    except TooManyRequests as problem:
        return _form(
            request,
            typed,
            429,
            {"merchant": N_("Too many applications are being sent. Try again in {wait}")},
            problem.retry_after_s,
        )
    return render.see_other(request, f"{_PATH}?sent=1")


def _errors(typed: ApplicationForm) -> dict[str, str]:
    """Return a text for each field that is wrong."""
    errors: dict[str, str] = {}
    for name in _FIELDS:
        only = msgspec.structs.replace(_FINE, **{name: getattr(typed, name)})
        try:
            merchants.check_application(only)
        except Invalid:
            errors[name] = APPLICATION_ERROR[name]
    return errors


_FINE: Final = msgspec.structs.replace(
    _NOTHING, merchant="x", name="x", email="x@example.com", business="x"
)
pages: Final = (
    Page("GET", _PATH, "anyone", show),
    Page("POST", _PATH, "anyone", send),
)
