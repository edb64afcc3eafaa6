"""Trying out the mail server: whether it is reached, and whether it takes a message."""

from email.utils import parseaddr
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from opentill.core.errors import Invalid
from opentill.core.ids import new_id
from opentill.core.settings import Settings
from opentill.http import inputs
from opentill.mail import contents, letters
from opentill.mail.letters import Draft, Unwritable
from opentill.mail.model import OF_NOBODY, Mail
from opentill.mail.smtp import Connection, Outcome, Server
from opentill.mail.topics import BY_NAME
from opentill.mail.words import Words
from opentill.web.language import Localizer

_TIMEOUT_S: Final = 10.0


async def reach(settings: Settings) -> Server:
    """Connect to the mail server, log in, and leave. Raises Unreached."""
    server = Server.of(settings.smtp_url)
    connection = await Connection.open(server, _domain(settings), timeout_s=_TIMEOUT_S)
    await connection.quit()
    return server


def _domain(settings: Settings) -> str:
    return parseaddr(settings.mail_from)[1].rpartition("@")[2]


async def try_out(settings: Settings, recipient: str, now: int) -> Outcome:
    """Send a message that says that mail works, at once and past the outbox.

    An address that no mail can be sent to is a failed outcome. Raises Invalid, and Unreached.
    """
    if not settings.sends_mail:
        reason = "mail must be set up: set OPENTILL_SMTP_URL and OPENTILL_MAIL_FROM"
        raise Invalid("mail", reason)
    to = inputs.check_email("email", recipient)
    said = contents.Test(at=now)
    mail_id = new_id("mail")
    mail = Mail(
        merchant_id=OF_NOBODY,
        id=mail_id,
        topic="test",
        cause=mail_id,
        recipient=to,
        order_id=None,
        language="en",
        data=msgspec.json.encode(said).decode(),
        secret=None,
        message_id=f"<{mail_id}@{_domain(settings)}>",
        status="SENDING",
        attempts=1,
        due_at=now,
        result="",
        created_at=now,
        updated_at=now,
    )
    words = Words(
        localizer=Localizer("merchant", "en"),
        zone=ZoneInfo("UTC"),
        public_url=settings.public_url,
        shop="",
    )
    message = BY_NAME["test"].compose(said, words)
    draft = Draft(mail=mail, message=message, words=words, test=False)
    try:
        encoded = letters.encoded(settings, draft, None)
    except Unwritable as error:
        return Outcome("failed", str(error))
    server = Server.of(settings.smtp_url)
    connection = await Connection.open(server, _domain(settings), timeout_s=_TIMEOUT_S)
    try:
        return await connection.send(parseaddr(settings.mail_from)[1], to, encoded)
    finally:
        await connection.quit()
