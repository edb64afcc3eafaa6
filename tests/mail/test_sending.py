"""Each mail is sent once, even if the mail server fails or a worker is killed."""

import itertools
import random
from pathlib import Path

import msgspec
import pytest

from opentill.core import hostnames
from opentill.core.settings import Settings
from opentill.db.clock import now_ms
from opentill.db.database import Db
from opentill.mail import Mailer, Options, outbox, queries
from opentill.mail.model import Mail
from support.commands import ForkServer
from support.mail_server import Fault, MailServer, create_tls_contexts, login_options
from support.mailing import (
    assert_delivered_once,
    count_statuses,
    mail_settings,
    numbered_mail,
    queue_mails,
    send_with_killed_mailers,
)

MINUTE_MS = 60_000
QUICK = Options(cleanup_s=0.0, timeout_s=5.0)


class Clock:
    """Business time that a test moves."""

    def __init__(self) -> None:
        self.now = now_ms() + MINUTE_MS  # makes mails due that a test queues now

    def __call__(self) -> int:
        return self.now


async def _only_mail(db: Db) -> Mail:
    """Return the one mail of the outbox."""
    async with db.connection() as tx:
        (mail,) = await outbox.list_newest(tx, None, None, 10)
    return mail


async def _drain(mailer: Mailer) -> None:
    while await mailer.turn():
        pass


async def test_each_mail_is_sent_once_and_connections_are_reused(db: Db) -> None:
    with MailServer() as server:
        settings = mail_settings(server.url)
        await queue_mails(db, settings, 40)
        # No mail is added, because causes and recipients are the same.
        await queue_mails(db, settings, 40)
        mailer = Mailer(db, settings, now_ms, QUICK)
        await _drain(mailer)
        await mailer.finish()
        assert set(server.counts.values()) == {1}
        assert len(server.accepted) == 40
        assert server.connections <= QUICK.connections
    assert await count_statuses(db) == {"SENT": 40}


@pytest.mark.parametrize(
    ("fault", "status", "accepted"),
    [
        ("later", "WAITING", 0),
        ("never", "FAILED", 0),
        ("refused", "FAILED", 0),
        ("cut", "UNKNOWN", 0),
        ("accepted_then_cut", "UNKNOWN", 1),
    ],
)
async def test_the_end_of_the_smtp_conversation_decides_a_mails_status(
    db: Db, fault: Fault, status: str, accepted: int
) -> None:
    faults = itertools.chain([fault], itertools.repeat(""))
    with MailServer(lambda: next(faults)) as server:
        settings, clock = mail_settings(server.url), Clock()
        await queue_mails(db, settings, 1)
        mailer = Mailer(db, settings, clock, QUICK)
        await _drain(mailer)
        mail = await _only_mail(db)
        assert (mail.status, len(server.accepted)) == (status, accepted)
        assert mail.attempts == 1
        assert mail.result
        clock.now += 24 * 60 * MINUTE_MS
        await _drain(mailer)
        assert len(server.accepted) == (1 if status == "WAITING" else accepted)
        await mailer.finish()


@pytest.mark.parametrize(
    ("recipient", "offers_utf8", "result"),
    [
        ("\u5f20@example.com", True, "250"),
        ("\u5f20@example.com", False, "does not offer SMTPUTF8"),
        ("ann@fa\u00df.de", False, "250"),
        ("a..b@docomo.ne.jp", False, "250"),
        ("a.@docomo.ne.jp", False, "250"),
        ("ann\u202e@example.com", True, "it is no email address"),
    ],
)
async def test_an_unusual_address_is_mailed_or_the_mail_fails_with_a_reason(
    db: Db, recipient: str, offers_utf8: bool, result: str
) -> None:
    with MailServer(enable_SMTPUTF8=offers_utf8) as server:
        settings = mail_settings(server.url)
        mail = msgspec.structs.replace(numbered_mail(1), recipient=recipient)
        await db.run(lambda tx: outbox.queue(tx, settings, [mail], now_ms()))
        mailer = Mailer(db, settings, now_ms, QUICK)
        await _drain(mailer)
        await mailer.finish()
        stored = await _only_mail(db)
        assert result in stored.result
        is_sent = result == "250"
        # The server removes quotes around the mailbox.
        mailbox = hostnames.mailbox_in_ascii(recipient)
        assert stored.status == ("SENT" if is_sent else "FAILED")
        assert [to for to, _ in server.accepted] == ([mailbox] if is_sent else [])


async def test_a_mail_is_retried_with_growing_delays_and_then_fails(db: Db) -> None:
    with MailServer(lambda: "later") as server:
        settings, clock = mail_settings(server.url), Clock()
        await queue_mails(db, settings, 1)
        mailer = Mailer(db, settings, clock, QUICK)
        waits: list[int] = []
        mail = await _only_mail(db)
        while mail.due_at is not None:
            clock.now = max(clock.now, mail.due_at)
            await _drain(mailer)
            mail = await _only_mail(db)
            waits.append(0 if mail.due_at is None else mail.due_at - clock.now)
        await mailer.finish()
    assert mail.status == "FAILED"
    assert "451" in mail.result
    assert mail.attempts == len(waits) == len(QUICK.retry_delays_ms) + 1
    for wait, configured in zip(waits, QUICK.retry_delays_ms, strict=False):
        assert 0.9 * configured <= wait <= 1.1 * configured


async def test_an_unreachable_mail_server_costs_no_attempts(db: Db) -> None:
    with MailServer() as server:
        settings = mail_settings(server.url)
    await queue_mails(db, settings, 3)  # the server has stopped
    mailer = Mailer(db, settings, now_ms, QUICK)
    assert await mailer.turn() == 0
    assert (await count_statuses(db)) == {"WAITING": 3}
    async with db.connection() as tx:
        mails = await outbox.list_newest(tx, None, None, 10)
    assert {mail.attempts for mail in mails} == {0}
    await mailer.finish()


async def test_a_mail_whose_worker_was_killed_is_unknown_and_is_sent_again_only_by_staff(
    db: Db,
) -> None:
    with MailServer() as server:
        settings, clock = mail_settings(server.url), Clock()
        await queue_mails(db, settings, 1)
        # A worker claims the mail and is then killed.
        async with db.connection() as tx:
            await queries.CLAIM.all(tx, now=clock.now, lease_until=clock.now + 1000, limit=1)
        mailer = Mailer(db, settings, clock, QUICK)
        await _drain(mailer)
        assert (await _only_mail(db)).status == "SENDING"
        clock.now += 1001
        await _drain(mailer)
        mail = await _only_mail(db)
        assert (mail.status, mail.attempts) == ("UNKNOWN", 1)
        assert "stopped" in mail.result
        resent_ids = {
            (
                await db.run(lambda tx: outbox.resend(tx, settings, "", mail.id, "form", clock.now))
            ).id
            for _ in range(2)
        }
        assert len(resent_ids - {mail.id}) == 1
        await _drain(mailer)
        await mailer.finish()
        # The Message-ID stays the same, so that the recipient's mail program can recognize the
        # repetition.
        assert [message["Message-ID"] for _, message in server.accepted] == [mail.message_id]


async def test_a_result_after_the_end_of_the_lease_still_counts(db: Db) -> None:
    with MailServer() as server:
        settings, clock = mail_settings(server.url), Clock()
        await queue_mails(db, settings, 1)
        async with db.connection() as tx:
            (claimed_mail,) = await queries.CLAIM.all(
                tx, now=clock.now, lease_until=clock.now, limit=1
            )
            await queries.EXPIRE_LEASES.run(tx, now=clock.now, result="unknown", limit=1)
            assert (await _only_mail(db)).status == "UNKNOWN"
            await queries.RECORD.run(
                tx, merchant_id="", id=claimed_mail.id, attempts=1, status="SENT",
                due_at=None, result="250 OK", now=clock.now,
            )  # fmt: skip
    assert (await _only_mail(db)).status == "SENT"


async def test_a_failure_of_encryption_or_login_costs_no_attempt(db: Db, tmp_path: Path) -> None:
    tls = create_tls_contexts(tmp_path)
    trusting_options = msgspec.structs.replace(QUICK, tls_context=tls.client)
    with MailServer(**login_options("shop", "p@ss word", tls.server)) as server:
        host_and_port = f"127.0.0.1:{server.port}"
        good_url = f"smtp+starttls://shop:p%40ss%20word@{host_and_port}"
        await queue_mails(db, mail_settings(good_url), 1)
        for url, options in (
            (f"smtp+starttls://shop:other@{host_and_port}", trusting_options),
            (f"smtp+starttls://{host_and_port}", trusting_options),  # the server requires a login
            (f"smtp://{host_and_port}", trusting_options),  # the server requires encryption
            (good_url, QUICK),  # QUICK does not trust the server's certificate
        ):
            mailer = Mailer(db, mail_settings(url), now_ms, options)
            await mailer.turn()
            await mailer.finish()
            mail = await _only_mail(db)
            assert (mail.status, mail.attempts) == ("WAITING", 0), url
        mailer = Mailer(db, mail_settings(good_url), now_ms, trusting_options)
        await _drain(mailer)
        await mailer.finish()
        assert len(server.accepted) == 1
    # The connection uses TLS from its start, without STARTTLS.
    with MailServer(ssl=tls.server) as server:
        settings = mail_settings(f"smtps://127.0.0.1:{server.port}")
        await queue_mails(db, settings, 2)
        mailer = Mailer(db, settings, now_ms, trusting_options)
        await _drain(mailer)
        await mailer.finish()
        assert len(server.accepted) == 1  # the first of the two mails was sent before


async def test_no_mail_is_queued_without_a_mail_server(db: Db) -> None:
    queued_mails = await db.run(
        lambda tx: outbox.queue(tx, Settings(), [numbered_mail(1)], now_ms())
    )
    assert queued_mails == []
    assert await count_statuses(db) == {}


@pytest.mark.parametrize(
    ("count", "kills"), [(120, 2), pytest.param(10_000, 20, marks=pytest.mark.stress)]
)
async def test_killed_mailers_send_no_message_twice(
    fork_server: ForkServer, db: Db, database_url: str, count: int, kills: int
) -> None:
    rng = random.Random(7)

    def fault() -> Fault:
        return rng.choice(("later", "cut")) if rng.random() < 0.3 else ""

    with MailServer(fault) as server:
        await send_with_killed_mailers(
            fork_server, db, database_url, server, count=count, kills=kills
        )
        counts = await assert_delivered_once(db, server, count)
    assert counts["SENT"] > count / 2
    assert set(counts) <= {"SENT", "UNKNOWN"}
