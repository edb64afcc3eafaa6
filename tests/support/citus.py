"""Databases on a cluster of Citus that stands ready, for tests that need one.

``OPENTILL_TEST_CITUS`` is the address of a database on its coordinator, as a superuser without a
password: any database in which the nodes are registered. Where tests may kill nodes,
``OPENTILL_TEST_CITUS_KILL`` and ``OPENTILL_TEST_CITUS_START`` are the commands that do it and undo
it; ``{host}`` and ``{port}`` in them become the node's.
"""

import asyncio
import itertools
import os
import shlex
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg
import pytest

from opentill.db.query import Statement

CITUS: Final = os.environ.get("OPENTILL_TEST_CITUS", "")
needed: Final = pytest.mark.skipif(
    not CITUS, reason="OPENTILL_TEST_CITUS names no cluster: see docs/testing.md"
)
KILL: Final = os.environ.get("OPENTILL_TEST_CITUS_KILL", "")
START: Final = os.environ.get("OPENTILL_TEST_CITUS_START", "")
may_kill: Final = pytest.mark.skipif(
    not (CITUS and KILL and START),
    reason="OPENTILL_TEST_CITUS_KILL and _START say not how nodes are killed and started",
)
_NODES: Final = "select nodename, nodeport, groupid from pg_dist_node order by groupid"
_numbers: Final = itertools.count(1)


def named(database: str, host: str = "", port: int = 0) -> str:
    """Return the address of a database of the cluster, on its coordinator or another node."""
    parts = urlsplit(CITUS)
    parameters = dict(parse_qsl(parts.query))
    place = {
        "host": host or parts.hostname or parameters.get("host", ""),
        "port": str(port or parts.port or parameters.get("port", 5432)),
    }
    query = urlencode(parameters | place)
    return f"postgresql://{parts.username or 'postgres'}@/{database}?{query}"


async def run(url: str, *statements: str) -> list[asyncpg.Record]:
    """Run statements one after another and return the rows of the last."""
    connection = await asyncpg.connect(url, server_settings={"client_min_messages": "warning"})
    try:
        rows: list[asyncpg.Record] = []
        for statement in statements:
            rows = await connection.fetch(statement)
        return rows
    finally:
        await connection.close()


async def _nodes() -> list[asyncpg.Record]:
    nodes_ = await run(CITUS, _NODES)
    assert len(nodes_) > 1, "the cluster has no worker"
    return nodes_


async def create(name: str, *, registered: bool = True) -> list[str]:
    """Make an empty database on all nodes, which know each other if they are ``registered``.

    Returns the address on each, the coordinator's first.
    """
    nodes_ = await _nodes()
    addresses = [named(name, node["nodename"], node["nodeport"]) for node in nodes_]
    for node, address in zip(nodes_, addresses, strict=True):
        await run(named("postgres", node["nodename"], node["nodeport"]), f"create database {name}")
        if registered:
            await run(address, "create extension citus")
    for node in nodes_ if registered else ():
        way = "citus_add_node" if node["groupid"] else "citus_set_coordinator_host"
        await run(named(name), f"select {way}('{node['nodename']}', {node['nodeport']})")
    return addresses


async def drop(name: str) -> None:
    """Drop it on all nodes, whoever uses it and whatever is prepared there."""
    for node in reversed(await _nodes()):
        place = node["nodename"], node["nodeport"]
        prepared = await run(
            named("postgres", *place),
            f"select gid from pg_prepared_xacts where database = '{name}'",
        )
        for row in prepared:
            await run(named(name, *place), f"rollback prepared '{row['gid']}'")
        await run(named("postgres", *place), f"drop database if exists {name} with (force)")


@asynccontextmanager
async def database(*, registered: bool = True) -> AsyncIterator[str]:
    """Lend an empty database on all nodes, which know each other if they are ``registered``."""
    name = f"opentill_test_{os.getpid()}_empty_{next(_numbers)}"
    try:
        await create(name, registered=registered)
        yield named(name)
    finally:
        await drop(name)


class Node:
    """One of the cluster's: where it listens, and its group, 0 for the coordinator."""

    def __init__(self, host: str, port: int, group: int) -> None:
        """Use ``nodes``."""
        self.host, self.port, self.group = host, port, group

    async def kill(self) -> None:
        """End it as if its machine had stopped."""
        await asyncio.to_thread(self._run, KILL)

    async def start(self) -> None:
        """Start it again, and wait until it is there."""
        await asyncio.to_thread(self._run, START)

    def _run(self, command: str) -> None:
        words = [word.format(host=self.host, port=self.port) for word in shlex.split(command)]
        subprocess.run(words, check=True, timeout=120)


async def nodes(url: str) -> list[Node]:
    """Return the nodes of a database, the coordinator first."""
    rows = await run(url, _NODES)
    return [Node(row["nodename"], row["nodeport"], row["groupid"]) for row in rows]


@contextmanager
def distributed_forms() -> Iterator[None]:
    """Give this process back the statements that it had when the block ends."""
    before_it = Statement.distributes
    originals = [(one, dict(vars(one))) for one in Statement.in_two_forms]
    try:
        yield
    finally:
        Statement.distributes = before_it
        for statement, before in originals:
            vars(statement).update(before)
