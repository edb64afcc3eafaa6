"""A forgotten password: where there is a mail server, a link is mailed to whoever asks for it.

What the page says, and how long it takes, is the same for every address: whether anybody logs in
with it is looked up when the message is made.
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

_PER_MINUTE: Final = 5  # of one address


async def show(request: PageRequest) -> Response:
    """Show the form; there is none without a mail server. Raises NotFound."""
    _has_mail(request)
    return render.page(request, "forgotten.html", email="")


def _has_mail(request: PageRequest) -> None:
    if not request.app.settings.sends_mail:
        raise NotFound


async def _count(tx: Tx, subject: str, now: int) -> None:
    """Count a form of an address. Raises TooManyRequests."""
    if await rate_limits.hit(tx, "forgotten", subject, _PER_MINUTE, now) is None:
        wait = await rate_limits.retry_after_s(tx, "forgotten", subject, now)
        raise TooManyRequests(_PER_MINUTE, wait)


async def ask(request: PageRequest) -> Response:
    """Note that somebody wants a link, and say that it is on its way if there is an account."""
    _has_mail(request)
    form = await request.form()
    email = form.get("email", "")
    subject = people.limit_subject(request.browser.address)
    # Others at the same address keep nobody out whose browser has logged in to the account before.
    known = login_cookies.knows(
        request.app.settings, request.headers, people.normalize_email(email)
    )

    async def work(tx: Tx) -> None:
        if not known:
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
            errors={"email": N_("Enter an e-mail address such as name@example.com")},
        )
    return render.see_other(request, "/forgot?sent=1")


pages: Final = (
    Page("GET", "/forgot", "anyone", show),
    Page("POST", "/forgot", "anyone", ask),
)
