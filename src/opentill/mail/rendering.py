"""Renders a row of the outbox as the bytes of a message: texts, layout and headers.

A message has a text and an HTML part with the same content. Nothing is loaded from a server when it
is read: the shop's logo is part of the message. Texts that others wrote cannot begin a header
(``smtp.single_line``), and Jinja2 escapes them in HTML.
"""

import re
from base64 import b64encode
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import jinja2
import msgspec

from opentill import merchants, people
from opentill.core import encryption
from opentill.core.errors import NotFound
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx
from opentill.mail import attachments, outbox, smtp
from opentill.mail.attachments import Attachments
from opentill.mail.model import EXAMPLE, Mail, Message, MessageContext
from opentill.mail.smtp import BadAddress
from opentill.mail.topics import BY_NAME, Topic
from opentill.merchants import Actor, Merchant
from opentill.web import accent, templates
from opentill.web.language import Localizer

_FOLDER: Final = Path(__file__).parent / "templates"
_HTML: Final = templates.create_environment(_FOLDER)
_TEXT: Final = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_FOLDER),
    autoescape=False,  # noqa: S701 - it makes plain text
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_PERSON_ID: Final = re.compile(r" \(per_[0-9a-z]+\)", re.ASCII)  # after names of the audit log
_UTC: Final = ZoneInfo("UTC")
# Topics whose mails have a link that only the recipient may know.
_WITH_SECRET: Final = frozenset({"invitation", "reset", "factors_waiting"})
_DEFAULT_COLOR: Final = "#0b5c47"  # color of the button if the merchant has no accent color
_RESET_ACTOR: Final = Actor("opentill", "asked for on the page of a forgotten password")


class Unrenderable(Exception):
    """A mail that can never be rendered; the text says why."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of a message with what its layout needs."""

    mail: Mail
    message: Message
    context: MessageContext
    is_test_mode: bool
    attachments: Attachments = Attachments()


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """A mail as its recipient sees it, for pages. Its secret link is left out."""

    sender: str
    subject: str
    html: str
    text: str
    message: Message  # the texts that ``html`` and ``text`` lay out
    is_test_mode: bool
    has_shop: bool  # whether the mail shows the merchant's name
    has_receipt: bool  # whether a PDF is attached
    has_hidden_link: bool  # whether the mail has a link that only the recipient may know


async def render(db: Db, settings: Settings, mail: Mail, now: int) -> bytes:
    """Render a mail. Raises Unrenderable."""
    topic = _find_topic(mail)

    async def read(tx: Tx) -> tuple[Merchant | None, str]:
        merchant = await merchants.find(tx, mail.merchant_id) if mail.merchant_id else None
        return merchant, await _secret_path(tx, settings, mail, now)

    merchant, secret = await db.run(read)
    context, draft = _draft(settings, topic, mail, merchant, secret)
    if topic.is_for_customers and merchant is not None:
        files = await attachments.make(db, settings, mail, merchant, context)
        draft = msgspec.structs.replace(draft, attachments=files)
    return encode(settings, draft, merchant)


async def preview(db: Db, settings: Settings, mail: Mail) -> Preview:
    """Render a mail for a page, without its secret link and its files. Raises Unrenderable."""
    topic = _find_topic(mail)

    async def read(tx: Tx) -> Merchant | None:
        return await merchants.find(tx, mail.merchant_id) if mail.merchant_id else None

    merchant = await db.read(read)
    has_hidden_link = mail.topic in _WITH_SECRET
    # The placeholder chooses the text of a mail with a link; the link itself is removed.
    _, draft = _draft(settings, topic, mail, merchant, "/" if has_hidden_link else "")
    if has_hidden_link:
        draft = msgspec.structs.replace(draft, message=_without_address(draft.message))
    logo = None
    if topic.is_for_customers and merchant is not None:
        logo = await attachments.make_logo(db, merchant, mail)
    source = "" if logo is None else f"data:image/png;base64,{b64encode(logo).decode()}"
    values = _layout_values(draft, merchant, source)
    values["has_receipt"] = mail.topic in attachments.WITH_RECEIPT and mail.order_id is not None
    return Preview(
        sender=_sender(settings, draft),
        subject=_subject(draft),
        html=_HTML.get_template("mail.html").render(values),
        text=_TEXT.get_template("mail.txt").render(values),
        message=draft.message,
        is_test_mode=draft.is_test_mode,
        has_shop=bool(draft.context.shop) and draft.message.is_branded,
        has_receipt=values["has_receipt"],
        has_hidden_link=has_hidden_link,
    )


def _without_address(message: Message) -> Message:
    """Return the message with a button that leads nowhere."""
    action = None if message.action is None else (message.action[0], "")
    return msgspec.structs.replace(message, action=action)


def _sender(settings: Settings, draft: Draft) -> str:
    """Return the sender of a mail, "" if the mail server was removed from the settings."""
    if not settings.mail_from:
        return ""
    return str(smtp.sender_address(settings.mail_from, _shop_name(draft)))


def _find_topic(mail: Mail) -> Topic:
    """Return the topic of a mail. Raises Unrenderable."""
    topic = BY_NAME.get(mail.topic)
    if topic is None:
        msg = f"this version knows no mail of the topic {mail.topic}"
        raise Unrenderable(msg)
    return topic


def _draft(
    settings: Settings, topic: Topic, mail: Mail, merchant: Merchant | None, secret: str
) -> tuple[MessageContext, Draft]:
    content = msgspec.json.decode(mail.data, type=topic.content)
    merchant_name = "" if merchant is None else merchant.display_name or merchant.name
    context = MessageContext(
        localizer=Localizer("customer" if topic.is_for_customers else "merchant", mail.language),
        zone=_UTC if merchant is None else ZoneInfo(merchant.time_zone),
        public_url=settings.public_url,
        shop=getattr(content, "shop", merchant_name),
        secret=secret,
    )
    livemode = getattr(content, "livemode", settings.livemode)
    return context, Draft(
        mail=mail,
        message=topic.template(content, context),
        context=context,
        is_test_mode=(topic.is_about_merchant and not livemode)
        or mail.cause.startswith(f"{EXAMPLE} "),
    )


async def _secret_path(tx: Tx, settings: Settings, mail: Mail, now: int) -> str:
    """Return the path of the link that only the recipient may know, "" if there is none."""
    if mail.secret is not None:
        purpose = outbox.encryption_purpose(mail.id)
        try:
            return encryption.decrypt(settings.secret_key, purpose, mail.secret)
        except encryption.WrongKey:
            msg = "its link cannot be decrypted: OPENTILL_SECRET_KEY is another one"
            raise Unrenderable(msg) from None
    if mail.topic == "reset":  # create the link only now, so that only the mail contains it
        try:
            new_link = await people.offer_requested_password(
                tx, mail.recipient, now, actor=_RESET_ACTOR
            )
        except NotFound:
            msg = "nobody logs in with this address"
            raise Unrenderable(msg) from None
        return "" if new_link is None else new_link.path
    if mail.topic == "factors_waiting":
        return await people.lost_factors.new_stop_link(tx, mail.recipient) or ""
    return ""


def encode(settings: Settings, draft: Draft, merchant: Merchant | None) -> bytes:
    """Return the bytes of a message, with its layout and headers. Raises Unrenderable."""
    mail, context = draft.mail, draft.context
    support_email = _support_email(draft, merchant)
    try:
        is_utf8 = smtp.needs_smtputf8(smtp.envelope_address(mail.recipient))
        encoded = EmailMessage(policy=SMTPUTF8 if is_utf8 else SMTP)
        encoded["From"] = smtp.sender_address(settings.mail_from, _shop_name(draft))
        encoded["To"] = smtp.header_address("", mail.recipient)
        if support_email:
            reply_to = smtp.header_address(context.shop, support_email)
            # A server without SMTPUTF8 would refuse a Reply-To that is not ASCII: leave it out.
            if is_utf8 or reply_to.addr_spec.isascii():
                encoded["Reply-To"] = reply_to
    except BadAddress as error:
        msg = f"not sent: {error}"
        raise Unrenderable(msg) from None
    encoded["Subject"] = smtp.single_line(_subject(draft))
    encoded["Message-ID"] = mail.message_id
    encoded["Date"] = formatdate()  # real time, even if business time is ahead of it
    encoded["Auto-Submitted"] = "auto-generated"  # prevents automatic replies (RFC 3834)
    files, cid = draft.attachments, f"<logo.{mail.message_id.strip('<>')}>"
    values = _layout_values(draft, merchant, f"cid:{cid[1:-1]}" if files.logo else "")
    encoded.set_content(_TEXT.get_template("mail.txt").render(values), cte="quoted-printable")
    html = _HTML.get_template("mail.html").render(values)
    encoded.add_alternative(html, subtype="html", cte="quoted-printable")
    _attach(encoded, files, cid)
    encoded["Content-Language"] = context.localizer.language
    return encoded.as_bytes()


def _shop_name(draft: Draft) -> str | None:
    """Return the name that the sender has, None for the operator's own."""
    return draft.context.shop if BY_NAME[draft.mail.topic].is_for_customers else None


def _support_email(draft: Draft, merchant: Merchant | None) -> str | None:
    is_for_customers = BY_NAME[draft.mail.topic].is_for_customers
    return merchant.support_email if is_for_customers and merchant is not None else None


def _subject(draft: Draft) -> str:
    test_mark = draft.context.gettext("TEST")
    return f"[{test_mark}] {draft.message.subject}" if draft.is_test_mode else draft.message.subject


def _layout_values(draft: Draft, merchant: Merchant | None, logo: str) -> dict[str, Any]:
    """Return the values of the layout; ``logo`` is the address of the picture, "" for none."""
    context = draft.context
    color = (merchant and merchant.accent_color) or _DEFAULT_COLOR
    facts = [(name, _PERSON_ID.sub("", value)) for name, value in draft.message.facts]
    return {
        "message": msgspec.structs.replace(draft.message, facts=facts),
        "shop": context.shop,
        "_": context.gettext,
        "language": context.localizer.language,
        "is_test_mode": draft.is_test_mode,
        "shade": accent.shade(color, "light"),
        "support_email": _support_email(draft, merchant),
        "logo": logo,
        "has_receipt": draft.attachments.receipt is not None,
        "isolated": templates.isolated,
    }


def _attach(encoded: EmailMessage, files: Attachments, cid: str) -> None:
    """Add the logo to the HTML part, and the receipt to the message."""
    if files.logo is not None:
        html = encoded.get_body(("html",))
        if html is None:
            raise AssertionError  # each message has one
        html.add_related(
            files.logo, "image", "png", cid=cid, disposition="inline", filename="logo.png"
        )
    if files.receipt is not None:
        name = f"receipt-{files.receipt_number}.pdf"
        encoded.add_attachment(files.receipt, "application", "pdf", filename=name)
