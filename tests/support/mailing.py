"""Settings with a mail server, and rows of the outbox of mail."""

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec

from opentill.core.settings import Settings
from opentill.db.clock import now_ms
from opentill.db.database import Db
from opentill.mail import model, outbox
from opentill.mail.model import NewMail
from support.api_server import SECRETS
from support.commands import ForkedProcess, ForkServer
from support.mail_server import MailServer

SENDER: Final = "Example Pay <pay@example.com>"
_PROCESS: Final = Path(__file__).parent / "mail_process.py"


def mail_settings(smtp_url: str, **changes: Any) -> Settings:
    """Return the settings of a deployment with a mail server."""
    values: dict[str, Any] = {"smtp_url": smtp_url, "mail_from": SENDER, **SECRETS, **changes}
    return msgspec.structs.replace(Settings(), **values)


def numbered_mail(number: int) -> NewMail:
    """Return a mail whose cause and recipient contain a number."""
    return NewMail(
        merchant_id="",
        topic="test",
        cause=f"number {number}",
        recipient=f"reader{number}@example.com",
        language="en",
        data=model.TestContent(at=number),
    )


async def queue_mails(db: Db, settings: Settings, count: int) -> None:
    """Queue ``count`` mails to different recipients."""
    rows = [numbered_mail(number) for number in range(count)]
    for start in range(0, count, 1000):
        batch = rows[start : start + 1000]
        await db.run(lambda tx: outbox.queue(tx, settings, batch, now_ms()))  # noqa: B023 - awaited in this iteration


async def count_statuses(db: Db) -> Counter[str]:
    """Return the number of mails by status."""
    async with db.connection() as tx:
        rows = await tx.fetch("select status, count(*) as n from mails group by status")
    return Counter({row["status"]: row["n"] for row in rows})


def _start_process(fork_server: ForkServer, url: str, server: MailServer) -> ForkedProcess:
    """Start a mailer in a process that can be killed."""
    words = [str(_PROCESS), url, server.url, "4000", "50"]
    environ = {"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": "/usr/bin:/bin"}
    with Path(os.devnull).open("w") as devnull:
        return fork_server.start_logged(words, environ, Path.cwd(), devnull.fileno())


async def send_with_killed_mailers(
    fork_server: ForkServer, db: Db, url: str, server: MailServer, count: int, kills: int
) -> None:
    """Send mails with mailers that are killed, until each mail has its final status."""
    settings = mail_settings(server.url)
    await queue_mails(db, settings, count)
    process = _start_process(fork_server, url, server)
    loop = asyncio.get_running_loop()
    end = loop.time() + 60 + count / 20
    try:
        for kill in range(1, kills + 1):
            # The server refuses some mails, so all kills come before it has accepted two thirds.
            target = count * kill // (kills + 1) * 2 // 3
            while len(server.accepted) < target:
                assert loop.time() < end, await count_statuses(db)
                await asyncio.sleep(0.01)
            process.kill()
            process.wait()
            process = _start_process(fork_server, url, server)
        while set(await count_statuses(db)) & {"WAITING", "SENDING"}:
            assert loop.time() < end, await count_statuses(db)
            await asyncio.sleep(0.1)
    finally:
        process.kill()
        process.wait()


async def assert_delivered_once(db: Db, server: MailServer, count: int) -> Counter[str]:
    """Assert that each SENT mail arrived once, no FAILED one, and an UNKNOWN one at most once."""
    async with db.connection() as tx:
        rows = await tx.fetch("select recipient, status, result, message_id from mails")
    assert len(rows) == count
    counts = server.counts
    for row in rows:
        received = counts[row["recipient"]]
        if row["status"] == "SENT":
            assert received == 1, row
        elif row["status"] == "FAILED":
            assert received == 0, row
        else:
            assert row["status"] == "UNKNOWN", row
            assert received <= 1, row
            assert row["result"], row
    assert set(counts) <= {row["recipient"] for row in rows}
    message_ids = {row["recipient"]: row["message_id"] for row in rows}
    assert all(message["Message-ID"] == message_ids[to] for to, message in server.accepted)
    return await count_statuses(db)
