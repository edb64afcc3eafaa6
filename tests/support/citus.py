"""Databases on a cluster of Citus that stands ready, for tests that need one.

``OPENTILL_TEST_CITUS`` is the address of a database on its coordinator, as a superuser without a
password: any database in which the nodes are registered.
"""

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from opentill.db.query import Statement

CITUS: Final = os.environ.get("OPENTILL_TEST_CITUS", "")
needed: Final = pytest.mark.skipif(
    not CITUS, reason="OPENTILL_TEST_CITUS names no cluster: see CONTRIBUTING.md"
)
_numbers: Final = itertools.count(1)


def named(database: str, host: str = "", port: int = 0) -> str:
    """Return the address of a database of the cluster, on its coordinator or another node."""
    parts = urlsplit(CITUS)
    user = parts.username or "postgres"
    place = f"{user}@{host or parts.hostname}:{port or parts.port}"
    return urlunsplit((parts.scheme, place, f"/{database}", parts.query, ""))


async def run(url: str, *statements: str) -> list[asyncpg.Record]:
    """Run statements one after another and return the rows of the last."""
    connection = await asyncpg.connect(url, server_settings={"client_min_messages": "warning"})
    try:
        found: list[asyncpg.Record] = []
        for statement in statements:
            found = await connection.fetch(statement)
        return found
    finally:
        await connection.close()


@asynccontextmanager
async def database(*, registered: bool = True) -> AsyncIterator[str]:
    """Lend an empty database on all nodes, which know each other if they are ``registered``."""
    name = f"opentill_test_{os.getpid()}_{next(_numbers)}"
    nodes = await run(CITUS, "select nodename, nodeport, groupid from pg_dist_node order by 3")
    assert len(nodes) > 1, "the cluster has no worker"
    try:
        for node in nodes:
            there = node["nodename"], node["nodeport"]
            await run(named("postgres", *there), f"create database {name}")
            if registered:
                await run(named(name, *there), "create extension citus")
        for node in nodes if registered else ():
            way = "citus_add_node" if node["groupid"] else "citus_set_coordinator_host"
            await run(named(name), f"select {way}('{node['nodename']}', {node['nodeport']})")
        yield named(name)
    finally:
        for node in reversed(nodes):
            there = node["nodename"], node["nodeport"]
            await run(named("postgres", *there), f"drop database if exists {name} with (force)")


@contextmanager
def distributed_forms() -> Iterator[None]:
    """Give this process back the statements for one machine when the block ends."""
    kept = [(one, dict(vars(one))) for one in Statement.in_two_forms]
    try:
        yield
    finally:
        Statement.distributes = False
        for statement, before in kept:
            vars(statement).update(before)
