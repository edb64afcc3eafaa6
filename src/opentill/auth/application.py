"""``/apply``: anybody may apply to become a merchant, if the operator allows it (decision 0083)."""

from typing import Final

import msgspec
from starlette.responses import Response

from opentill import mail, merchants, people
from opentill.core.errors import Invalid, NotFound, TooManyRequests
from opentill.core.money import EXPONENTS
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.merchants import ApplicationForm
from opentill.portal import render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_PER_MINUTE: Final = 5  # at most this many applications a minute are accepted from one IP address
_PATH: Final = "/apply"
_FIELDS: Final = ApplicationForm.__struct_fields__
_ERRORS: Final = {
    "merchant": N_("Enter the name of the shop: up to 200 characters on one line"),
    "website": N_("Enter a whole address such as https://shop.example.com, or nothing"),
    "business": N_("Describe what you sell in up to 2,000 characters"),
    "currency": N_("Choose a currency of the list"),
    "name": N_("Enter your name: up to 200 characters on one line"),
    "email": N_("Enter an email address such as ada@example.com"),
}
_EMPTY: Final = ApplicationForm(
    merchant="", currency="USD", name="", email="", website="", business=""
)


def _check_open(request: PageRequest) -> None:
    """Raise NotFound unless the operator accepts applications."""
    if not request.app.settings.applications:
        raise NotFound


async def show(request: PageRequest) -> Response:
    """Show the form or, after it was sent, that the application was received."""
    _check_open(request)
    if request.query.get("sent"):
        return render.page(request, "applied.html")
    return _render_form(request, _EMPTY)


def _render_form(
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
    """Store an application and mail a confirmation.

    The response does not show whether the person is known.
    """
    _check_open(request)
    form = await request.form()
    typed = ApplicationForm(
        **{name: form.get(name, "").replace("\r\n", "\n").strip() for name in _FIELDS}
    )
    errors = _find_errors(typed)
    if errors:
        return _render_form(request, typed, 400, errors)
    subject = people.limit_subject(request.browser.address)

    async def work(tx: Tx) -> None:
        if await rate_limits.hit(tx, "apply", subject, _PER_MINUTE, request.now) is None:
            wait = await rate_limits.retry_after_s(tx, "apply", subject, request.now)
            raise TooManyRequests(_PER_MINUTE, wait)
        merchant_id = await merchants.apply(tx, typed, request.now, address=request.browser.address)
        await mail.confirm_application(
            tx,
            request.app.settings,
            merchant_id,
            typed.merchant,
            typed.email,
            request.localizer.language,
            request.now,
        )

    try:
        await request.app.db.run(work)
    except TooManyRequests as problem:
        return _render_form(
            request,
            typed,
            429,
            {"merchant": N_("Too many applications are being sent. Try again in {wait}")},
            problem.retry_after_s,
        )
    return render.see_other(request, f"{_PATH}?sent=1")


def _find_errors(typed: ApplicationForm) -> dict[str, str]:
    """Return a text for each invalid field."""
    errors: dict[str, str] = {}
    for name in _FIELDS:
        tested = msgspec.structs.replace(_VALID, **{name: getattr(typed, name)})
        try:
            merchants.check_application(tested)
        except Invalid:
            errors[name] = _ERRORS[name]
    return errors


_VALID: Final = msgspec.structs.replace(
    _EMPTY, merchant="x", name="x", email="x@example.com", business="x"
)
pages: Final = (
    Page("GET", _PATH, "anyone", show),
    Page("POST", _PATH, "anyone", send),
)
