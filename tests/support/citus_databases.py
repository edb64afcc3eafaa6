"""Migrated databases on a cluster, for a whole run on it: see ``databases.py``.

To make one takes seconds, since a database that is placed cannot be a template. So all that the
tests of a process give back are emptied and lent again, those of a module or a server too.
"""

import asyncio
import os
from typing import Any, ClassVar, Final, Self

import asyncpg

from opentill.db import migrations
from opentill.db.placement import PLACES
from opentill.db.query import take_distributed_forms
from support import citus
from support.databases import SCHEMA, Database, Databases, execute

# What a node has of each table: a table of its own, or a shard. Without triggers and foreign keys;
# replicated tables are emptied on each node.
_EMPTY: Final = """
do $$
declare one regclass; filled boolean;
begin
    set local session_replication_role = replica;
    set local citus.enable_manual_changes_to_shards = on;
    set local citus.allow_modifications_from_workers_to_replicated_tables = on;
    set local citus.override_table_visibility = off;
    set local lock_timeout = '20s';
    for one in select oid from pg_class where relnamespace = 'public'::regnamespace
        and relkind = 'r' and oid not in (select logicalrelid from pg_dist_partition)
    loop
        execute format('select exists (select from %s)', one) into filled;
        if filled then execute format('delete from %s', one); end if;
    end loop;
end $$
"""
_OTHERS: Final = """
    select pg_terminate_backend(pid, 10000) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
        and backend_type = 'client backend'
"""
_UNDECIDED: Final = "select count(*) from pg_prepared_xacts where database = current_database()"
# Few shards, on each of two nodes more than one: what asks all of them asks no more than it must.
SHARDS: Final = 4


class ClusterDatabases(Databases):
    """The databases of one process on the cluster."""

    patience_s: ClassVar[float] = 300

    def __init__(self) -> None:
        """Nothing is made before it is asked for."""
        super().__init__(citus.named("postgres"), "")
        self._nodes: dict[str, list[asyncpg.Connection]] = {}

    def __enter__(self) -> Self:
        """Lend databases to all that would clone a template: all of them distributed."""
        take_distributed_forms()
        Databases.instead = self
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        """Drop what was made, which would outlive this process."""
        for database in (*self._free, *self._lent.values()):
            self._run(self._drop(database))
        self._free.clear()
        self._lent.clear()
        Databases.instead = None
        super().__exit__()

    async def _make(self) -> Database:
        name = f"opentill_test_{os.getpid()}_{next(self._numbers)}"
        first, *others = await citus.create(name)
        await execute(self.url, f"alter database {name} set citus.shard_count = {SHARDS}")
        await migrations.distribute(self._address(name))
        connection = await asyncpg.connect(first)
        self._nodes[name] = [connection, *[await asyncpg.connect(node) for node in others]]
        database = Database(name, connection)
        database.born = await connection.fetchval("select txid_current()")
        database.schema = await connection.fetch(SCHEMA, database.born)
        if not self._tables:
            await self._learn(connection, sorted(PLACES))
        return database

    async def _clean(self, database: Database) -> bool:
        connection, nodes = database.connection, self._nodes[database.name]
        if any(node.is_closed() for node in nodes):  # one was killed
            return False
        await connection.execute(_OTHERS)
        if await connection.fetch(SCHEMA, database.born) != database.schema:
            return False
        if not await self._decided(connection, nodes):
            return False
        try:
            await asyncio.gather(*(node.execute(_EMPTY) for node in nodes))
            async with connection.transaction():
                await connection.execute("set local session_replication_role = replica")
                for statement in self._sown():
                    await connection.execute(statement)
        except asyncpg.PostgresError:
            return False
        return True

    async def _decided(self, connection: asyncpg.Connection, nodes: list[Any]) -> bool:
        """Decide what was prepared for connections that are gone; False if something is left."""
        if not any([await node.fetchval(_UNDECIDED) for node in nodes]):
            return True
        await connection.execute("select recover_prepared_transactions()")
        return not any([await node.fetchval(_UNDECIDED) for node in nodes])

    async def _drop(self, database: Database) -> None:
        for node in self._nodes.pop(database.name):
            await node.close()
        await citus.drop(database.name)
