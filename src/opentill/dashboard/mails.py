"""Mail of a merchant: what went out and how it ended, what is sent, and sending it again."""

from collections.abc import Awaitable, Callable
from typing import Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import mail, merchants, people
from opentill.core.errors import Invalid, KeyReused
from opentill.dashboard.labels import MAIL_STATUS
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.portal import form_ids, lists, render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.language import names
from opentill.web.translations import N_

_REASON: Final = "on the page of mail"
_LONGEST_ADDRESS: Final = 254


async def show(request: PageRequest) -> Response:
    """Show what went out, newest first, and what is sent."""
    return await _page(request)


async def _page(
    request: PageRequest, status: int = 200, errors: dict[str, str] | None = None
) -> Response:
    chosen = lists.choice(request, "status", mail.STATUSES)
    email = lists.text(request, "email", _LONGEST_ADDRESS)
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        preferences = await mail.find_preferences(tx, merchant.id)
        found = await mail.list_of_merchant(
            tx,
            merchant.id,
            before=lists.before(request),
            status=chosen,
            recipient=email or None,
            limit=lists.SIZE + 1,
        )
    more = len(found) > lists.SIZE
    shown = found[: lists.SIZE]
    return render.page(
        request,
        "mails.html",
        status,
        errors=errors or {},
        zone=ZoneInfo(merchant.time_zone),
        mails=shown,
        before=shown[-1].id if more else "",
        options=[(one, request.localizer.gettext(MAIL_STATUS[one])) for one in mail.STATUSES],
        chosen=chosen,
        email=email,
        sends=request.app.settings.sends_mail,
        preferences=preferences,
        switches=mail.SWITCHES,
        tongues=names("merchant"),
        form_id=form_ids.new_form_id,
    )


async def resend(request: PageRequest) -> Response:
    """Send a message once more."""
    form = await request.form()
    return await _again(
        request,
        lambda tx: mail.resend(
            tx,
            request.app.settings,
            request.merchant_id,
            request.ids["mail"],
            _request_id(form),
            request.now,
        ),
    )


async def send_receipt(request: PageRequest) -> Response:
    """Send the receipt of a payment again."""
    form, order_id = await request.form(), request.ids["order"]
    path = f"/dashboard/{request.merchant_id}/payments/{order_id}/receipt"
    request_id = _request_id(form)

    async def work(tx: Tx) -> str:
        made = await mail.send_receipt(
            tx, request.app.settings, request.merchant_id, order_id, request_id, request.now
        )
        return made.id

    await _count(request)
    try:
        await form_ids.run_once(request, work)
    except Invalid:
        return render.see_other(request, f"{path}?sent=0")
    return render.see_other(request, f"{path}?sent=1")


async def _again(request: PageRequest, send: Callable[[Tx], Awaitable[mail.Mail]]) -> Response:
    async def work(tx: Tx) -> str:
        return (await send(tx)).id

    await _count(request)
    here = f"/dashboard/{request.merchant_id}/mails"
    try:
        await form_ids.run_once(request, work)
    except KeyReused:
        return render.see_other(request, here)
    except mail.TooManyMails:
        return await _page(
            request,
            429,
            {
                "mails": N_(
                    "Ten messages were sent to this address on request within an "
                    "hour. Try again later"
                )
            },
        )
    except Invalid:
        return await _page(
            request,
            409,
            {
                "mails": N_(
                    "This one cannot be sent again: it is still on its way, or its "
                    "link works only once"
                )
            },
        )
    return render.see_other(request, f"{here}?done=again")


def _request_id(form: dict[str, str]) -> str:
    """Return what names a form's sending; a form without an id sends each time."""
    return form.get(form_ids.FIELD, "")[:32] or form_ids.new_form_id()


async def _count(request: PageRequest) -> None:
    app = request.app
    await rate_limits.hit_merchant(
        app.db, app.settings, "resends", request.merchant_id, request.now
    )


async def save(request: PageRequest) -> Response:
    """Choose what is sent, and in which language members read."""
    form = await request.form()
    actor = people.actor_of(request.login, _REASON)
    switches = {name: name in form for name in mail.SWITCHES}
    try:
        await request.app.db.run(
            lambda tx: mail.change_preferences(
                tx,
                request.merchant_id,
                switches,
                form.get("language", ""),
                request.now,
                actor=actor,
            )
        )
    except Invalid:
        return await _page(request, 400, {"language": N_("Choose one of the languages")})
    return render.see_other(request, f"/dashboard/{request.merchant_id}/mails?done=saved")


_PLACE: Final = f"{DASHBOARD_PATH}/mails"
pages: Final = (
    Page("GET", _PLACE, "mails.read", show, menu=N_("Mail")),
    Page("POST", f"{_PLACE}/preferences", "settings.manage", save),
    Page("POST", f"{_PLACE}/{{mail:id}}/resend", "mails.resend", resend),
    Page("POST", f"{DASHBOARD_PATH}/payments/{{order:id}}/receipt", "mails.resend", send_receipt),
)
