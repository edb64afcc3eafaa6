"""The pages for a forgotten password, which mail a link for choosing a new one.

They exist only if there is a mail server. The response and its duration are the same for every
address, known or not: the address is looked up when the mail is written.
"""

from typing import Final

from starlette.responses import Response

from opentill import mail, people
from opentill.core.errors import Invalid, NotFound, TooManyRequests
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.portal import login_cookies, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_PER_MINUTE: Final = 5  # at most this many requests a minute are accepted from one IP address


async def show(request: PageRequest) -> Response:
    """Show the form. Raises NotFound without a mail server."""
    _check_mail(request)
    return render.page(request, "forgotten.html", email="")


def _check_mail(request: PageRequest) -> None:
    if not request.app.settings.sends_mail:
        raise NotFound


async def _count(tx: Tx, subject: str, now: int) -> None:
    """Count a request against the limit of its IP address. Raises TooManyRequests."""
    if await rate_limits.hit(tx, "forgotten", subject, _PER_MINUTE, now) is None:
        wait = await rate_limits.retry_after_s(tx, "forgotten", subject, now)
        raise TooManyRequests(_PER_MINUTE, wait)


async def request_link(request: PageRequest) -> Response:
    """Request the mail with the link; it is sent only if a person has the email address."""
    _check_mail(request)
    form = await request.form()
    email = form.get("email", "")
    subject = people.limit_subject(request.browser.address)
    # A browser in which the person has logged in is not limited, so that others behind the same IP
    # address cannot lock it out.
    is_known_browser = login_cookies.has_logged_in(
        request.app.settings, request.headers, people.normalize_email(email)
    )

    async def work(tx: Tx) -> None:
        if not is_known_browser:
            await _count(tx, subject, request.now)
        language = request.localizer.language
        await mail.request_new_password(tx, request.app.settings, email, language, request.now)

    try:
        await request.app.db.run(work)
    except Invalid:
        return render.page(
            request,
            "forgotten.html",
            400,
            email=email,
            errors={"email": N_("Enter an email address such as name@example.com")},
        )
    return render.see_other(request, "/forgot?sent=1")


pages: Final = (
    Page("GET", "/forgot", "anyone", show),
    Page("POST", "/forgot", "anyone", request_link),
)
