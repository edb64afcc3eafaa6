"""Sends what is due: the intent is committed before a conversation, its result after it.

A row is claimed when there is a connection for it, and its conversation begins at once; while the
mail server is away nothing is claimed. Whoever claims a row and does not say how it ended, because
it was killed, leaves a row whose lease lapses: it becomes UNKNOWN, and is never sent again by
itself (decision 0085).
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
from opentill.mail import model, queries, rendering
from opentill.mail.model import GIVE_UP_MS, MINUTE_MS, OF_NOBODY, WAITS_MS, Mail, Status, Words
from opentill.mail.rendering import Draft, Unwritable
from opentill.mail.smtp import TIMEOUT_S, Connection, Outcome, Server, Unreached
from opentill.mail.topics import BY_NAME
from opentill.web.language import Localizer

_LAPSED: Final = "unknown: the worker stopped during the conversation with the mail server"
_AWAY_S: Final = (5.0, 15.0, 60.0, 300.0)  # pauses while the mail server is away
_SPREAD: Final = 10  # percent, so that not all that failed at once is sent at once
_BATCH: Final = 500
_LOOK_S: Final = 0.25
_log: Final = structlog.get_logger()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How mail is sent; times in seconds unless named otherwise."""

    connections: int = 4  # of one process to the mail server
    messages: int = 100  # of one connection
    rest_s: float = 10.0  # for so long an open connection waits for the next message
    timeout_s: float = TIMEOUT_S  # of each reply
    # Longer than a conversation can take: it has at most five replies and their pauses.
    lease_ms: int = 10 * MINUTE_MS
    waits_ms: tuple[int, ...] = WAITS_MS
    tidy_s: float = 5.0  # between two looks for what has lapsed
    result_s: float = 60.0  # for so long a result is tried to be written
    trust: ssl.SSLContext | None = None


class Mailer:
    """Sends due mails, some at the same time. Any number of them may run."""

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
        self._server = Server.of(settings.smtp_url)
        self._sender = parseaddr(settings.mail_from)[1]
        self._open: list[tuple[Connection, float]] = []  # at rest, with since when
        self._tasks: set[asyncio.Task[None]] = set()
        self._away = 0  # how often in a row the server was not reached
        self._again_at = self._tidy_at = 0.0  # on the monotonic clock

    async def turn(self) -> int:
        """Send what there is room for, wait for the first that is over, and say how many."""
        began = await self.take()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        await self._close_rested()
        return began or len(self._tasks)

    async def take(self) -> int:
        """Claim what there is room for and begin to send it; return how many those are."""
        now = self._clock()
        await self._tidy(now)
        room = self._options.connections - len(self._tasks)
        if room <= 0 or not await self._reach():
            return 0
        async with self._db.connection() as tx:
            due = await queries.CLAIM.all(
                tx, now=now, lease_until=now + self._options.lease_ms, limit=room
            )
        for mail in due:
            task = asyncio.create_task(self._process(mail))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return len(due)

    async def _tidy(self, now: int) -> None:
        """End what no attempt will end any more."""
        if time.monotonic() < self._tidy_at:
            return
        self._tidy_at = time.monotonic() + self._options.tidy_s
        async with self._db.connection() as tx:
            await queries.LAPSE.run(tx, now=now, result=_LAPSED, limit=_BATCH)
            await queries.GIVE_UP.run(tx, now=now, before=now - GIVE_UP_MS, limit=_BATCH)

    async def finish(self) -> None:
        """End what is begun, and the connections."""
        await asyncio.gather(*self._tasks)
        await self._close_rested(everything=True)

    async def _reach(self) -> bool:
        """Return whether the mail server is there: a connection is at rest, or can be opened."""
        self._open = [(one, since) for one, since in self._open if one.is_open]
        if self._open or self._tasks:
            return True
        if time.monotonic() < self._again_at or not await self._has_due():
            return False
        connection = await self._connect()
        if connection is None:
            return False
        self._open.append((connection, time.monotonic()))
        return True

    async def _has_due(self) -> bool:
        async with self._db.connection() as tx:
            return bool(await queries.HAS_DUE.get(tx, now=self._clock()))

    async def _connect(self) -> Connection | None:
        name = self._sender.rpartition("@")[2]
        options = self._options
        try:
            made = await Connection.open(
                self._server, name, timeout_s=options.timeout_s, trust=options.trust
            )
        except Unreached as error:
            self._away_again(str(error))
            return None
        self._away = 0
        return made

    def _away_again(self, reason: str) -> None:
        pause = _AWAY_S[min(self._away, len(_AWAY_S) - 1)]
        self._away += 1
        self._again_at = time.monotonic() + pause
        _log.warning("mail server away", reason=reason, pause_s=pause)

    async def _process(self, mail: Mail) -> None:
        """Send one mail and write how that ended."""
        started = time.perf_counter()
        try:
            outcome = await self._send(mail)
        except Unwritable as error:
            outcome = Outcome("failed", str(error))
        except Unavailable as error:
            outcome = Outcome("unreached", f"the database was away: {error.reason}")
        except Exception:  # noqa: BLE001 - it is logged, and the others go on
            _log.exception("mail could not be made", mail=mail.id)
            outcome = Outcome("again", "an error of OpenTill's own, see the log")
        metrics.count_job("mail", outcome.ended, time.perf_counter() - started)
        await self._keep(mail, outcome)

    async def _send(self, mail: Mail) -> Outcome:
        message = await rendering.render(self._db, self._settings, mail, self._clock())
        rested = self._open.pop()[0] if self._open else None
        connection = rested or await self._connect()
        if connection is None:
            return Outcome("unreached", "the mail server was not reached")
        outcome = await connection.send(self._sender, mail.recipient, message)
        if outcome.ended == "unreached" and rested is not None:  # the server has closed that one
            connection = await self._connect()
            if connection is None:
                return outcome
            outcome = await connection.send(self._sender, mail.recipient, message)
        if connection.is_open and connection.sent < self._options.messages:
            self._open.append((connection, time.monotonic()))
        else:
            await connection.quit()
        if outcome.ended == "unreached":
            self._away_again(outcome.detail)
        return outcome

    async def _keep(self, mail: Mail, outcome: Outcome) -> None:
        """Write how a conversation ended, as long as it takes; else its lease lapses."""
        until = time.monotonic() + self._options.result_s
        while True:
            try:
                await self._record(mail, outcome)
            except Unavailable:
                if time.monotonic() >= until:
                    _log.error("result of a mail not written", mail=mail.id, ended=outcome.ended)
                    return
                await asyncio.sleep(_LOOK_S)
            else:
                return

    async def _record(self, mail: Mail, outcome: Outcome) -> None:
        now = self._clock()
        of = {"merchant_id": mail.merchant_id, "id": mail.id, "attempts": mail.attempts}
        if outcome.ended == "unreached":
            async with self._db.connection() as tx:
                await queries.PUT_BACK.run(tx, **of, due_at=now, result=outcome.detail, now=now)
            return
        status, due_at = self._following(mail, outcome, now)
        async with self._db.connection() as tx:
            await queries.RECORD.run(
                tx, **of, status=status, due_at=due_at, result=outcome.detail, now=now
            )
        if status != "SENT":
            _log.warning(
                "mail not sent", mail=mail.id, topic=mail.topic, status=status, why=outcome.detail
            )

    def _following(self, mail: Mail, outcome: Outcome, now: int) -> tuple[Status, int | None]:
        """Return the status after an outcome, and when there is another attempt."""
        if outcome.ended == "sent":
            return "SENT", None
        if outcome.ended == "unknown":
            return "UNKNOWN", None
        waits = self._options.waits_ms
        if outcome.ended == "failed" or mail.attempts > len(waits):
            return "FAILED", None
        wait = waits[mail.attempts - 1]
        widest = wait * _SPREAD // 100
        return "WAITING", now + wait - widest + secrets.randbelow(2 * widest + 1)

    async def _close_rested(self, *, everything: bool = False) -> None:
        before = time.monotonic() - (0 if everything else self._options.rest_s)
        old = [one for one, since in self._open if since <= before]
        self._open = [pair for pair in self._open if pair[0] not in old]
        for connection in old:
            await connection.quit()


_TIMEOUT_S: Final = 10.0


async def check_server(settings: Settings) -> Server:
    """Connect to the mail server, log in, and leave. Raises Unreached."""
    server = Server.of(settings.smtp_url)
    connection = await Connection.open(server, _domain(settings), timeout_s=_TIMEOUT_S)
    await connection.quit()
    return server


def _domain(settings: Settings) -> str:
    return parseaddr(settings.mail_from)[1].rpartition("@")[2]


async def send_test_mail(settings: Settings, recipient: str, now: int) -> Outcome:
    """Send a message that says that mail works, at once and past the outbox.

    An address that no mail can be sent to is a failed outcome. Raises Invalid, and Unreached.
    """
    if not settings.sends_mail:
        reason = "mail must be set up: set OPENTILL_SMTP_URL and OPENTILL_MAIL_FROM"
        raise Invalid("mail", reason)
    to = inputs.check_email("email", recipient)
    said = model.TestContent(at=now)
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
        encoded = rendering.lay_out(settings, draft, None)
    except Unwritable as error:
        return Outcome("failed", str(error))
    server = Server.of(settings.smtp_url)
    connection = await Connection.open(server, _domain(settings), timeout_s=_TIMEOUT_S)
    try:
        return await connection.send(parseaddr(settings.mail_from)[1], to, encoded)
    finally:
        await connection.quit()
