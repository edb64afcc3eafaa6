"""``opentill mail list|aside|resend|reread|test``."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opentill.cli import inputs, output, session
from opentill.cli.output import Json
from opentill.cli.registration import acting, add_group

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.mail import Mail, RetryResult
    from opentill.merchants import Actor

_COLUMNS = ("id", "merchantId", "topic", "recipient", "status", "attempts", "createdAt", "result")
_DEAD_LETTER_COLUMNS = ("merchantId", "eventId", "createdAt", "reason")
_MOST = 1000
_Limit = Annotated[int, typer.Option(min=1, max=_MOST, help="How many at most.")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "mail",
        "Outgoing mail, and its results.",
        list=list_,
        aside=aside,
        resend=resend,
        reread=reread,
        test=try_,
    )


def _to_record(mail: "Mail") -> dict[str, Any]:
    return {
        "id": mail.id,
        "merchantId": mail.merchant_id or None,
        "topic": mail.topic,
        "recipient": mail.recipient,
        "orderId": mail.order_id,
        "status": mail.status,
        "attempts": mail.attempts,
        "nextAttemptAt": mail.due_at if mail.status == "WAITING" else None,
        "messageId": mail.message_id,
        "createdAt": mail.created_at,
        "updatedAt": mail.updated_at,
        "result": mail.result,
    }


def list_(
    merchant_id: inputs.OnlyMerchant = None,
    *,
    status: Annotated[
        str | None, typer.Option(help="WAITING, SENDING, SENT, FAILED or UNKNOWN.")
    ] = None,
    limit: _Limit = 100,
) -> output.Result:
    """List the mails of all merchants by last change, or those of one merchant, newest first.

    A mail that is UNKNOWN may have arrived.
    """
    from opentill import mail

    mail_status = inputs.choice("status", status, mail.STATUSES)

    async def work(tx: "Tx") -> "list[Mail]":
        return await mail.list_newest(tx, merchant_id, mail_status, limit)

    return output.Result([_to_record(one) for one in session.query(work)], _COLUMNS)


def aside(*, limit: _Limit = 100) -> output.Result:
    """List the events and audit entries that could not be turned into mail, newest first."""
    from opentill import mail

    async def work(tx: "Tx") -> "list[mail.DeadLetter]":
        return await mail.list_dead_letters(tx, limit)

    rows = [
        {
            "merchantId": one.merchant_id or None,
            "eventId": one.event_id,
            "createdAt": one.created_at,
            "reason": one.reason,
        }
        for one in session.query(work)
    ]
    return output.Result(rows, _DEAD_LETTER_COLUMNS)


@acting(without_reason=inputs.NO_REASON)
def reread(merchant_id: inputs.OnlyMerchant = None, *, actor: "Actor") -> "RetryResult":
    """Retry all events and audit entries that could not be turned into mail, of any age.

    Those that can be read now cause their mails; the others remain, with the reason. Audit entries
    belong to no merchant: they are retried only if no merchant is given.
    """
    from opentill import mail

    settings = session.settings()

    async def command() -> "RetryResult":
        async with session.database(settings) as db:
            return await mail.retry_dead_letters(
                db, settings, merchant_id, actor, await session.now(db)
            )

    return session.run(command())


@acting(without_reason=inputs.NO_REASON)
def resend(mail_id: str, *, actor: "Actor") -> dict[str, Any]:
    """Send a mail again, as a new one. A mail that is UNKNOWN may arrive twice."""
    from opentill import mail, merchants
    from opentill.core.ids import new_id

    settings = session.settings()
    request_id = new_id("mail").partition("_")[2]

    async def work(tx: "Tx", now: int) -> dict[str, Any]:
        original = await mail.find_anywhere(tx, mail_id)
        resent = await mail.resend(tx, settings, original.merchant_id, mail_id, request_id, now)
        subject = f"{mail_id} as {resent.id}"
        await merchants.record_audit(tx, actor, "mail resend", original.merchant_id, subject, now)
        return _to_record(resent)

    return session.transact(work)


def try_(recipient: str, *, as_json: Json = False) -> None:
    """Send a message to an address now. Exit code 1 if the mail server refuses it."""
    from opentill import mail
    from opentill.core.errors import ConfigurationError
    from opentill.db.clock import now_ms

    settings = session.settings(keys=False, creates=True)
    try:
        outcome = session.run(mail.send_test_mail(settings, recipient, now_ms()))
    except mail.Unreached as error:
        message = f"the mail server of OPENTILL_SMTP_URL cannot be reached: {error}"
        raise ConfigurationError(message) from None
    result = {"recipient": recipient, "ended": outcome.kind, "said": outcome.detail}
    output.show(result, as_json=as_json)
    sys.exit(0 if outcome.kind == "sent" else 1)
