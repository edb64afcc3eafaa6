"""The kinds of mail that a merchant's customers and team get, with a preview of each."""

from typing import Final
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import mail, merchants
from opentill.core.errors import or_not_found
from opentill.dashboard.labels import MAIL_AUDIENCE
from opentill.merchants import Merchant
from opentill.people import MerchantRole
from opentill.portal import mail_preview, render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.language import names, supported


class MailKind(msgspec.Struct, frozen=True):
    """A row of the list of kinds; ``roles`` are those of members who get it."""

    topic: str
    roles: tuple[MerchantRole, ...]
    has_switch: bool
    is_on: bool


def _row(kind: mail.Kind, preferences: mail.Preferences) -> MailKind:
    topic = kind.topic
    is_on = not topic.switch or getattr(preferences, topic.switch)
    return MailKind(topic.name, topic.members, bool(topic.switch), is_on)


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


async def _example(request: PageRequest) -> tuple[Merchant, mail.Kind, MailKind, mail.Mail]:
    """Return an example of the kind in the query. Raises NotFound."""
    name = request.query.get("topic", "")
    kind = or_not_found(next((kind for kind in mail.KINDS if kind.topic.name == name), None))
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        preferences = await mail.find_preferences(tx, merchant.id)
    language = request.localizer.language
    if kind.audience == "customers":
        language = supported("customer", request.query.get("language", language)) or language
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
    return merchant, kind, _row(kind, preferences), example


async def show_example(request: PageRequest) -> Response:
    """Show a kind of mail as its recipients would see it. Raises NotFound."""
    merchant, kind, row, example = await _example(request)
    return await mail_preview.page(
        request,
        example,
        ZoneInfo(merchant.time_zone),
        template="mail_example.html",
        frame_query=f"?topic={kind.topic.name}&language={example.language}",
        audience=kind.audience,
        kind=row,
        mail_languages=names("customer") if kind.audience == "customers" else {},
    )


async def show_frame(request: PageRequest) -> Response:
    """Return the HTML of an example, for the frame of its page. Raises NotFound."""
    *_rest, example = await _example(request)
    return await mail_preview.frame(request, example)


_PLACE: Final = f"{DASHBOARD_PATH}/mails/kinds"
pages: Final = (
    Page("GET", _PLACE, "mails.read", show),
    Page("GET", f"{_PLACE}/preview", "mails.read", show_example),
    Page("GET", f"{_PLACE}/preview/html", "mails.read", show_frame),
)
