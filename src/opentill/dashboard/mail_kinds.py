"""The kinds of mail that a merchant's customers and team get, with a preview of each."""

from collections.abc import Mapping
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import mail, merchants, people
from opentill.core.errors import NotFound, or_not_found
from opentill.dashboard import page_helpers
from opentill.dashboard.labels import MAIL_AUDIENCE
from opentill.db.database import Tx
from opentill.merchants import Merchant
from opentill.people import MerchantRole
from opentill.portal import form_ids, invitations, mail_preview, render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.language import names, supported


class MailKind(msgspec.Struct, frozen=True):
    """A row of the list of kinds; ``roles`` are those of members who get it."""

    topic: str
    roles: tuple[MerchantRole, ...]
    switch: str  # the preference that turns it on or off; "" for one that is always sent
    is_on: bool


def _row(kind: mail.Kind, preferences: mail.Preferences) -> MailKind:
    topic = kind.topic
    is_on = not topic.switch or getattr(preferences, topic.switch)
    return MailKind(topic.name, topic.members, topic.switch, is_on)


def groups(preferences: mail.Preferences) -> list[tuple[str, list[MailKind]]]:
    """Return the kinds of mail by audience, a key of ``MAIL_AUDIENCE``; customers first."""
    return [
        (
            audience,
            [_row(kind, preferences) for kind in mail.KINDS if kind.audience == audience],
        )
        for audience in MAIL_AUDIENCE
    ]


async def show(request: PageRequest) -> Response:
    """List the kinds of mail, whether or not there is a mail server."""
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        preferences = await mail.find_preferences(tx, merchant.id)
    return render.page(
        request,
        "mail_kinds.html",
        groups=groups(preferences),
        sends_mail=request.app.settings.sends_mail,
    )


class _Shown(msgspec.Struct, frozen=True):
    """A kind of mail with an example of it."""

    merchant: Merchant
    preferences: mail.Preferences
    kind: mail.Kind
    example: mail.Mail


async def _read(request: PageRequest, chosen: Mapping[str, str]) -> _Shown:
    """Return an example of the chosen kind in the chosen language. Raises NotFound."""
    name = chosen.get("topic", "")
    kind = or_not_found(next((kind for kind in mail.KINDS if kind.topic.name == name), None))
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        preferences = await mail.find_preferences(tx, merchant.id)
    language = request.localizer.language
    if kind.audience == "customers":
        language = supported("customer", chosen.get("language", language)) or language
    elif kind.audience == "members":
        language = preferences.language
    example = mail.example(
        kind,
        merchant,
        request.login.name,
        language,
        request.now,
        livemode=request.app.settings.livemode,
    )
    return _Shown(merchant, preferences, kind, example)


async def show_example(request: PageRequest) -> Response:
    """Show a kind of mail as its recipients would see it. Raises NotFound."""
    return await _render_example(request, await _read(request, request.query))


async def _render_example(request: PageRequest, shown: _Shown, error: str = "") -> Response:
    kind, example = shown.kind, shown.example
    return await mail_preview.page(
        request,
        example,
        ZoneInfo(shown.merchant.time_zone),
        status=429 if error else 200,
        template="mail_example.html",
        frame=f"{request.base}/dashboard/{request.merchant_id}/mails/kinds/preview/html"
        f"?topic={kind.topic.name}&language={example.language}",
        audience=kind.audience,
        kind=_row(kind, shown.preferences),
        merchant=shown.merchant,
        mail_languages=names("customer") if kind.audience == "customers" else {},
        sends_mail=request.app.settings.sends_mail,
        form_id=form_ids.new_form_id(),
        errors={"test": error} if error else {},
    )


async def show_frame(request: PageRequest) -> Response:
    """Return the HTML of an example, for the frame of its page. Raises NotFound."""
    return await mail_preview.frame(request, (await _read(request, request.query)).example)


async def switch(request: PageRequest) -> Response:
    """Turn a kind of mail on or off. Raises NotFound for one that is always sent."""
    form = await request.form()
    name, is_on = form["topic"], form["turn"] == "on"
    kind = or_not_found(next((kind for kind in mail.KINDS if kind.topic.name == name), None))
    if not kind.topic.switch:
        raise NotFound
    actor = people.actor_of(request.login, _REASON)

    async def work(tx: Tx) -> None:
        preferences = await mail.find_preferences(tx, request.merchant_id)
        await mail.change_preferences(
            tx,
            request.merchant_id,
            {kind.topic.switch: is_on},
            preferences.language,
            request.now,
            actor=actor,
        )

    await request.app.db.run(work)
    if form["place"] == "preview":
        query = {"topic": name, "done": "saved"}
        return page_helpers.redirect(request, "mails", "kinds", "preview", **query)
    return page_helpers.redirect(request, "mails", "kinds", done="saved")


async def send_test(request: PageRequest) -> Response:
    """Send an example to the person who asks for it. Raises NotFound.

    Mails to one person have links that work once, so there is no example of them to send.
    """
    form = await request.form()
    shown = await _read(request, form)
    if shown.kind.audience == "persons":
        raise NotFound
    example, to = shown.example, request.login.email
    request_id = form.get(form_ids.FIELD, "")[:32] or form_ids.new_form_id()

    async def work(tx: Tx) -> str:
        await mail.send_example(tx, request.app.settings, example, to, request_id, request.now)
        return ""

    await page_helpers.limit_resends(request)
    try:
        await request.app.db.run(work)
    except mail.TooManyMails:
        return await _render_example(request, shown, invitations.TOO_MANY_MAILS)
    query = {"topic": example.topic, "language": example.language, "done": "test"}
    return page_helpers.redirect(request, "mails", "kinds", "preview", **query)


_REASON: Final = "on the page of the kinds of mail"
_PLACE: Final = f"{DASHBOARD_PATH}/mails/kinds"
pages: Final = (
    Page("GET", _PLACE, "mails.read", show),
    Page("GET", f"{_PLACE}/preview", "mails.read", show_example),
    Page("GET", f"{_PLACE}/preview/html", "mails.read", show_frame, is_file=True),
    Page("POST", f"{_PLACE}/preview", "mails.resend", send_test, fields=("topic",)),
    Page("POST", f"{_PLACE}/switch", "settings.manage", switch, fields=("topic", "turn", "place")),
)
