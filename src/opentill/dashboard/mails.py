"""A merchant's mail: the list with the status of each, resending, and what is mailed at all."""

from typing import Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import mail, merchants, people
from opentill.core.errors import Invalid, KeyReused
from opentill.dashboard import mail_kinds, page_helpers
from opentill.db.database import Tx
from opentill.portal import form_ids, invitations, lists, render
from opentill.portal.labels import MAIL_STATUS
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.language import names
from opentill.web.translations import N_

_REASON: Final = "on the page of mail"
_LONGEST_ADDRESS: Final = 254


async def show(request: PageRequest) -> Response:
    """List mail, newest first, and show the preferences."""
    return await _render_mails(request)


async def _render_mails(
    request: PageRequest, status: int = 200, errors: dict[str, str] | None = None
) -> Response:
    chosen = lists.choice(request, "status", mail.STATUSES)
    email = lists.text(request, "email", _LONGEST_ADDRESS)
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        preferences = await mail.find_preferences(tx, merchant.id)
        rows = await mail.list_of_merchant(
            tx,
            merchant.id,
            before=lists.before(request),
            status=chosen,
            recipient=email or None,
            limit=lists.SIZE + 1,
        )
    page = rows[: lists.SIZE]
    return render.page(
        request,
        "mails.html",
        status,
        errors=errors or {},
        zone=ZoneInfo(merchant.time_zone),
        mails=page,
        before=page[-1].id if len(rows) > lists.SIZE else "",
        options=[(name, request.localizer.gettext(MAIL_STATUS[name])) for name in mail.STATUSES],
        chosen=chosen,
        email=email,
        sends_mail=request.app.settings.sends_mail,
        groups=mail_kinds.groups(preferences),
        lists_kinds=not request.app.settings.sends_mail and not rows,
        preferences=preferences,
        switches=mail.SWITCHES,
        mail_languages=names("merchant"),
        form_id=form_ids.new_form_id,
    )


async def resend(request: PageRequest) -> Response:
    """Send a mail again."""
    request_id = _request_id(await request.form())

    async def work(tx: Tx) -> str:
        copy = await mail.resend(
            tx,
            request.app.settings,
            request.merchant_id,
            request.ids["mail"],
            request_id,
            request.now,
        )
        return copy.id

    await page_helpers.limit_resends(request)
    try:
        await form_ids.run_once(request, work)
    except KeyReused:
        return page_helpers.redirect(request, "mails")
    except mail.TooManyMails:
        return await _render_mails(request, 429, {"mails": invitations.TOO_MANY_MAILS})
    except Invalid:
        return await _render_mails(
            request,
            409,
            {
                "mails": N_(
                    "This one cannot be sent again: it is still on its way, or its "
                    "link works only once"
                )
            },
        )
    return page_helpers.redirect(request, "mails", done="again")


async def send_receipt(request: PageRequest) -> Response:
    """Send the receipt of a payment again."""
    order_id, request_id = request.ids["order"], _request_id(await request.form())

    async def work(tx: Tx) -> str:
        receipt = await mail.send_receipt(
            tx, request.app.settings, request.merchant_id, order_id, request_id, request.now
        )
        return receipt.id

    await page_helpers.limit_resends(request)
    try:
        await form_ids.run_once(request, work)
    except Invalid:
        return page_helpers.redirect(request, "payments", order_id, "receipt", sent="0")
    return page_helpers.redirect(request, "payments", order_id, "receipt", sent="1")


def _request_id(form: dict[str, str]) -> str:
    """Return the form's id, or a new one if the form has none.

    A repeated form sends no second mail only if it has an id.
    """
    return form.get(form_ids.FIELD, "")[:32] or form_ids.new_form_id()


async def save(request: PageRequest) -> Response:
    """Save the preferences: what is mailed, and the language of mail to members."""
    form = await request.form()
    actor = people.actor_of(request.login, _REASON)
    # A checkbox that is off sends nothing, so the form lists the checkboxes that it has.
    shown = form["switches"].split()
    switches: dict[str, bool] = {name: name in form for name in mail.SWITCHES if name in shown}
    try:
        await request.app.db.run(
            lambda tx: mail.change_preferences(
                tx,
                request.merchant_id,
                switches,
                form["language"],
                request.now,
                actor=actor,
            )
        )
    except Invalid:
        return await _render_mails(request, 400, {"language": N_("Choose one of the languages")})
    return page_helpers.redirect(request, "mails", done="saved")


_PLACE: Final = f"{DASHBOARD_PATH}/mails"
pages: Final = (
    Page("GET", _PLACE, "mails.read", show, menu=N_("Emails"), group="settings"),
    Page("POST", f"{_PLACE}/preferences", "settings.manage", save, fields=("language", "switches")),
    Page("POST", f"{_PLACE}/{{mail:id}}/resend", "mails.resend", resend),
    Page("POST", f"{DASHBOARD_PATH}/payments/{{order:id}}/receipt", "mails.resend", send_receipt),
)
