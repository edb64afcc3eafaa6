"""Places the tables on a cluster of Citus, where the operator has asked for it (decision 0118).

All tables are placed in one transaction: whoever is killed meanwhile has changed nothing. From then
on the database is a distributed one, which every process notices when it connects, and migrations
that come later place the tables that they make.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from opentill.core.errors import ConfigurationError
from opentill.db import distribution_queries as queries
from opentill.db.database import Tx
from opentill.db.placement import BY, PLACES
from opentill.db.query import split_sql

# What every connection to a distributed database has: it is set for the database itself, so that no
# server, command or pooler need say it.
SETTINGS: Final[Mapping[str, str]] = MappingProxyType({
    # Else each look at the catalogue searches it for shards to hide, and asyncpg, which learns
    # types from it, takes seconds for a new connection.
    "citus.override_table_visibility": "off",
    # What is `set local` holds on the nodes as well: that history is pruned, how long locks are
    # waited for.
    "citus.propagate_set_commands": "local",
    # Else what writes rows of several merchants waits for all others that do. What deadlocks is
    # found and ended, and tried again.
    "citus.enable_deadlock_prevention": "off",
    # What concerns all merchants asks one shard of a node after the other, by one connection.
    "citus.max_adaptive_executor_pool_size": "1",
})  # fmt: skip
_MAKES_TABLE: Final = re.compile(
    r"(?:\s|--[^\n]*\n)*create (?:unlogged )?table (?:if not exists )?(\w+)", re.IGNORECASE
)
_FIRST: Final = "orders"  # the others are placed where its rows of the same merchant are
# What Citus calls a place, by what we call it.
_KINDS: Final = {"distributed": "distributed", "reference": "reference", "coordinator": "local"}


class CannotDistribute(ConfigurationError):
    """The tables cannot be placed; the text is one line that says what to do."""


async def is_cluster(connection: Tx) -> bool:
    """Return whether the database has Citus, with tables placed on it or without."""
    return bool(await queries.HAS_EXTENSION.get(connection))


async def is_distributed(connection: Tx) -> bool:
    """Return whether our tables are placed."""
    return await is_cluster(connection) and bool(await _placed(connection))


async def unplaced(connection: Tx) -> list[str]:
    """Return the tables of ours that are still to be placed, on a cluster."""
    placed = await _placed(connection)
    return [name for name, place in PLACES.items() if place != "plain" and name not in placed]


async def unset(connection: Tx) -> list[str]:
    """Return the settings of ``SETTINGS`` that this connection has otherwise, in words."""
    found = {name: await queries.SETTING.get(connection, name=name) for name in SETTINGS}
    return [
        f"{name} is {found[name]} and should be {wanted}"
        for name, wanted in SETTINGS.items()
        if found[name] != wanted
    ]


async def check_cluster(connection: Tx) -> None:
    """See that there is a cluster to place tables on. Raises CannotDistribute."""
    if not await is_cluster(connection):
        message = (
            "the database does not have Citus: install it on every node, name it in"
            " shared_preload_libraries, and run `create extension citus` in this database on each"
        )
    elif not await connection.fetchval(queries.KNOWS_COORDINATOR):
        message = (
            "the cluster does not know its coordinator: run"
            " `select citus_set_coordinator_host('ADDRESS', PORT)` on it"
        )
    elif not await connection.fetchval(queries.COUNT_WORKERS):
        message = (
            "the cluster has no worker: run `select citus_add_node('ADDRESS', PORT)` on the"
            " coordinator for each"
        )
    else:
        return
    raise CannotDistribute(message)


async def distribute(connection: Tx) -> list[str]:
    """Place every table that is not placed yet, with its rows; return their names.

    The transaction of ``connection`` holds off other migrators and has the whole schema. Raises
    CannotDistribute where a table is placed otherwise, and what asyncpg raises.
    """
    placed = await _placed(connection)
    for one in placed.values():
        _check_place(one)
    missing = await unplaced(connection)
    if not missing:
        return []
    await connection.execute(queries.BEGIN_PLACING)
    keys = await queries.FOREIGN_KEYS.all(connection, names=missing)
    triggers = await queries.TRIGGERS.all(connection, names=missing)
    for key in keys:
        await connection.execute(queries.DROP_KEY.format(key.table, key.name))
    for trigger in triggers:  # else they would fire for each row that is copied
        await connection.execute(queries.DROP_TRIGGER.format(trigger.name, trigger.table))
    for name in sorted(missing, key=lambda name: name != _FIRST):
        await _place(connection, name)
    for key in keys:
        await connection.execute(queries.ADD_KEY.format(key.table, key.name, key.definition))
    for trigger in triggers:
        await connection.execute(trigger.definition)
    return missing


async def apply(connection: Tx, sql: str) -> None:
    """Run a migration on a database whose tables are placed; what it makes is placed as well.

    A new table may refer to one that is placed: so it is made on the coordinator alone, and placed
    with its keys before the next statement. Raises what asyncpg raises.
    """
    await connection.execute(queries.BEGIN_PLACING)
    for statement in split_sql(sql):
        made = _MAKES_TABLE.match(statement)
        if made is None:
            await connection.execute(statement)
            continue
        await connection.execute(queries.ALONE)
        await connection.execute(statement)
        await connection.execute(queries.TOGETHER)
        await _place(connection, made[1])


async def set_up(connection: Tx, functions: str) -> None:
    """Give a database whose tables are placed what belongs to that.

    Its functions of triggers, its settings, and that each shard can be moved while it is used.
    """
    await connection.execute(functions)
    for row in await connection.fetch(queries.UNMOVABLE):
        await connection.execute(queries.WHOLE_ROW.format(row["name"]))
    name = await queries.DATABASE.get(connection)
    for setting, value in SETTINGS.items():
        if await queries.SETTING.get(connection, name=setting) != value:
            await connection.execute(queries.SET.format(name, setting, value))


async def _placed(connection: Tx) -> dict[str, queries.Placed]:
    rows = await connection.fetch(queries.PLACED)
    return {row["name"]: queries.Placed(**dict(row)) for row in rows if row["name"] in PLACES}


def _check_place(found: queries.Placed) -> None:
    """Raise CannotDistribute unless a table is where it should be."""
    wanted = PLACES[found.name]
    if found.kind == _KINDS.get(wanted) and (wanted != "distributed" or found.by == BY):
        return
    is_ = f"{found.kind} by {found.by}" if found.kind == "distributed" else found.kind
    should = f"{wanted} by {BY}" if wanted == "distributed" else wanted
    message = (
        f"the table {found.name} is {is_} and should be {should}: take it back with"
        f" `select undistribute_table('{found.name}')`, or begin with an empty database"
    )
    raise CannotDistribute(message)


async def _place(connection: Tx, name: str) -> None:
    match PLACES.get(name):
        case "distributed":
            beside = "none" if name == _FIRST else _FIRST
            await connection.execute(queries.DISTRIBUTE.format(name, BY, beside))
        case "reference":
            await connection.execute(queries.REPLICATE.format(name))
        case "coordinator":
            await connection.execute(queries.MAKE_KNOWN.format(name))
        case _:
            pass
