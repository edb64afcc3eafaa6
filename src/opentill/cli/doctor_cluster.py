"""What ``opentill doctor`` finds out about a cluster of Citus: nodes, places and settings."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from opentill.cli.exposure import Finding

if TYPE_CHECKING:
    from opentill.db.database import Tx

LEAST_PREPARED: Final = 10  # what a worker prepares at once, at the least; else nothing is atomic


class Node(msgspec.Struct, frozen=True):
    """What a node says of itself; ``facts`` is None where it does not respond."""

    name: str
    facts: "NodeFacts | None"


class NodeFacts(msgspec.Struct, frozen=True):
    """Settings of a node, and what was left there."""

    prepared: int  # how many transactions may be prepared
    wal_level: str
    left: int  # transactions that have been prepared for five minutes


class Cluster(msgspec.Struct, frozen=True):
    """A database with Citus."""

    citus: str
    nodes: Sequence[Node]
    unplaced: Sequence[str]
    settings: Sequence[str]  # that are not as they should be
    repairs: bool  # whether somebody ends transactions that were left prepared
    burdened: str | None  # the coordinator's address, if merchants' rows are on it

    @property
    def silent(self) -> list[str]:
        """The nodes that do not respond: what is about all merchants cannot be asked."""
        return [node.name for node in self.nodes if node.facts is None]


async def ask(connection: "Tx") -> Cluster | None:
    """Ask a cluster about itself; None for a database on one machine. Raises what asyncpg does."""
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


def findings(found: Cluster) -> Iterator[Finding]:
    """Say what is right and what to do."""
    if found.unplaced:
        text = f"{len(found.unplaced)} tables are on one machine; `opentill migrate --distributed`"
        yield Finding("cluster", "fail", text)
        return
    if found.silent:
        text = (
            f"{', '.join(found.silent)} does not respond: until it is back, merchants there get"
            " 503, and the worker sends nobody's events, refunds and mails"
        )
        yield Finding("cluster", "fail", text)
    else:
        text = f"{found.citus}, {len(found.nodes)} nodes, all tables placed"
        yield Finding("cluster", "ok", text)
    if found.settings:
        text = f"{'; '.join(found.settings)}: run `opentill migrate --distributed` again"
        yield Finding("cluster", "fail", text)
    if not found.repairs:
        text = (
            "nobody ends transactions that a crash left prepared, whose rows stay locked: raise"
            " max_worker_processes on the coordinator and restart it"
        )
        yield Finding("cluster", "fail", text)
    if found.burdened is not None:
        host, _, port = found.burdened.rpartition(":")
        text = (
            "the coordinator has shards itself, and loses some 100 kB of memory with each prepared"
            f" statement that it runs on them: `select citus_drain_node('{host}', {port})`"
        )
        yield Finding("cluster", "fail", text)
    for node in found.nodes:
        yield from _of_node(node)


def _of_node(node: Node) -> Iterator[Finding]:
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
