"""Upgrades a database to the schema of this OpenTill with plain SQL files, forward only.

Each of ``migrations/0001_name.sql`` and so on runs in a transaction of its own, so that it is
applied completely or not at all. Any number of processes may migrate at once: each transaction
locks ``schema_migrations`` against other migrators, but not against running servers, which read it.

A session that waits for a lock on a table blocks all later ones. So a file waits for each of its
locks only briefly; then it is rolled back and tried again later. Files of indexes need no such
locks (``indexes.py``), and files that fill a long table run in batches (``batches.py``).

The previous version of OpenTill runs, and also starts, with the newer schema, so that it can
continue after a failed upgrade. A file that drops something that earlier versions need says so in
its name, and prevents them from starting: ``0031_drop_x_needs_0028`` runs with versions that know
0028 (decision 0117).
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
from opentill.db import batches, indexes, queries
from opentill.db import connection as connections
from opentill.db.database import Tx
from opentill.db.indexes import IndexChange
from opentill.db.queries import Applied

_log: Final = structlog.get_logger()

_PACKAGED: Final = Path(__file__).parents[1] / "migrations"
_CHECKOUT: Final = Path(__file__).parents[3] / "migrations"

_COLLIDED: Final = (
    asyncpg.DuplicateObjectError,  # creating a table also creates a type of its name
    asyncpg.DuplicateTableError,
    asyncpg.UniqueViolationError,
)
PATIENCE_S: Final = 600.0
# How long a file waits for a lock at most, because other sessions wait behind it.
_LOCK_TIMEOUT: Final = "500ms"
_LONGEST_PAUSE_S: Final = 10.0
_NEEDS: Final = re.compile(r"_needs_(\d{4})$")
# The digests of files that did the same in one statement before their first release.
_EARLIER: Final = {
    79: "6e110be7da88549e4b3bb3d96196fc4610e32a42bafd7a46634546af32a33b7b",
    82: "a04f2cb1035cfc6e55ea4f35b0c8a0b7deca428fcf8c6b248fd48d4cf90cfe42",
}
_LOCK_FAILURES: Final = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)


class SchemaMismatch(ConfigurationError):
    """The schema does not fit this OpenTill; the text is one line that says what to do."""


class Migration(msgspec.Struct, frozen=True):
    """One file: its number, its name without the suffix, its SQL and the digest of its bytes.

    ``index_changes``: the indexes that it creates and drops; ``batches``: the statements of a file
    that runs in batches. Both are None if it runs in a transaction.
    """

    version: int
    name: str
    sql: str
    sha256: str
    index_changes: list[IndexChange] | None = None
    batches: list[str] | None = None


def folder() -> Path:
    """Return the folder of the files: in the installed package, or at the top of a checkout."""
    return _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT


def migrations(directory: Path | None = None) -> list[Migration]:
    """Read the files in order; raises ``SchemaMismatch`` if the numbers are not 1, 2, 3 …."""
    files: list[Migration] = []
    for path in sorted((directory or folder()).glob("[0-9]*.sql")):
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        number = int(path.stem.partition("_")[0])
        try:
            index_changes = indexes.parse_file(content.decode())
            statements = batches.parse_file(content.decode())
        except ValueError as error:
            message = f"migration {path.stem}: {error}"
            raise SchemaMismatch(message) from None
        files.append(
            Migration(number, path.stem, content.decode(), digest, index_changes, statements)
        )
    if [migration.version for migration in files] != list(range(1, len(files) + 1)) or not files:
        message = f"the migrations are not numbered 1, 2, 3 …: {[m.name for m in files]}"
        raise SchemaMismatch(message)
    return files


@functools.cache
def _read_shipped() -> list[Migration]:
    """Read the shipped files once: /readyz needs them often, and an update may replace them."""
    return migrations()


async def migrate(
    url: str, directory: Path | None = None, *, patience_s: float = PATIENCE_S
) -> list[str]:
    """Apply the missing migrations to the database ``url`` and return their names in order.

    ``directory`` replaces the shipped files in tests. A file that cannot get its locks is retried
    for ``patience_s``. Raises ``SchemaMismatch`` if a file was changed after it was applied, the
    database needs a newer OpenTill, or a file fails.
    """
    files = migrations(directory)
    # Behind a pooler, prepared statements may fail.
    connection = await connections.connect(url, prepared=False)
    try:
        await _create_table(connection)
        return [
            migration.name
            for migration in files
            if await _apply_with_retries(url, connection, migration, files, patience_s)
        ]
    finally:
        await connection.close()


async def check(connection: Tx, *, directory: Path | None = None) -> list[str]:
    """Check that this OpenTill runs with the database's schema; reads one small table.

    Returns the names of newer versions' migrations that the database has, with which this OpenTill
    runs as well. Raises ``SchemaMismatch``.
    """
    files = migrations(directory) if directory else _read_shipped()
    try:
        applied = await _read_applied(connection, files)
    except asyncpg.UndefinedTableError:
        applied = []
    versions = {migration.version for migration in applied}
    missing = [migration.name for migration in files if migration.version not in versions]
    if missing:
        message = f"the database lacks {', '.join(missing)}; run `opentill migrate`"
        raise SchemaMismatch(message)
    return [migration.name for migration in applied if migration.version > len(files)]


async def _create_table(connection: Tx) -> None:
    """Create the table of applied migrations.

    ``if not exists`` checks first and creates later, so that concurrent migrators can collide.
    """
    while not await queries.HAS_MIGRATIONS.get(connection):
        try:
            await connection.execute(queries.CREATE_MIGRATIONS)
        except _COLLIDED:
            continue


async def _apply_with_retries(
    url: str, connection: Tx, migration: Migration, files: list[Migration], patience_s: float
) -> bool:
    """Apply one file, retrying while it cannot get its locks. Raises SchemaMismatch."""
    end, pause_s = time.monotonic() + patience_s, 0.5
    while True:
        try:
            return await _apply(url, connection, migration, files)
        except (*_LOCK_FAILURES, Contended) as error:
            if time.monotonic() >= end:
                message = (
                    f"migration {migration.name} was taken back: others have held its tables for"
                    f" {patience_s:.0f} s; end long transactions and run `opentill migrate` again"
                )
                raise SchemaMismatch(message) from error
        except asyncpg.PostgresError as error:
            outcome = "failed and was taken back"
            if migration.index_changes is not None or migration.batches is not None:
                outcome = "stopped, and goes on where `opentill migrate` is run again"
            message = f"migration {migration.name} {outcome}: {error}"
            raise SchemaMismatch(message) from error
        _log.warning("migration_waits", migration=migration.name, pause_s=pause_s)
        await asyncio.sleep(random.uniform(pause_s / 2, pause_s))  # noqa: S311 - no secret
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


async def _apply(url: str, connection: Tx, migration: Migration, files: list[Migration]) -> bool:
    """Apply one file; ``False`` if the database has it already, such as from another migrator."""
    # Other isolation levels keep a snapshot, and building an index would wait for its end.
    async with connection.transaction(isolation="read_committed"):
        await connection.execute(queries.LOCK_MIGRATIONS)
        applied = await _read_applied(connection, files)
        if migration.version in {a.version for a in applied}:
            return False
        if migration.index_changes is None and migration.batches is None:
            await queries.LIMIT_LOCK_WAITS.get(connection, longest=_LOCK_TIMEOUT)
            await connection.execute(migration.sql)
        else:
            await connection.execute(queries.ALLOW_IDLE_TRANSACTION)
            await _apply_outside(url, migration)
        now = time.time_ns() // 1_000_000
        await queries.RECORD_MIGRATION.run(
            connection,
            version=migration.version,
            name=migration.name,
            sha256=migration.sha256,
            now=now,
        )
    return True


async def _apply_outside(url: str, migration: Migration) -> None:
    """Apply a file of indexes or batches on a second connection.

    The first connection locks out other migrators.
    """
    connection = await connections.connect(url, prepared=False)
    try:
        await indexes.apply(connection, migration.index_changes or [], _LOCK_TIMEOUT)
        await batches.apply(connection, migration.batches or [], _LOCK_TIMEOUT)
    finally:
        await connection.close()


async def _read_applied(connection: Tx, files: list[Migration]) -> list[Applied]:
    """Return the applied migrations in order.

    Raises SchemaMismatch if a file was changed after it was applied, or the database needs a newer
    OpenTill.
    """
    digests = {migration.version: migration.sha256 for migration in files}
    applied = await queries.MIGRATIONS.all(connection)
    for migration in applied:
        needs = _NEEDS.search(migration.name)
        if migration.version not in digests:
            if needs and int(needs[1]) > len(files):
                message = (
                    f"the database is of a newer OpenTill (it has {migration.name});"
                    " this one is too old for it, update it"
                )
                raise SchemaMismatch(message)
        elif migration.sha256 not in (digests[migration.version], _EARLIER.get(migration.version)):
            message = (
                f"migration {migration.name} was altered after the database applied it;"
                " restore the file and add a new migration instead"
            )
            raise SchemaMismatch(message)
    return applied
