"""One connection to PostgreSQL, perhaps with a pooler in between, and what makes it try again.

A statement outside a transaction is a transaction of its own: where PostgreSQL says that it
collided with another (40001, 40P01), it had no effect, and it is run again here. Inside a
transaction only the whole can be run again, see ``Db.run``.
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
    asyncpg.InvalidCachedStatementError,  # a migration of a later version ran meanwhile
)
# What a prepared statement meets behind a pooler that hands out connections for a transaction.
_POOLED: Final = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)
_LOOK_S: Final = 3.0
_PATIENCE_S: Final = 10.0
_LONGEST_PAUSE_S: Final = 0.2
POOLER_HINT: Final = (
    "the database is behind a pooler that keeps no prepared statements;"
    " set OPENTILL_DB_PREPARED=no, or max_prepared_statements in PgBouncer 1.21 or newer"
)
# What asyncpg raises for an address that it cannot read. Only texts of ClientConfigurationError, a
# ValueError too, say what is wrong; some of them end with a part of the address.
UNREADABLE: Final = (ValueError, IndexError)
_QUOTED: Final = re.compile(r"(?:, got | in the connection URI: |(?<= TLS version): ).*")
_UNREADABLE: Final = (
    "its address cannot be read: a host, a port or a parameter after ? is wrong, or the password"
    " has a character that must be percent-encoded, or be in OPENTILL_DATABASE_PASSWORD"
)
# What PgBouncer says of a wrong address. All its own errors have the code 08P01, also those that
# pass by themselves, such as query_wait_timeout while PostgreSQL is away.
_REFUSED_BY_POOLER: Final = re.compile("no such (database|user)|authentication failed")

# The method behind asyncpg's fetch… and execute with parameters. To override it alone costs one
# frame for each statement; tests/db/test_serializable.py holds that they still call it.
_plain: Final[Callable[..., Awaitable[Any]]] = vars(asyncpg.Connection)["_execute"]


class Tries:
    """How often and for how long something that collided is tried again."""

    def __init__(self) -> None:
        """Begin now."""
        self._end = time.monotonic() + _PATIENCE_S
        self._number = 0

    async def pause(self, error: Exception) -> None:
        """Wait a moment, longer each time and never the same as others that collided with us.

        Raises Contended where it has taken too long.
        """
        if time.monotonic() > self._end:
            raise Contended(reason="too many collisions, try again") from error
        longest = min(_LONGEST_PAUSE_S, 0.004 * 2**self._number)
        self._number += 1
        await asyncio.sleep(random.uniform(0, longest))  # noqa: S311 - no secret


class Connection(asyncpg.Connection):
    """asyncpg's connection whose single statements try again after a collision."""

    # What is to be done once the running transaction is committed; None outside ``Db.transaction``.
    once_committed: list[Callable[[], None]] | None = None

    async def execute(self, query: str, *args: Any, **options: Any) -> str:
        """Run a statement; without parameters it may be several, and is not prepared."""
        run = partial(super().execute, query, *args, **options)
        if args or self.is_in_transaction():
            return await run()
        return await _again(run)

    async def _execute(self, *statement: Any, **options: Any) -> Any:
        """Run a statement with parameters, or one that returns rows."""
        autocommit = not self.is_in_transaction()
        try:
            return await _plain(self, *statement, **options)
        except (*COLLIDED, *_POOLED) as error:
            if not autocommit:
                raise
            return await _again(partial(_plain, self, *statement, **options), error)


class Unprepared(Connection):
    """A connection through a pooler in transaction mode: nothing outlives a transaction.

    asyncpg parses a statement and runs it in two messages, between which such a pooler may change
    the connection behind; inside a transaction it may not.
    """

    async def _execute(self, *statement: Any, **options: Any) -> Any:
        """Run a statement that stands by itself in a transaction of its own."""
        if self.is_in_transaction():
            return await _plain(self, *statement, **options)
        return await _again(partial(self._in_transaction, *statement, **options))

    async def _in_transaction(self, *statement: Any, **options: Any) -> Any:
        async with self.transaction():
            return await _plain(self, *statement, **options)

    def _get_unique_id(self, prefix: str) -> str:
        """Name cursors and savepoints, on a connection that other processes named theirs on."""
        return f"opentill_{prefix}_{uuid4().hex}"


async def _again(run: Callable[[], Awaitable[T]], error: Exception | None = None) -> T:
    """Run a statement that is its own transaction until it does not collide.

    ``error`` is what it raised when it ran already.
    """
    tries = Tries()
    while True:
        if isinstance(error, _POOLED):
            raise Unavailable(reason=POOLER_HINT) from error
        if error is not None:
            await tries.pause(error)
        try:
            return await run()
        except (*COLLIDED, *_POOLED) as found:
            error = found


def options(*, prepared: bool = True) -> dict[str, Any]:
    """Return the arguments of ``asyncpg.connect`` for a connection of either kind."""
    kind = Connection if prepared else Unprepared
    return {"connection_class": kind} | ({} if prepared else {"statement_cache_size": 0})


async def connect(url: str, *, prepared: bool = True, timeout_s: float = 10) -> asyncpg.Connection:
    """Open a connection by itself. Raises what asyncpg raises."""
    return await asyncpg.connect(url, timeout=timeout_s, **options(prepared=prepared))


def why(error: Exception) -> str:
    """Say why a connection could not be opened, without any part of its address's password."""
    if isinstance(error, asyncpg.ClientConfigurationError):
        return _QUOTED.sub("", str(error).partition("\n")[0])  # without hints on further lines
    if isinstance(error, UNREADABLE):
        return _UNREADABLE
    return str(error) or type(error).__name__


def is_refused_by_pooler(error: Exception) -> bool:
    """Return whether a pooler knows no such database or user, or another password."""
    violation = isinstance(error, asyncpg.ProtocolViolationError)
    return violation and bool(_REFUSED_BY_POOLER.search(str(error)))


async def is_direct(connection: asyncpg.Connection) -> bool:
    """Return whether a connection is PostgreSQL's own, without a pooler in between."""
    return bool(connection.get_server_pid() == await queries.SESSION.get(connection))


async def loses_statements(url: str, first: asyncpg.Connection) -> bool:
    """Return whether the address is of a pooler that forgets prepared statements.

    ``first``: an open connection to it, not ``prepared``. PostgreSQL names its session's process
    when a connection begins; a pooler does not know yet which session it will be.

    Two connections that are open at once and share a session of PostgreSQL show a pooler in
    transaction mode; PgBouncer 1.21 or newer may keep the statements all the same. A busy pooler
    may give each connection a session: then the first statement that is lost raises an error with
    the same advice.
    """
    if await is_direct(first):
        return False
    second = await connect(url, prepared=False)
    try:
        statement = await first.prepare(queries.SESSION.sql, name=f"opentill_{uuid4().hex}")
        async with first.transaction():
            here = await queries.SESSION.get(first)
        async with second.transaction():
            if await queries.SESSION.get(second) != here:
                return False
            # The second holds that session: the first is given another one now.
            await statement.fetchval(timeout=_LOOK_S)
    except (*_POOLED, TimeoutError):
        return True
    finally:
        await second.close()
    return False
