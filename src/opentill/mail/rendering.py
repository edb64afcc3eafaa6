"""Renders a row of the outbox as the bytes of a message: texts, layout and headers.

A message has a text and an HTML part with the same content. Nothing is loaded from a server when it
is read: the shop's logo is part of the message. Texts that others wrote cannot begin a header
(``smtp.single_line``), and Jinja2 escapes them in HTML.
"""

from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import formatdate
from pathlib import Path
from typing import Final
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
from opentill.mail.model import Mail, Message, MessageContext
from opentill.mail.smtp import BadAddress
from opentill.mail.topics import BY_NAME
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
_UTC: Final = ZoneInfo("UTC")
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


async def render(db: Db, settings: Settings, mail: Mail, now: int) -> bytes:
    """Render a mail. Raises Unrenderable."""
    topic = BY_NAME.get(mail.topic)
    if topic is None:
        msg = f"this version knows no mail of the topic {mail.topic}"
        raise Unrenderable(msg)

    async def read(tx: Tx) -> tuple[Merchant | None, str]:
        merchant = await merchants.find(tx, mail.merchant_id) if mail.merchant_id else None
        return merchant, await _secret_path(tx, settings, mail, now)

    merchant, secret = await db.run(read)
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
    files = Attachments()
    if topic.is_for_customers and merchant is not None:
        files = await attachments.make(db, settings, mail, merchant, context)
    draft = Draft(
        mail=mail,
        message=topic.template(content, context),
        context=context,
        is_test_mode=topic.is_about_money and not livemode,
        attachments=files,
    )
    return encode(settings, draft, merchant)


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
    mail, message, context = draft.mail, draft.message, draft.context
    is_for_customers = BY_NAME[mail.topic].is_for_customers
    support_email = merchant.support_email if is_for_customers and merchant is not None else None
    try:
        is_utf8 = smtp.needs_smtputf8(smtp.envelope_address(mail.recipient))
        encoded = EmailMessage(policy=SMTPUTF8 if is_utf8 else SMTP)
        shop_name = context.shop if is_for_customers else None
        encoded["From"] = smtp.sender_address(settings.mail_from, shop_name)
        encoded["To"] = smtp.header_address("", mail.recipient)
        if support_email:
            reply_to = smtp.header_address(context.shop, support_email)
            # A server without SMTPUTF8 would refuse a Reply-To that is not ASCII: leave it out.
            if is_utf8 or reply_to.addr_spec.isascii():
                encoded["Reply-To"] = reply_to
    except BadAddress as error:
        msg = f"not sent: {error}"
        raise Unrenderable(msg) from None
    test_mark = context.gettext("TEST")
    subject = f"[{test_mark}] {message.subject}" if draft.is_test_mode else message.subject
    encoded["Subject"] = smtp.single_line(subject)
    encoded["Message-ID"] = mail.message_id
    encoded["Date"] = formatdate()  # real time, even if business time is ahead of it
    encoded["Auto-Submitted"] = "auto-generated"  # prevents automatic replies (RFC 3834)
    color = (merchant and merchant.accent_color) or _DEFAULT_COLOR
    files, cid = draft.attachments, f"<logo.{mail.message_id.strip('<>')}>"
    values = {
        "message": message,
        "shop": context.shop,
        "_": context.gettext,
        "language": context.localizer.language,
        "is_test_mode": draft.is_test_mode,
        "shade": accent.shade(color, "light"),
        "support_email": support_email,
        "logo": files.logo and cid[1:-1],
        "has_receipt": files.receipt is not None,
        "isolated": templates.isolated,
    }
    encoded.set_content(_TEXT.get_template("mail.txt").render(values), cte="quoted-printable")
    html = _HTML.get_template("mail.html").render(values)
    encoded.add_alternative(html, subtype="html", cte="quoted-printable")
    _attach(encoded, files, cid)
    encoded["Content-Language"] = context.localizer.language
    return encoded.as_bytes()


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
