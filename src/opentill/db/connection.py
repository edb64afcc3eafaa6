"""A connection to PostgreSQL, directly or through a pooler, that retries statements.

A statement outside a transaction is a transaction of its own. If PostgreSQL reports that the
statement collided with another transaction (40001, 40P01), it had no effect and is run again.
Inside a transaction, only the whole transaction can be run again: see ``Db.run``.
"""

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar
from uuid import uuid4

import asyncpg

from opentill.core.errors import Contended, Unavailable
from opentill.db import queries

T = TypeVar("T")
COLLIDED: Final = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.InvalidCachedStatementError,  # a migration of a later version ran in the meantime
)
# Prepared statements raise these errors behind a pooler in transaction mode.
_POOLED: Final = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)
_POOLER_CHECK_S: Final = 3.0
_RETRY_S: Final = 10.0
_LONGEST_PAUSE_S: Final = 0.2
POOLER_HINT: Final = (
    "the database is behind a pooler that keeps no prepared statements;"
    " set OPENTILL_DB_PREPARED=no, or max_prepared_statements in PgBouncer 1.21 or newer"
)
# asyncpg's errors for an address that it cannot parse. Of these, only a ClientConfigurationError (a
# ValueError) says what is wrong; some of its texts end with a part of the address.
UNREADABLE: Final = (ValueError, IndexError)
_QUOTED: Final = re.compile(r"(?:, got | in the connection URI: |(?<= TLS version): ).*")
_UNREADABLE: Final = (
    "its address cannot be read: a host, a port or a parameter after ? is wrong, or the password"
    " has a character that must be percent-encoded, or be in OPENTILL_DATABASE_PASSWORD"
)
# PgBouncer's errors for a wrong address. All its errors have the code 08P01, also temporary ones
# such as query_wait_timeout while PostgreSQL is away.
_REFUSED_BY_POOLER: Final = re.compile("no such (database|user)|authentication failed")

# asyncpg's fetch… and its execute with parameters all call this method, so overriding it adds only
# one frame to each statement. tests/db/test_serializable.py checks that they still call it.
_plain: Final[Callable[..., Awaitable[Any]]] = vars(asyncpg.Connection)["_execute"]


class Backoff:
    """The pauses between retries after collisions, and when to give up."""

    def __init__(self) -> None:
        """The time for retries begins now."""
        self._end = time.monotonic() + _RETRY_S
        self._number = 0

    async def pause(self, error: Exception) -> None:
        """Wait for a random time, longer with each retry. Raises Contended after ``_RETRY_S``."""
        if time.monotonic() > self._end:
            raise Contended(reason="too many collisions, try again") from error
        longest = min(_LONGEST_PAUSE_S, 0.004 * 2**self._number)
        self._number += 1
        await asyncio.sleep(random.uniform(0, longest))  # noqa: S311 - no secret


class Connection(asyncpg.Connection):
    """asyncpg's connection, but statements outside a transaction are retried after a collision."""

    # Callbacks after the commit of the running transaction; None outside ``Db.transaction``.
    after_commit: list[Callable[[], None]] | None = None

    async def execute(self, query: str, *args: Any, **options: Any) -> str:
        """Run a statement. Without ``args``, ``query`` may be several statements, not prepared."""
        run = partial(super().execute, query, *args, **options)
        if args or self.is_in_transaction():
            return await run()
        return await _retry(run)

    async def _execute(self, *statement: Any, **options: Any) -> Any:
        """Run a statement with parameters, or one that returns rows."""
        autocommit = not self.is_in_transaction()
        try:
            return await _plain(self, *statement, **options)
        except (*COLLIDED, *_POOLED) as error:
            if not autocommit:
                raise
            return await _retry(partial(_plain, self, *statement, **options), error)


class Unprepared(Connection):
    """A connection through a pooler that keeps a session of PostgreSQL for one transaction only.

    asyncpg sends one message to parse a statement and another to run it. Between the two, such a
    pooler may switch to another connection of PostgreSQL, except inside a transaction.
    """

    async def _execute(self, *statement: Any, **options: Any) -> Any:
        """Run a statement inside a transaction."""
        if self.is_in_transaction():
            return await _plain(self, *statement, **options)
        return await _retry(partial(self._in_transaction, *statement, **options))

    async def _in_transaction(self, *statement: Any, **options: Any) -> Any:
        async with self.transaction():
            return await _plain(self, *statement, **options)

    def _get_unique_id(self, prefix: str) -> str:
        """Return a unique name for a cursor or savepoint, because processes share sessions."""
        return f"opentill_{prefix}_{uuid4().hex}"


async def _retry(run: Callable[[], Awaitable[T]], error: Exception | None = None) -> T:
    """Run a statement that is its own transaction until it does not collide.

    ``error`` is the exception of its first run, None if it has not been run yet.
    """
    backoff = Backoff()
    while True:
        if isinstance(error, _POOLED):
            raise Unavailable(reason=POOLER_HINT) from error
        if error is not None:
            await backoff.pause(error)
        try:
            return await run()
        except (*COLLIDED, *_POOLED) as raised:
            error = raised


def options(*, prepared: bool = True) -> dict[str, Any]:
    """Return the arguments of ``asyncpg.connect`` for a connection."""
    kind = Connection if prepared else Unprepared
    return {"connection_class": kind} | ({} if prepared else {"statement_cache_size": 0})


async def connect(url: str, *, prepared: bool = True, timeout_s: float = 10) -> asyncpg.Connection:
    """Open a connection outside a pool. Raises the exceptions of asyncpg."""
    return await asyncpg.connect(url, timeout=timeout_s, **options(prepared=prepared))


def why(error: Exception) -> str:
    """Describe why a connection could not be opened, without any part of the password."""
    if isinstance(error, asyncpg.ClientConfigurationError):
        return _QUOTED.sub("", str(error).partition("\n")[0])  # the other lines are hints
    if isinstance(error, UNREADABLE):
        return _UNREADABLE
    return str(error) or type(error).__name__


def is_refused_by_pooler(error: Exception) -> bool:
    """Whether a pooler says that it has no such database or user, or another password."""
    violation = isinstance(error, asyncpg.ProtocolViolationError)
    return violation and bool(_REFUSED_BY_POOLER.search(str(error)))


async def is_direct(connection: asyncpg.Connection) -> bool:
    """Whether a connection leads to PostgreSQL without a pooler in between.

    PostgreSQL names its process when a connection begins. A pooler then does not know yet which
    process it will be.
    """
    return bool(connection.get_server_pid() == await queries.SESSION.get(connection))


async def loses_statements(url: str, first: asyncpg.Connection) -> bool:
    """Whether the address leads to a pooler that loses prepared statements.

    ``first`` is an open connection to it that is not ``prepared``. If two open connections share a
    session of PostgreSQL, the pooler is in transaction mode; PgBouncer 1.21 or newer may keep the
    statements even so. A busy pooler may give each connection its own session, which hides this:
    then the first lost statement raises an error with the same advice.
    """
    if await is_direct(first):
        return False
    second = await connect(url, prepared=False)
    try:
        statement = await first.prepare(queries.SESSION.sql, name=f"opentill_{uuid4().hex}")
        async with first.transaction():
            session = await queries.SESSION.get(first)
        async with second.transaction():
            if await queries.SESSION.get(second) != session:
                return False
            # The second connection occupies that session, so the pooler must give the first one
            # another session.
            await statement.fetchval(timeout=_POOLER_CHECK_S)
    except (*_POOLED, TimeoutError):
        return True
    finally:
        await second.close()
    return False
