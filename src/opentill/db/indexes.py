"""Migrations that create and drop indexes without blocking writers (decision 0103).

A plain ``create index`` blocks all writes to its table. With ``concurrently`` it does not, but it
must run outside a transaction, so that an interrupted migration leaves an invalid index behind.
Therefore each statement of such a file must be repeatable: a valid index is kept, an invalid one is
dropped and built again.
"""

import re
from collections.abc import Sequence
from typing import Final, Self

import asyncpg
import msgspec

from opentill.db import queries
from opentill.db.connection import COLLIDED, Backoff
from opentill.db.database import Tx

# The first line of a migration file that only creates or drops indexes concurrently.
MARK: Final = "-- concurrently"
_COMMENT: Final = re.compile(r"--[^\n]*")
_STATEMENT: Final = re.compile(
    r"(?:create (?P<unique>unique )?index concurrently (?P<new>\w+) on (?P<table>\w+)"
    r" (?P<definition>(?:using \w+ )?\(.+)"
    r"|drop index concurrently (?P<old>\w+))"
)


class IndexChange(msgspec.Struct, frozen=True):
    """A statement of a marked file: an index to create or, if ``table`` is "", to drop."""

    name: str
    table: str = ""
    definition: str = ""  # the index's method, columns and condition
    unique: bool = False

    @classmethod
    def parse(cls, statement: str) -> Self:
        """Parse a statement. Raises ValueError for a statement that cannot be repeated."""
        match = _STATEMENT.fullmatch(" ".join(statement.split()))
        if match is None:
            message = (
                "a file with the mark `-- concurrently` has only `create index concurrently NAME"
                f" on TABLE (…)` and `drop index concurrently NAME`, not: {statement.strip()[:80]}"
            )
            raise ValueError(message)
        if match["old"]:
            return cls(match["old"])
        return cls(match["new"], match["table"], match["definition"], bool(match["unique"]))

    def create_sql(self, name: str, table: str, *, concurrently: bool = True) -> str:
        """Write the statement that creates the index, on its table or one partition."""
        return queries.CREATE_INDEX.format(
            unique="unique " if self.unique else "",
            concurrently="concurrently " if concurrently else "",
            name=name,
            table=table,
            definition=self.definition,
        )


def parse_file(sql: str) -> list[IndexChange] | None:
    """Return a file's statements, None if it does not begin with the mark. Raises ValueError."""
    if sql.partition("\n")[0].strip() != MARK:
        return None
    return [IndexChange.parse(s) for s in _COMMENT.sub("", sql).split(";") if s.strip()]


async def apply(connection: Tx, changes: Sequence[IndexChange], lock_timeout: str) -> None:
    """Create and drop indexes, on a connection without a transaction. Can be repeated.

    PostgreSQL waits for the transactions of others and blocks nobody. Only a partitioned table
    needs a short lock, for which this waits ``lock_timeout`` at most. Raises the exceptions of
    asyncpg.
    """
    for change in changes:
        if not change.table:
            await _drop(connection, change.name, lock_timeout)
        elif await queries.IS_PARTITIONED.get(connection, name=change.table):
            await _create_on_partitions(connection, change, lock_timeout)
        else:
            await _create(connection, change, change.name, change.table)


async def _create(connection: Tx, index: IndexChange, name: str, table: str) -> None:
    backoff = Backoff()
    while not await queries.IS_VALID_INDEX.get(connection, name=name):
        try:
            # Dropping waits for another session that still builds the index, such as one whose
            # client was killed: PostgreSQL continues without the client.
            await connection.execute(queries.DROP_INDEX.format(name))
            await connection.execute(index.create_sql(name, table))
        except (*COLLIDED, asyncpg.DuplicateTableError) as error:
            await backoff.pause(error)


async def _create_on_partitions(connection: Tx, index: IndexChange, lock_timeout: str) -> None:
    """Create an index on each partition, then the table's, to which PostgreSQL attaches them."""
    for partition in await queries.PARTITIONS.all(connection, name=index.table):
        await _create(connection, index, f"{index.name}_{partition.oid}", partition.name)
    if await queries.IS_VALID_INDEX.get(connection, name=index.name):
        return
    async with connection.transaction():
        await queries.LIMIT_LOCK_WAITS.get(connection, longest=lock_timeout)
        await connection.execute(index.create_sql(index.name, index.table, concurrently=False))


async def _drop(connection: Tx, name: str, lock_timeout: str) -> None:
    if not await queries.IS_PARTITIONED.get(connection, name=name):
        await connection.execute(queries.DROP_INDEX.format(name))
        return
    async with connection.transaction():
        await queries.LIMIT_LOCK_WAITS.get(connection, longest=lock_timeout)
        await connection.execute(queries.DROP_PARTITIONED_INDEX.format(name))
