"""``opentill mail``: dead letters are listed and retried, and test mails are sent."""

import pytest

from cli.database import in_database
from opentill.db.database import Tx
from opentill.mail import queries
from support import world
from support.commands import USER, Commands, opentill
from support.mail_server import MailServer

__all__ = ["opentill"]
MAIL = {"OPENTILL_SMTP_URL": "smtp://127.0.0.1:9", "OPENTILL_MAIL_FROM": "pay@example.com"}


def test_dead_letters_are_listed_and_retried(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]

    async def store_dead_letters(tx: Tx) -> None:
        for merchant_id, number, event_id in (("", 1, "audit 1"), (shop, 7, "evt_7")):
            key = {"merchant_id": merchant_id, "number": number, "event_id": event_id}
            await queries.STORE_DEAD_LETTER.run(tx, **key, reason="KeyError: x", now=world.NOW)

    in_database(opentill, store_dead_letters)
    letters = opentill.json("mail", "aside")
    assert [(row["merchantId"], row["eventId"], row["reason"]) for row in letters] == [
        (shop, "evt_7", "KeyError: x"), (None, "audit 1", "KeyError: x"),
    ]  # fmt: skip
    assert "mail must be set up" in opentill.refusal("mail", "reread")
    # The event does not exist, so no mail is queued.
    result = opentill.json("mail", "reread", **MAIL)
    assert result == {"read": 2, "mails": 0, "putAside": 1}
    (letter,) = opentill.json("mail", "aside")
    assert (letter["eventId"], letter["reason"]) == (
        "evt_7", "NotFound: the event evt_7 is not kept any more",
    )  # fmt: skip
    (row, *_) = opentill.json("audit", "list")
    assert (row["who"], row["action"], row["subject"]) == (
        USER, "mail reread", "2 read, 0 mails, 1 still put aside",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("recipient", "result"),
    [
        ("\u5f20@example.com", "does not offer SMTPUTF8"),
        ("ann\u202e@example.com", "it is no email address"),
        ("a..b@docomo.ne.jp", "250"),
    ],
)
def test_a_test_mail_reports_why_an_address_is_suppressed(
    opentill: Commands, recipient: str, result: str
) -> None:
    with MailServer(enable_SMTPUTF8=False) as server:
        environ = MAIL | {"OPENTILL_SMTP_URL": server.url}
        process = opentill.run("mail", "test", recipient, **environ)
    assert result in " ".join(process.stdout.decode().split())
    assert b"Traceback" not in process.stderr
    assert process.returncode == (0 if result == "250" else 1)
