"""Indexes that are built and removed while others write, for migrations (decision 0103).

A plain ``create index`` keeps everybody from writing its table until it is done. PostgreSQL builds
one beside writers with ``concurrently``, outside a transaction: then no transaction takes it back,
and who is killed meanwhile leaves an index that is not valid. So each statement of such a file is
one that can be done again: an index that is there and valid stays, one that is not is dropped and
built anew.
"""

import re
from collections.abc import Sequence
from typing import Final, Self

import asyncpg
import msgspec

from opentill.db import queries
from opentill.db.connection import COLLIDED, Tries
from opentill.db.database import Tx

MARK: Final = "-- concurrently"  # the first line of a file
_COMMENT: Final = re.compile(r"--[^\n]*")
_STATEMENT: Final = re.compile(
    r"(?:create (?P<unique>unique )?index concurrently (?P<new>\w+) on (?P<table>\w+)"
    r" (?P<rest>\(.+)"
    r"|drop index concurrently (?P<old>\w+))"
)


class Index(msgspec.Struct, frozen=True):
    """An index that is to be there, or one that is to be gone: then ``table`` is ""."""

    name: str
    table: str = ""
    rest: str = ""  # what follows the table: columns and conditions
    unique: bool = False

    @classmethod
    def of(cls, statement: str) -> Self:
        """Read a statement. Raises ValueError for one that cannot be done again."""
        found = _STATEMENT.fullmatch(" ".join(statement.split()))
        if found is None:
            message = (
                "a file with the mark `-- concurrently` has only `create index concurrently NAME"
                f" on TABLE (…)` and `drop index concurrently NAME`, not: {statement.strip()[:80]}"
            )
            raise ValueError(message)
        if found["old"]:
            return cls(found["old"])
        return cls(found["new"], found["table"], found["rest"], bool(found["unique"]))

    def sql(self, name: str, table: str, *, concurrently: bool = True) -> str:
        """Write the statement that builds it, perhaps for a part of its table."""
        return queries.CREATE_INDEX.format(
            unique="unique " if self.unique else "",
            way="concurrently " if concurrently else "",
            name=name,
            table=table,
            rest=self.rest,
        )


def listed(sql: str) -> list[Index] | None:
    """Return what a file does, None if it has no mark. Raises ValueError."""
    if sql.partition("\n")[0].strip() != MARK:
        return None
    return [Index.of(one) for one in _COMMENT.sub("", sql).split(";") if one.strip()]


async def do(connection: Tx, wanted: Sequence[Index], longest: str) -> None:
    """Build and remove indexes, on a connection without a transaction; safe to repeat.

    It waits for as long as others have transactions open, and keeps nobody waiting meanwhile. Only
    on a table in partitions, which PostgreSQL cannot do beside writers, it takes a lock for a
    moment, and waits no longer than ``longest`` for it. Raises what asyncpg raises.
    """
    for one in wanted:
        if not one.table:
            await _remove(connection, one.name, longest)
        elif await queries.IS_PARTITIONED.get(connection, name=one.table):
            await _build_in_parts(connection, one, longest)
        else:
            await _build(connection, one, one.name, one.table)


async def _build(connection: Tx, index: Index, name: str, table: str) -> None:
    tries = Tries()
    while not await queries.IS_VALID_INDEX.get(connection, name=name):
        try:
            # It waits for whoever still builds it: the server does so after its client is gone.
            await connection.execute(queries.DROP_INDEX.format(name))
            await connection.execute(index.sql(name, table))
        except (*COLLIDED, asyncpg.DuplicateTableError) as error:
            await tries.pause(error)


async def _build_in_parts(connection: Tx, index: Index, longest: str) -> None:
    """Build an index in each partition; the one of the whole table then takes them as its own."""
    for part in await queries.PARTITIONS.all(connection, name=index.table):
        await _build(connection, index, f"{index.name}_{part.oid}", part.name)
    if await queries.IS_VALID_INDEX.get(connection, name=index.name):
        return
    async with connection.transaction():
        await queries.LIMIT_LOCK_WAITS.get(connection, longest=longest)
        await connection.execute(index.sql(index.name, index.table, concurrently=False))


async def _remove(connection: Tx, name: str, longest: str) -> None:
    if not await queries.IS_PARTITIONED.get(connection, name=name):
        await connection.execute(queries.DROP_INDEX.format(name))
        return
    async with connection.transaction():
        await queries.LIMIT_LOCK_WAITS.get(connection, longest=longest)
        await connection.execute(queries.DROP_INDEX_IN_PARTS.format(name))
