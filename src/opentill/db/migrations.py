"""Brings a database to the schema of this OpenTill: plain SQL files, forward only.

``migrations/0001_name.sql`` and so on, each in a transaction of its own, so that a file is applied
whole or not at all. Any number of processes may migrate at once: each transaction holds
``schema_migrations`` against other migrators, while readers, the running servers, go on.
"""

import functools
import hashlib
import time
from pathlib import Path
from typing import Final

import asyncpg
import msgspec

from opentill.core.errors import ConfigurationError
from opentill.db import connection as connections
from opentill.db import queries
from opentill.db.database import Tx

_PACKAGED: Final = Path(__file__).parents[1] / "migrations"
_CHECKOUT: Final = Path(__file__).parents[3] / "migrations"

_COLLIDED: Final = (
    asyncpg.DuplicateObjectError,  # a table brings a type of the same name
    asyncpg.DuplicateTableError,
    asyncpg.UniqueViolationError,
)


class SchemaMismatch(ConfigurationError):
    """The database and this OpenTill do not fit; the text is one line that says what to do."""


class Migration(msgspec.Struct, frozen=True):
    """One file: its number, its name without the ending, its SQL and the digest of its bytes."""

    version: int
    name: str
    sql: str
    sha256: str


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
        found.append(Migration(number, path.stem, content.decode(), digest))
    if [migration.version for migration in found] != list(range(1, len(found) + 1)) or not found:
        message = f"the migrations are not numbered 1, 2, 3 …: {[m.name for m in found]}"
        raise SchemaMismatch(message)
    return found


@functools.cache
def _shipped() -> list[Migration]:
    """Read the shipped files once: /readyz asks often, and an update may replace them under us."""
    return migrations()


async def migrate(url: str, directory: Path | None = None) -> list[str]:
    """Apply what is missing to the database ``url``; the names of what was applied, in order.

    ``directory`` stands in for the shipped files, in tests. Raises ``SchemaMismatch`` if a file
    was altered after it was applied, the database is of a newer OpenTill, or a file fails.
    """
    known = migrations(directory)
    connection = await connections.connect(url, prepared=False)  # perhaps through a pooler
    try:
        await _create_table(connection)
        return [migration.name for migration in known if await _apply(connection, migration, known)]
    finally:
        await connection.close()


async def check(
    connection: Tx,
    *,
    newer_ok: bool = False,
    directory: Path | None = None,
) -> None:
    """See that the database has exactly the schema of this OpenTill; reads one small table.

    ``newer_ok``: for a server that already runs while a rolling update migrates ahead of it.
    Raises ``SchemaMismatch``.
    """
    known = migrations(directory) if directory else _shipped()
    try:
        applied = await _applied(connection, known, newer_ok=newer_ok)
    except asyncpg.UndefinedTableError:
        applied = set[int]()
    missing = [migration.name for migration in known if migration.version not in applied]
    if missing:
        message = f"the database lacks {', '.join(missing)}; run `opentill migrate`"
        raise SchemaMismatch(message)


async def _create_table(connection: Tx) -> None:
    """Create the table of applied migrations.

    ``if not exists`` looks first and creates later, so that two migrators at once can collide.
    """
    while not await queries.HAS_MIGRATIONS.get(connection):
        try:
            await connection.execute(queries.CREATE_MIGRATIONS)
        except _COLLIDED:
            continue


async def _apply(connection: Tx, migration: Migration, known: list[Migration]) -> bool:
    """Apply one file; ``False`` if the database has it, perhaps by a migrator beside us."""
    async with connection.transaction():
        await connection.execute(queries.LOCK_MIGRATIONS)
        if migration.version in await _applied(connection, known):
            return False
        try:
            await connection.execute(migration.sql)
        except asyncpg.PostgresError as error:
            message = f"migration {migration.name} failed and was taken back: {error}"
            raise SchemaMismatch(message) from error
        now = time.time_ns() // 1_000_000
        await queries.RECORD_MIGRATION.run(
            connection,
            version=migration.version,
            name=migration.name,
            sha256=migration.sha256,
            now=now,
        )
    return True


async def _applied(connection: Tx, known: list[Migration], *, newer_ok: bool = False) -> set[int]:
    """Return the versions that the database has. Raises SchemaMismatch if one is not as shipped."""
    digests = {migration.version: migration.sha256 for migration in known}
    versions: set[int] = set()
    for applied in await queries.MIGRATIONS.all(connection):
        if applied.version not in digests:
            if newer_ok:
                continue
            message = (
                f"the database is of a newer OpenTill (it has {applied.name}); update this one"
            )
            raise SchemaMismatch(message)
        if applied.sha256 != digests[applied.version]:
            message = (
                f"migration {applied.name} was altered after the database applied it;"
                " restore the file and add a new migration instead"
            )
            raise SchemaMismatch(message)
        versions.add(applied.version)
    return versions
