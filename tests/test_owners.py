"""Only the feature that owns a table writes it (decision 0049).

PostgreSQL's plan shows which tables a statement modifies, also inside ``with``.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Final

import asyncpg
import pytest

from support.pooler import connect
from support.statements import EVERYWHERE
from support.tables import TABLES

# These statements write a table of another feature.
EXCEPTIONS: Final = {
    # The transition that pays an order queues the notification for its Epay shop.
    ("orders.transition_queries.TRANSITION", "epay_notifications"),
    ("orders.transition_queries.CONFIRMATIONS", "epay_notifications"),
    # The statement that submits an order reserves its fee in the prepaid balance.
    ("orders.transition_queries.SUBMITTED_PREPAID", "balances"),
    ("orders.transition_queries.SUBMITTED_PREPAID_WITHIN_LIMIT", "balances"),
    # For every request, one statement looks up both its caller and its rate limit.
    ("merchants.queries.AUTHENTICATE_LIMITED", "rate_limit_windows"),
}


def _modified(node: dict[str, Any]) -> Iterator[str]:
    """Yield the tables that a plan modifies."""
    if node.get("Node Type") == "ModifyTable":
        yield node["Relation Name"]
    for child in node.get("Plans", ()):
        yield from _modified(child)


async def _plan(connection: asyncpg.Connection, sql: str) -> dict[str, Any]:
    prepared = await connection.prepare(sql)
    values = ", ".join(["null"] * len(prepared.get_parameters()))
    execute = f"execute {prepared.get_name()}" + (f" ({values})" if values else "")
    plan = json.loads(await connection.fetchval(f"explain (format json) {execute}"))[0]
    return {} if plan == "Utility Statement" else plan["Plan"]


@pytest.fixture(scope="module")
def written_tables(postgres_url: str, template: str) -> dict[str, set[str]]:
    """The tables that each statement of the product writes."""

    async def explain() -> dict[str, set[str]]:
        connection = await connect(postgres_url.replace("@/opentill?", f"@/{template}?"))
        try:
            return {
                name: set(_modified(await _plan(connection, statement.sql)))
                for name, statement in EVERYWHERE.items()
            }
        finally:
            await connection.close()

    return asyncio.run(explain())


def test_only_its_owner_writes_a_table(written_tables: dict[str, set[str]]) -> None:
    foreign = {
        (name, table)
        for name, tables in written_tables.items()
        for table in tables
        if TABLES[table].owner not in {name.split(".")[0], ""}
    }
    assert foreign == EXCEPTIONS


def test_every_owner_writes_its_table(written_tables: dict[str, set[str]]) -> None:
    owners = {(name, table.owner) for name, table in TABLES.items() if table.owner}
    writers = {
        (table, name.split(".")[0]) for name in written_tables for table in written_tables[name]
    }
    # Only migrations and triggers write these tables.
    without_statement = {"schema_migrations", "late_payments", "payment_link_sales"}
    assert {table for table, _ in owners - writers} <= without_statement
