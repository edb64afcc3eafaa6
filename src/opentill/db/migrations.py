"""Brings a database to the schema of this OpenTill: plain SQL files, forward only.

``migrations/0001_name.sql`` and so on, each in a transaction of its own, so that a file is applied
whole or not at all. Any number of processes may migrate at once: each transaction holds
``schema_migrations`` against other migrators, while readers, the running servers, go on.

Whoever waits for a lock on a table keeps everybody else waiting behind. So a file waits for each of
its locks for a moment only; then it is taken back, and tried again later. Files of indexes do
without (``indexes.py``).

The version before runs with the newer schema, also where it is started again: a crash in the middle
of an upgrade, or going back. A file that takes away what earlier versions need says so in its name,
and keeps them from starting: ``0031_drop_x_needs_0028`` runs with versions that know 0028
(decision 0117).
"""

import asyncio
import functools
import hashlib
import random
import re
import time
from pathlib import Path
from typing import Final

import asyncpg
import msgspec
import structlog

from opentill.core.errors import ConfigurationError, Contended
from opentill.db import connection as connections
from opentill.db import indexes, queries
from opentill.db.database import Tx
from opentill.db.indexes import Index
from opentill.db.queries import Applied

_log: Final = structlog.get_logger()

_PACKAGED: Final = Path(__file__).parents[1] / "migrations"
_CHECKOUT: Final = Path(__file__).parents[3] / "migrations"

_COLLIDED: Final = (
    asyncpg.DuplicateObjectError,  # a table brings a type of the same name
    asyncpg.DuplicateTableError,
    asyncpg.UniqueViolationError,
)
PATIENCE_S: Final = 600.0
_LOCK_WAIT: Final = "500ms"  # for which others may have to wait as well
_LONGEST_PAUSE_S: Final = 10.0
_NEEDS: Final = re.compile(r"_needs_(\d{4})$")
_IN_THE_WAY: Final = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)


class SchemaMismatch(ConfigurationError):
    """The database and this OpenTill do not fit; the text is one line that says what to do."""


class Migration(msgspec.Struct, frozen=True):
    """One file: its number, its name without the ending, its SQL and the digest of its bytes.

    ``indexes``: the indexes that it builds and removes, None for one that runs in a transaction.
    """

    version: int
    name: str
    sql: str
    sha256: str
    indexes: list[Index] | None = None


def folder() -> Path:
    """Where the files are: inside the installed package, or at the top of a checkout."""
    return _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT


def migrations(directory: Path | None = None) -> list[Migration]:
    """Read the files in order; raises ``SchemaMismatch`` if the numbers are not 1, 2, 3 …."""
    found: list[Migration] = []
    for path in sorted((directory or folder()).glob("[0-9]*.sql")):
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        number = int(path.stem.partition("_")[0])
        try:
            its_indexes = indexes.listed(content.decode())
        except ValueError as error:
            message = f"migration {path.stem}: {error}"
            raise SchemaMismatch(message) from None
        found.append(Migration(number, path.stem, content.decode(), digest, its_indexes))
    if [migration.version for migration in found] != list(range(1, len(found) + 1)) or not found:
        message = f"the migrations are not numbered 1, 2, 3 …: {[m.name for m in found]}"
        raise SchemaMismatch(message)
    return found


@functools.cache
def _shipped() -> list[Migration]:
    """Read the shipped files once: /readyz asks often, and an update may replace them under us."""
    return migrations()


async def migrate(
    url: str, directory: Path | None = None, *, patience_s: float = PATIENCE_S
) -> list[str]:
    """Apply what is missing to the database ``url``; the names of what was applied, in order.

    ``directory`` stands in for the shipped files, in tests. A file whose locks others hold is tried
    again for ``patience_s``. Raises ``SchemaMismatch`` if a file was altered after it was applied,
    the database needs a newer OpenTill, or a file fails.
    """
    known = migrations(directory)
    connection = await connections.connect(url, prepared=False)  # perhaps through a pooler
    try:
        await _create_table(connection)
        return [
            migration.name
            for migration in known
            if await _apply_patiently(url, connection, migration, known, patience_s)
        ]
    finally:
        await connection.close()


async def check(connection: Tx, *, directory: Path | None = None) -> list[str]:
    """See that this OpenTill runs with the database's schema; reads one small table.

    Returns the names of what a newer one has applied that it runs with all the same.
    Raises ``SchemaMismatch``.
    """
    known = migrations(directory) if directory else _shipped()
    try:
        applied = await _applied(connection, known)
    except asyncpg.UndefinedTableError:
        applied = []
    versions = {one.version for one in applied}
    missing = [migration.name for migration in known if migration.version not in versions]
    if missing:
        message = f"the database lacks {', '.join(missing)}; run `opentill migrate`"
        raise SchemaMismatch(message)
    return [one.name for one in applied if one.version > len(known)]


async def _create_table(connection: Tx) -> None:
    """Create the table of applied migrations.

    ``if not exists`` looks first and creates later, so that two migrators at once can collide.
    """
    while not await queries.HAS_MIGRATIONS.get(connection):
        try:
            await connection.execute(queries.CREATE_MIGRATIONS)
        except _COLLIDED:
            continue


async def _apply_patiently(
    url: str, connection: Tx, migration: Migration, known: list[Migration], patience_s: float
) -> bool:
    """Apply one file, again while others hold what it locks. Raises SchemaMismatch."""
    end, pause_s = time.monotonic() + patience_s, 0.5
    while True:
        try:
            return await _apply(url, connection, migration, known)
        except (*_IN_THE_WAY, Contended) as error:
            if time.monotonic() >= end:
                message = (
                    f"migration {migration.name} was taken back: others have held its tables for"
                    f" {patience_s:.0f} s; end long transactions and run `opentill migrate` again"
                )
                raise SchemaMismatch(message) from error
        except asyncpg.PostgresError as error:
            ended = "failed and was taken back"
            if migration.indexes is not None:
                ended = "stopped, and goes on where `opentill migrate` is run again"
            message = f"migration {migration.name} {ended}: {error}"
            raise SchemaMismatch(message) from error
        _log.warning("migration_waits", migration=migration.name, pause_s=pause_s)
        await asyncio.sleep(random.uniform(pause_s / 2, pause_s))  # noqa: S311 - no secret
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


async def _apply(url: str, connection: Tx, migration: Migration, known: list[Migration]) -> bool:
    """Apply one file; ``False`` if the database has it, perhaps by a migrator beside us."""
    # Other levels keep a snapshot, which building an index would wait for.
    async with connection.transaction(isolation="read_committed"):
        await connection.execute(queries.LOCK_MIGRATIONS)
        if migration.version in {one.version for one in await _applied(connection, known)}:
            return False
        if migration.indexes is None:
            await queries.LIMIT_LOCK_WAITS.get(connection, longest=_LOCK_WAIT)
            await connection.execute(migration.sql)
        else:
            await connection.execute(queries.STAND_OPEN)
            await _build(url, migration.indexes)
        now = time.time_ns() // 1_000_000
        await queries.RECORD_MIGRATION.run(
            connection,
            version=migration.version,
            name=migration.name,
            sha256=migration.sha256,
            now=now,
        )
    return True


async def _build(url: str, wanted: list[Index]) -> None:
    """Build indexes on a connection of its own, while the other one holds off other migrators."""
    builder = await connections.connect(url, prepared=False)
    try:
        await indexes.do(builder, wanted, _LOCK_WAIT)
    finally:
        await builder.close()


async def _applied(connection: Tx, known: list[Migration]) -> list[Applied]:
    """Return what the database has, in order.

    Raises SchemaMismatch if a file is not as shipped, or one of a newer OpenTill does without us.
    """
    digests = {migration.version: migration.sha256 for migration in known}
    found = await queries.MIGRATIONS.all(connection)
    for applied in found:
        needs = _NEEDS.search(applied.name)
        if applied.version not in digests:
            if needs and int(needs[1]) > len(known):
                message = (
                    f"the database is of a newer OpenTill (it has {applied.name});"
                    " this one is too old for it, update it"
                )
                raise SchemaMismatch(message)
        elif applied.sha256 != digests[applied.version]:
            message = (
                f"migration {applied.name} was altered after the database applied it;"
                " restore the file and add a new migration instead"
            )
            raise SchemaMismatch(message)
    return found
