"""The environment of commands: settings, a database with the current schema, transactions.

Commands work beside a server: a running embedded database is shared, a stopped one is started for
the time of the command.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from opentill.cli import identity
from opentill.cli.progress import progress
from opentill.core.errors import ConfigurationError
from opentill.core.settings import Settings

if TYPE_CHECKING:
    from opentill.db.database import Db, Tx

T = TypeVar("T")
LONGEST_PAUSE_S: Final = 5.0
NEWER: Final = (
    "the database is of a newer OpenTill (it has {}); this one runs with it for as long as an"
    " upgrade takes, or going back"
)


def settings(
    *, quiet: bool = True, creates: bool = False, keys: bool = True, new_key: bool = False
) -> Settings:
    """Return the settings with all keys, and configure the log of this process.

    ``quiet``: log only warnings, unless another level than info is set. ``creates``: the command
    may create a deployment in the data directory; otherwise it must have one. Without ``keys``, no
    key is read or created. ``new_key``: create a missing secret key, even if secrets were encrypted
    with another key. Raises ``ConfigurationError``.
    """
    from opentill import config
    from opentill.core import log
    from opentill.server.embedded import datadir

    loaded = config.load(os.environ)
    if loaded.database_url is None and not creates:
        datadir.check_exists(loaded.data_dir)
    if keys:
        loaded = config.with_keys(loaded, anew=new_key)
    for line in config.warn_about_unknown_variables(os.environ):
        _say(f"warning: {line}")
    log.configure("warning" if quiet and loaded.log_level == "info" else loaded.log_level)
    return loaded


def _say(text: str) -> None:
    """Write a line to standard error, ignoring a full disk or a closed pipe."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"opentill: {text}\n")


class DatabaseAway(ConfigurationError):
    """The database is temporarily unreachable."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def leave(*_: object) -> None:
    """SIGTERM handler that exits and runs every ``finally``."""
    sys.exit(0)


def end(*_: object) -> None:
    """SIGTERM handler like ``leave``, with exit code 143, because work is unfinished."""
    sys.exit(128 + signal.SIGTERM)


@contextmanager
def running_database(
    configured: Settings, *, patient: bool = False, creates: bool = False, any_key: bool = False
) -> Iterator[Settings]:
    """Yield the settings with the URL of a running database whose schema and key match.

    An embedded database is started if necessary, and migrated; with ``creates`` it is created. The
    operator's own database is only checked; with ``patient``, after waiting for it. ``any_key``:
    the database's secrets may be encrypted with another key. Blocks. Raises ``ConfigurationError``.
    """
    import msgspec

    from opentill.db import migrations

    if configured.database_url is not None:
        key = None if any_key else configured
        wait_for(configured.database_url, prepared=configured.db_prepared, patient=patient, key=key)
        yield configured
        return
    from opentill.server.embedded.postgres import EmbeddedPostgres

    with EmbeddedPostgres.start(configured.data_dir, creates=creates) as server:
        run(migrations.migrate(server.url))
        if not any_key:
            run(_look_at(server.url, prepared=False, migrated=True, key=configured))
        yield msgspec.structs.replace(configured, database_url=server.url)


def wait_for(
    url: str, *, prepared: bool, patient: bool, migrated: bool = True, key: Settings | None = None
) -> None:
    """Check that the operator's database responds, and has the current schema if ``migrated``.

    ``key``: settings whose secret key must have encrypted the database's secrets. ``patient``: wait
    without a limit for a database that does not respond. Blocks. Raises ``ConfigurationError``.
    """
    pause_s = 0.25
    while True:
        try:
            run(_look_at(url, prepared=prepared, migrated=migrated, key=key))
        except DatabaseAway as error:
            if not patient:
                raise
            _say(f"{error}; waiting for it")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        else:
            return


def check_replica(url: str, *, patience_s: float = 2.0) -> None:
    """Check that the replica's URL is valid; the replica itself may be unavailable.

    Blocks, no longer than ``patience_s``. Raises ``ConfigurationError``.
    """
    import asyncpg

    from opentill.db import connection as connections
    from opentill.db.database import AWAY

    async def look() -> None:
        connection = await connections.connect(url, prepared=False, timeout_s=patience_s)
        connection.terminate()

    try:
        run(look())
    except connections.UNREADABLE as error:
        raise _unusable("reached", connections.why(error), setting="DATABASE_READ_URL") from None
    except (*AWAY, asyncpg.PostgresError, asyncpg.InterfaceError):
        return  # an unreachable replica is used once it responds


@asynccontextmanager
async def database(
    configured: Settings | None = None, *, any_key: bool = False
) -> "AsyncIterator[Db]":
    """Connect to the database for a command: ``async with session.database() as db``.

    ``any_key`` as in ``running_database``. Raises ``ConfigurationError``, ``Unavailable``, and
    ``identity.NotAllowed`` if the command's user may not run it.
    """
    from opentill.db.database import Db

    configured = configured or settings()
    context = running_database(configured, any_key=any_key)
    with progress("starting the database"):
        ready = await asyncio.to_thread(context.__enter__)
    try:
        db = await Db.connect(ready.database_url or "", 2, prepared=ready.db_prepared)
        try:
            if identity.is_claimed():
                await identity.verify(db, configured, await now(db))
            yield db
        finally:
            await db.close()
    finally:
        await asyncio.to_thread(context.__exit__, None, None, None)


def query(
    work: "Callable[[Tx], Awaitable[T]]",
    configured: Settings | None = None,
    *,
    snapshot: bool = False,
) -> T:
    """Run a command that only reads, and return what ``work`` returns.

    ``snapshot``: all queries of ``work`` see the same state. Raises the exceptions of ``database``
    and ``work``.
    """

    async def command() -> T:
        async with database(configured) as db, db.snapshot() if snapshot else db.connection() as tx:
            return await work(tx)

    return run(command())


def transact(
    work: "Callable[[Tx, int], Awaitable[T]]",
    configured: Settings | None = None,
    *,
    any_key: bool = False,
) -> T:
    """Run a command that writes in one transaction, and return what ``work`` returns.

    ``work`` gets the transaction and the business time (Unix ms), and runs again after a collision.
    ``any_key``: see ``database``. Raises the exceptions of ``database`` and ``work``.
    """

    async def work_with_time(tx: "Tx") -> T:
        return await work(tx, await now(tx))

    async def command() -> T:
        async with database(configured, any_key=any_key) as db:
            return await db.run(work_with_time)

    return run(command())


async def now(place: "Db | Tx") -> int:
    """Return business time in Unix ms, read once per command.

    Raises ``Unavailable``.
    """
    from opentill import config
    from opentill.db import clock
    from opentill.db.database import Db

    gateways = config.load(os.environ).gateways
    if not isinstance(place, Db):
        return await clock.business_now(place, gateways)
    async with place.connection() as tx:
        return await clock.business_now(tx, gateways)


async def _check_key(tx: "Tx", configured: Settings) -> None:
    from opentill.db import secret_key

    async def opens(tx: "Tx", secret_key: str) -> bool:
        from opentill import epay  # imported late, because it is slow and rarely needed

        return await epay.key_decrypts(tx, secret_key)

    await secret_key.check(tx, configured.secret_key, configured.secret_key_from, opens)


async def _look_at(url: str, *, prepared: bool, migrated: bool, key: Settings | None) -> None:
    import asyncpg

    from opentill.db import connection as connections
    from opentill.db import migrations
    from opentill.db.database import AWAY

    trouble = (*AWAY, asyncpg.PostgresError, asyncpg.InterfaceError)
    connection: asyncpg.Connection | None = None
    try:
        connection = await connections.connect(url, prepared=False)
        forgets = migrated and prepared and await connections.loses_statements(url, connection)
    except (*trouble, *connections.UNREADABLE) as error:
        if connection is not None:
            connection.terminate()
        is_unreachable = isinstance(error, AWAY) and not connections.is_refused_by_pooler(error)
        raise _unusable("reached", connections.why(error), is_unreachable=is_unreachable) from None
    try:
        if forgets:
            raise ConfigurationError(connections.POOLER_HINT)
        newer = await migrations.check(connection) if migrated else []
        if newer:
            _say(NEWER.format(newer[-1]))
        if key is not None:
            await _check_key(connection, key)
        await connection.close()
    except trouble as error:
        raise _unusable(
            "read", connections.why(error), is_unreachable=isinstance(error, AWAY)
        ) from None
    finally:
        connection.terminate()


def _unusable(
    participle: str, reason: str, *, is_unreachable: bool = False, setting: str = "DATABASE_URL"
) -> ConfigurationError:
    """Return the error for a database that cannot be ``participle``, such as reached or read.

    ``setting`` is the variable with the database's URL, without ``OPENTILL_``.
    """
    message = f"the database of OPENTILL_{setting} cannot be {participle}: {reason}"
    return (DatabaseAway if is_unreachable else ConfigurationError)(message)
