"""``opentill mail``: entries that could not become a mail are listed and read again."""

import asyncio

import pytest

from opentill.db import connection as connections
from opentill.mail import queries
from support import world
from support.commands import USER, Commands, opentill
from support.mail_server import MailServer

__all__ = ["opentill"]
MAIL = {"OPENTILL_SMTP_URL": "smtp://127.0.0.1:9", "OPENTILL_MAIL_FROM": "pay@example.com"}


def test_entries_set_aside_are_listed_and_read_again(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]

    async def put_aside() -> None:
        tx = await connections.connect(opentill.environ["OPENTILL_DATABASE_URL"])
        try:
            for merchant_id, number, event_id in (("", 1, "audit 1"), (shop, 7, "evt_7")):
                key = {"merchant_id": merchant_id, "number": number, "event_id": event_id}
                await queries.STORE_DEAD_LETTER.run(tx, **key, reason="KeyError: x", now=world.NOW)
        finally:
            await tx.close()

    asyncio.run(put_aside())
    listed = opentill.json("mail", "aside")
    assert [(one["merchantId"], one["eventId"], one["reason"]) for one in listed] == [
        (shop, "evt_7", "KeyError: x"), (None, "audit 1", "KeyError: x"),
    ]  # fmt: skip
    assert "mail must be set up" in opentill.refusal("mail", "reread")
    done = opentill.json(
        "mail", "reread", **MAIL
    )  # it becomes no mail, because the event no longer exists
    assert done == {"read": 2, "mails": 0, "putAside": 1}
    (left,) = opentill.json("mail", "aside")
    assert (left["eventId"], left["reason"]) == (
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
        ("ann\u202e@example.com", "it is no e-mail address"),
        ("a..b@docomo.ne.jp", "250"),
    ],
)
def test_a_test_mail_reports_why_an_address_is_suppressed(
    opentill: Commands, recipient: str, result: str
) -> None:
    with MailServer(enable_SMTPUTF8=False) as server:
        done = opentill.run("mail", "test", recipient, **MAIL | {"OPENTILL_SMTP_URL": server.url})
    assert result in " ".join(done.stdout.decode().split())
    assert b"Traceback" not in done.stderr
    assert done.returncode == (0 if result == "250" else 1)
