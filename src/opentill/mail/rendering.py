"""From a row of the outbox to the bytes that are sent: words, layout, headers.

Every message has a text and an HTML part that say the same, without pictures and without anything
that is fetched when it is read. What others have typed cannot begin a header (``address``), and is
escaped in HTML by Jinja2.
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
from opentill.mail import outbox, smtp, topics
from opentill.mail.model import Mail, Message, Words
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
_INK: Final = "#0b5c47"  # of the button, where a merchant has no colour
_RESET_ACTOR: Final = Actor("opentill", "asked for on the page of a forgotten password")


class Unwritable(Exception):
    """A message that cannot be made, and never will be; the text says why."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is to be laid out; ``test``: the money that it is about is not real."""

    mail: Mail
    message: Message
    words: Words
    test: bool


async def render(db: Db, settings: Settings, mail: Mail, now: int) -> bytes:
    """Make the message of a row. Raises Unwritable."""
    topic = BY_NAME.get(mail.topic)
    if topic is None:
        msg = f"this version knows no mail of the topic {mail.topic}"
        raise Unwritable(msg)

    async def read(tx: Tx) -> tuple[Merchant | None, str]:
        merchant = await merchants.find(tx, mail.merchant_id) if mail.merchant_id else None
        return merchant, await _secret(tx, settings, mail, now)

    merchant, secret = await db.run(read)
    said = msgspec.json.decode(mail.data, type=topic.data)
    to_customer = mail.topic in topics.CUSTOMER_TOPICS
    own_name = "" if merchant is None else merchant.display_name or merchant.name
    words = Words(
        localizer=Localizer("customer" if to_customer else "merchant", mail.language),
        zone=_UTC if merchant is None else ZoneInfo(merchant.time_zone),
        public_url=settings.public_url,
        shop=getattr(said, "shop", own_name),
        secret=secret,
    )
    test = mail.topic in topics.MONEY_TOPICS and not getattr(said, "livemode", settings.livemode)
    draft = Draft(mail=mail, message=topic.compose(said, words), words=words, test=test)
    return lay_out(settings, draft, merchant)


async def _secret(tx: Tx, settings: Settings, mail: Mail, now: int) -> str:
    """Return the path that only the reader may know, if the message has one."""
    if mail.secret is not None:
        try:
            return encryption.decrypt(settings.secret_key, outbox.purpose(mail.id), mail.secret)
        except encryption.WrongKey:
            msg = "its link cannot be decrypted: OPENTILL_SECRET_KEY is another one"
            raise Unwritable(msg) from None
    if mail.topic == "reset":  # made for the message, so that it is stored nowhere else
        try:
            made = await people.offer_requested_password(
                tx, mail.recipient, now, actor=_RESET_ACTOR
            )
        except NotFound:
            msg = "nobody logs in with this address"
            raise Unwritable(msg) from None
        return "" if made is None else made.path
    if mail.topic == "factors_waiting":
        return await people.lost_factors.new_stop_link(tx, mail.recipient) or ""
    return ""


def lay_out(settings: Settings, draft: Draft, merchant: Merchant | None) -> bytes:
    """Lay a message out, with its headers. Raises Unwritable."""
    mail, message, words = draft.mail, draft.message, draft.words
    to_customer = mail.topic in topics.CUSTOMER_TOPICS
    utf8 = smtp.needs_utf8(_to(mail))
    made = EmailMessage(policy=SMTPUTF8 if utf8 else SMTP)
    try:
        own_name = words.shop if to_customer else None
        made["From"] = smtp.sender_address(settings.mail_from, own_name)
        made["To"] = smtp.header_address("", mail.recipient)
        if to_customer and merchant is not None and merchant.support_email:
            reply_to = smtp.header_address(words.shop, merchant.support_email)
            # In other than ASCII only to whom such an address reaches: else no server need take it.
            if utf8 or reply_to.addr_spec.isascii():
                made["Reply-To"] = reply_to
    except BadAddress as error:
        msg = f"not sent: {error}"
        raise Unwritable(msg) from None
    test_mark = words.gettext("TEST")
    subject = f"[{test_mark}] {message.subject}" if draft.test else message.subject
    made["Subject"] = smtp.one_line(subject)
    made["Message-ID"] = mail.message_id
    made["Date"] = formatdate()  # the real time, whatever a sandbox makes of its own
    made["Auto-Submitted"] = "auto-generated"  # RFC 3834: no replies of machines
    shade = accent.shade((merchant and merchant.accent_color) or _INK, "light")
    values = {
        "message": message,
        "words": words,
        "_": words.gettext,
        "language": words.localizer.language,
        "test": draft.test,
        "shade": shade,
        "contact": merchant.support_email if to_customer and merchant is not None else None,
        "isolated": templates.isolated,
    }
    made.set_content(_TEXT.get_template("mail.txt").render(values), cte="quoted-printable")
    html = _HTML.get_template("mail.html").render(values)
    made.add_alternative(html, subtype="html", cte="quoted-printable")
    made["Content-Language"] = words.localizer.language
    return made.as_bytes()


def _to(mail: Mail) -> str:
    try:
        return smtp.envelope_address(mail.recipient)
    except BadAddress as error:
        msg = f"not sent: {error}"
        raise Unwritable(msg) from None
