"""Checks of ``opentill doctor`` on a Citus cluster: nodes, placement and settings."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from opentill.cli.exposure import Finding

if TYPE_CHECKING:
    from opentill.db.database import Tx

LEAST_PREPARED: Final = 10  # prepared transactions that a worker needs for atomic commits


class Node(msgspec.Struct, frozen=True):
    """A node and its facts, None if it does not respond."""

    name: str
    facts: "NodeFacts | None"


class NodeFacts(msgspec.Struct, frozen=True):
    """Settings of a node, and its orphaned transactions."""

    prepared: int  # max_prepared_transactions
    wal_level: str
    left: int  # transactions prepared more than five minutes ago


class Cluster(msgspec.Struct, frozen=True):
    """A Citus cluster."""

    citus: str
    nodes: Sequence[Node]
    unplaced: Sequence[str]
    settings: Sequence[str]  # those with a wrong value
    repairs: bool  # whether orphaned prepared transactions are recovered
    burdened: str | None  # the coordinator's address, if merchants' rows are on it

    @property
    def silent(self) -> list[str]:
        """The nodes that do not respond; queries over all merchants fail then."""
        return [node.name for node in self.nodes if node.facts is None]


async def inspect(connection: "Tx") -> Cluster | None:
    """Inspect a cluster; None for a database on one machine. Raises asyncpg's errors."""
    from opentill.cli import doctor_queries as queries
    from opentill.db import distribution

    if not await distribution.is_cluster(connection):
        return None
    nodes = [
        Node(row["name"], msgspec.json.decode(row["result"], type=NodeFacts) if row["ok"] else None)
        for row in await connection.fetch(queries.NODES)
    ]
    return Cluster(
        citus=str(await connection.fetchval(queries.CITUS)).partition(" on ")[0],
        nodes=nodes,
        unplaced=await distribution.unplaced(connection),
        settings=await distribution.unset(connection),
        repairs=bool(await connection.fetchval(queries.REPAIRS)),
        burdened=await connection.fetchval(queries.BURDENED),
    )


def findings(cluster: Cluster) -> Iterator[Finding]:
    """Report the state of a cluster, with advice."""
    if cluster.unplaced:
        text = (
            f"{len(cluster.unplaced)} tables are on one machine; `opentill migrate --distributed`"
        )
        yield Finding("cluster", "fail", text)
        return
    if cluster.silent:
        text = (
            f"{', '.join(cluster.silent)} does not respond: until it is back, merchants there get"
            " 503, and the worker sends nobody's events, refunds and mails"
        )
        yield Finding("cluster", "fail", text)
    else:
        text = f"{cluster.citus}, {len(cluster.nodes)} nodes, all tables placed"
        yield Finding("cluster", "ok", text)
    if cluster.settings:
        text = f"{'; '.join(cluster.settings)}: run `opentill migrate --distributed` again"
        yield Finding("cluster", "fail", text)
    if not cluster.repairs:
        text = (
            "nobody ends transactions that a crash left prepared, whose rows stay locked: raise"
            " max_worker_processes on the coordinator and restart it"
        )
        yield Finding("cluster", "fail", text)
    if cluster.burdened is not None:
        host, _, port = cluster.burdened.rpartition(":")
        text = (
            "the coordinator has shards itself, and loses some 100 kB of memory with each prepared"
            f" statement that it runs on them: `select citus_drain_node('{host}', {port})`"
        )
        yield Finding("cluster", "fail", text)
    for node in cluster.nodes:
        yield from _node_findings(node)


def _node_findings(node: Node) -> Iterator[Finding]:
    if node.facts is None:
        return
    if node.facts.prepared < LEAST_PREPARED:
        text = (
            f"{node.name} prepares {node.facts.prepared} transactions at once: set"
            " max_prepared_transactions there to twice its max_connections"
        )
        yield Finding("cluster", "fail", text)
    if node.facts.wal_level != "logical":
        text = f"{node.name} has not wal_level = logical: no shard moves without stopping writes"
        yield Finding("cluster", "warn", text)
    if node.facts.left:
        text = f"{node.name} has {node.facts.left} transactions that were prepared and never ended"
        yield Finding("cluster", "warn", text)
