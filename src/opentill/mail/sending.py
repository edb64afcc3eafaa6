"""Sends due mails. An attempt is committed before its SMTP conversation, its result after it.

A mail is claimed when a connection is free, and its conversation begins at once; while the mail
server is away nothing is claimed. If a worker is killed before it stores the result, the lease of
the mail expires and the mail becomes UNKNOWN; it is not sent again automatically (decision 0085).
"""

import asyncio
import secrets
import ssl
import time
from collections.abc import Callable
from email.utils import parseaddr
from typing import Final
from zoneinfo import ZoneInfo

import msgspec
import structlog

from opentill.core import metrics
from opentill.core.errors import Invalid, Unavailable
from opentill.core.ids import new_id
from opentill.core.settings import Settings
from opentill.db.database import Db
from opentill.http import inputs
from opentill.mail import queries, rendering
from opentill.mail.model import (
    GIVE_UP_MS,
    MINUTE_MS,
    NO_MERCHANT,
    RETRY_DELAYS_MS,
    Mail,
    MessageContext,
    Status,
    TestContent,
)
from opentill.mail.rendering import Draft, Unrenderable
from opentill.mail.smtp import TIMEOUT_S, Connection, Outcome, Server, Unreached
from opentill.mail.topics import BY_NAME
from opentill.web.language import Localizer

_LEASE_EXPIRED: Final = "unknown: the worker stopped during the conversation with the mail server"
_AWAY_PAUSES_S: Final = (5.0, 15.0, 60.0, 300.0)  # pauses while the mail server cannot be reached
# Delays vary by up to this percentage, so that mails that failed together are not retried together.
_JITTER_PERCENT: Final = 10
_BATCH: Final = 500
_POLL_S: Final = 0.25
_TEST_TIMEOUT_S: Final = 10.0
_log: Final = structlog.get_logger()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and times of sending."""

    connections: int = 4  # most connections of one process to the mail server
    messages: int = 100  # a connection is closed after this many messages
    idle_s: float = 10.0  # a connection is closed if it is idle for this time
    timeout_s: float = TIMEOUT_S  # longest wait for one reply
    # A conversation waits for at most five replies, so that it ends before its lease does.
    lease_ms: int = 10 * MINUTE_MS
    retry_delays_ms: tuple[int, ...] = RETRY_DELAYS_MS
    cleanup_s: float = 5.0  # pause between two searches for expired leases
    record_s: float = 60.0  # for how long a worker tries to store a result
    tls_context: ssl.SSLContext | None = None


class Mailer:
    """Sends due mails over several connections. Any number of mailers may run."""

    def __init__(
        self,
        db: Db,
        settings: Settings,
        clock: Callable[[], int],
        options: Options = Options(),  # noqa: B008 - frozen
    ) -> None:
        """``clock`` returns business time, Unix ms."""
        self._db = db
        self._settings = settings
        self._clock = clock
        self._options = options
        self._server = Server.parse(settings.smtp_url)
        self._sender = parseaddr(settings.mail_from)[1]
        # Idle connections, each with the time of its last use (monotonic clock).
        self._idle: list[tuple[Connection, float]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures = 0  # consecutive tries that did not reach the server
        self._retry_at = self._cleanup_at = 0.0  # times on the monotonic clock

    async def turn(self) -> int:
        """Start due mails, wait until one ends, return how many were started or are being sent."""
        started = await self.start_due()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
        await self._close_idle()
        return started or len(self._tasks)

    async def start_due(self) -> int:
        """Claim as many due mails as there are free connections, and start to send them."""
        now = self._clock()
        await self._clean_up(now)
        free_connections = self._options.connections - len(self._tasks)
        if free_connections <= 0 or not await self._reach_server():
            return 0
        async with self._db.connection() as tx:
            mails = await queries.CLAIM.all(
                tx, now=now, lease_until=now + self._options.lease_ms, limit=free_connections
            )
        for mail in mails:
            task = asyncio.create_task(self._process(mail))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return len(mails)

    async def _clean_up(self, now: int) -> None:
        """End mails whose lease has expired, and those that are too old."""
        if time.monotonic() < self._cleanup_at:
            return
        self._cleanup_at = time.monotonic() + self._options.cleanup_s
        async with self._db.connection() as tx:
            await queries.EXPIRE_LEASES.run(tx, now=now, result=_LEASE_EXPIRED, limit=_BATCH)
            await queries.GIVE_UP.run(tx, now=now, before=now - GIVE_UP_MS, limit=_BATCH)

    async def finish(self) -> None:
        """Wait for running conversations, and close all connections."""
        await asyncio.gather(*self._tasks)
        await self._close_idle(older_than_s=0)

    async def _reach_server(self) -> bool:
        """Whether the mail server can be reached; opens a connection if a mail is due."""
        self._idle = [(connection, since) for connection, since in self._idle if connection.is_open]
        if self._idle or self._tasks:
            return True
        if time.monotonic() < self._retry_at or not await self._has_due():
            return False
        connection = await self._connect()
        if connection is None:
            return False
        self._idle.append((connection, time.monotonic()))
        return True

    async def _has_due(self) -> bool:
        async with self._db.connection() as tx:
            return bool(await queries.HAS_DUE.get(tx, now=self._clock()))

    async def _connect(self) -> Connection | None:
        options = self._options
        try:
            connection = await Connection.open(
                self._server,
                self._sender.rpartition("@")[2],
                timeout_s=options.timeout_s,
                tls_context=options.tls_context,
            )
        except Unreached as error:
            self._pause(str(error))
            return None
        self._failures = 0
        return connection

    def _pause(self, reason: str) -> None:
        """Do not try to reach the mail server for a while."""
        pause_s = _AWAY_PAUSES_S[min(self._failures, len(_AWAY_PAUSES_S) - 1)]
        self._failures += 1
        self._retry_at = time.monotonic() + pause_s
        _log.warning("mail server away", reason=reason, pause_s=pause_s)

    async def _process(self, mail: Mail) -> None:
        """Send one mail and store the result."""
        started_at = time.perf_counter()
        try:
            outcome = await self._send(mail)
        except Unrenderable as error:
            outcome = Outcome("failed", str(error))
        except Unavailable as error:
            outcome = Outcome("unreached", f"the database was away: {error.reason}")
        except Exception:  # noqa: BLE001 - a failed mail must not stop the others
            _log.exception("mail could not be made", mail=mail.id)
            outcome = Outcome("again", "an error of OpenTill's own, see the log")
        metrics.count_job("mail", outcome.kind, time.perf_counter() - started_at)
        await self._record(mail, outcome)

    async def _send(self, mail: Mail) -> Outcome:
        message = await rendering.render(self._db, self._settings, mail, self._clock())
        idle = self._idle.pop()[0] if self._idle else None
        connection = idle or await self._connect()
        if connection is None:
            return Outcome("unreached", "the mail server was not reached")
        outcome = await connection.send(self._sender, mail.recipient, message)
        # If the server had closed the idle connection meanwhile, send over a new one.
        if outcome.kind == "unreached" and idle is not None:
            connection = await self._connect()
            if connection is None:
                return outcome
            outcome = await connection.send(self._sender, mail.recipient, message)
        if connection.is_open and connection.messages < self._options.messages:
            self._idle.append((connection, time.monotonic()))
        else:
            await connection.quit()
        if outcome.kind == "unreached":
            self._pause(outcome.detail)
        return outcome

    async def _record(self, mail: Mail, outcome: Outcome) -> None:
        """Store a result; if the database stays away, the lease of the mail expires."""
        until = time.monotonic() + self._options.record_s
        while True:
            try:
                await self._record_once(mail, outcome)
            except Unavailable:
                if time.monotonic() >= until:
                    _log.error("result of a mail not written", mail=mail.id, ended=outcome.kind)
                    return
                await asyncio.sleep(_POLL_S)
            else:
                return

    async def _record_once(self, mail: Mail, outcome: Outcome) -> None:
        now = self._clock()
        attempt = {"merchant_id": mail.merchant_id, "id": mail.id, "attempts": mail.attempts}
        if outcome.kind == "unreached":
            async with self._db.connection() as tx:
                await queries.RELEASE.run(tx, **attempt, due_at=now, result=outcome.detail, now=now)
            return
        status, due_at = self._next_status(mail, outcome, now)
        async with self._db.connection() as tx:
            await queries.RECORD.run(
                tx, **attempt, status=status, due_at=due_at, result=outcome.detail, now=now
            )
        if status != "SENT":
            _log.warning(
                "mail not sent", mail=mail.id, topic=mail.topic, status=status, why=outcome.detail
            )

    def _next_status(self, mail: Mail, outcome: Outcome, now: int) -> tuple[Status, int | None]:
        """Return the status after an outcome, and when the next attempt is due."""
        if outcome.kind == "sent":
            return "SENT", None
        if outcome.kind == "unknown":
            return "UNKNOWN", None
        delays = self._options.retry_delays_ms
        if outcome.kind == "failed" or mail.attempts > len(delays):
            return "FAILED", None
        delay = delays[mail.attempts - 1]
        jitter = delay * _JITTER_PERCENT // 100
        return "WAITING", now + delay - jitter + secrets.randbelow(2 * jitter + 1)

    async def _close_idle(self, *, older_than_s: float | None = None) -> None:
        idle_s = self._options.idle_s if older_than_s is None else older_than_s
        before = time.monotonic() - idle_s
        old = [connection for connection, since in self._idle if since <= before]
        self._idle = [pair for pair in self._idle if pair[0] not in old]
        for connection in old:
            await connection.quit()


# ── tests of the mail server ───────────────────────────────────────────────────────────────────


async def check_server(settings: Settings) -> Server:
    """Connect to the mail server, log in, and disconnect. Raises Unreached."""
    server = Server.parse(settings.smtp_url)
    connection = await Connection.open(server, _domain(settings), timeout_s=_TEST_TIMEOUT_S)
    await connection.quit()
    return server


def _domain(settings: Settings) -> str:
    return parseaddr(settings.mail_from)[1].rpartition("@")[2]


async def send_test_mail(settings: Settings, recipient: str, now: int) -> Outcome:
    """Send a test message at once, without the outbox. Raises Invalid and Unreached.

    The outcome is "failed" for an address to which no mail can be sent.
    """
    if not settings.sends_mail:
        reason = "mail must be set up: set OPENTILL_SMTP_URL and OPENTILL_MAIL_FROM"
        raise Invalid("mail", reason)
    address = inputs.check_email("email", recipient)
    content = TestContent(at=now)
    mail_id = new_id("mail")
    mail = Mail(
        merchant_id=NO_MERCHANT,
        id=mail_id,
        topic="test",
        cause=mail_id,
        recipient=address,
        order_id=None,
        language="en",
        data=msgspec.json.encode(content).decode(),
        secret=None,
        message_id=f"<{mail_id}@{_domain(settings)}>",
        status="SENDING",
        attempts=1,
        due_at=now,
        result="",
        created_at=now,
        updated_at=now,
    )
    context = MessageContext(
        localizer=Localizer("merchant", "en"),
        zone=ZoneInfo("UTC"),
        public_url=settings.public_url,
        shop="",
    )
    message = BY_NAME["test"].template(content, context)
    draft = Draft(mail=mail, message=message, context=context, is_test_mode=False)
    try:
        encoded = rendering.encode(settings, draft, None)
    except Unrenderable as error:
        return Outcome("failed", str(error))
    server = Server.parse(settings.smtp_url)
    connection = await Connection.open(server, _domain(settings), timeout_s=_TEST_TIMEOUT_S)
    try:
        return await connection.send(parseaddr(settings.mail_from)[1], address, encoded)
    finally:
        await connection.quit()
