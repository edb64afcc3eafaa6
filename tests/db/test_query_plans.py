"""Query plans on a filled database: no statement reads a whole table, or all rows of a merchant."""

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any, Final

import asyncpg
import pytest

from opentill.db.query import Command, Query, Value
from opentill.list_counts.queries import ROLL
from opentill.orders.search import jobs as indexing
from support import filled_database
from support.databases import cloned_database
from support.pooler import connect
from test_queries import CHECKS_AND_COUNTS, STATEMENTS

MANY_ORDERS: Final = 10_000  # how many orders the busy merchant has
BIG_TABLES: Final = frozenset(
    {
        "orders",
        "checkouts",
        "payment_attempts",
        "order_history",
        "entries",
        "events",
        "list_counts",
        "search_terms",
        "search_words",
    }
)
_FIRST_OPEN: Final = f"cs_{MANY_ORDERS * 9 // 10:026}"  # a tenth of the sessions is open
# Statements that read every matching row, and why they may.
UNBOUNDED: Final = {
    "checkouts.queries.COUNT_DUE": "counts the sessions that an advance of the clock ends",
    "orders.payments.queries.COUNT_FAILED": "reads uncounted attempts by their partial index",
    "orders.payments.direct_queries.COUNT_DIRECT": "reads uncounted ones by their partial index",
    "orders.payments.queries.DUPLICATES": "reads second payments by their partial index",
    "orders.settlement.queries.DUE_MERCHANTS": "reads due orders by their partial index",
    "orders.settlement.queries.SETTLEABLE": "lists due orders for the operator",
    "orders.search.across_merchants_queries.PENDING_OF_ALL": "reads at most a thousand orders",
    "orders.search.queries.PENDING": "reads a merchant's orders that are not indexed yet",
    "orders.payments.queries.MAKE_DUE": "runs after the sandbox's clock was set back",
    "refunds.queries.MAKE_DUE": "runs after the sandbox's clock was set back",
    "webhooks.queries.MAKE_DUE": "runs after the sandbox's clock was set back",
    "webhooks.queries.SKIP_WAITING": "skips all waiting deliveries of a restored backup",
    "reconciliation.queries.BETWEEN": "reads the period of a gateway's report",
    "reconciliation.queries.NAMED": "reads the period of a gateway's report",
    "reconciliation.queries.HAS_PAYMENTS": "reads the period of a gateway's report",
    "mail.queries.OUTAGES": "reads attempts that must be queried by their partial index",
    "figures.brand_queries.RECOUNT": "counts everything again, as after an upgrade",
    "figures.gateway_queries.RECOUNT": "counts everything again, as after an upgrade",
    "webhooks.resend_queries.RESEND_RANGE": "resends all of a merchant's events in a period",
}
# Prefix of the statements with which the worker checks the books of one merchant at a time.
MERCHANT_CHECKS: Final = "integrity.queries.MERCHANT_"


@pytest.fixture(scope="module")
def plans(postgres_url: str, template: str) -> Iterator[dict[str, Any]]:
    """Generic plans of all statements, for one merchant with many orders and ten small ones."""

    async def explain_all(url: str) -> dict[str, Any]:
        connection = await connect(url)
        try:
            for copies in (MANY_ORDERS, *([20] * 10)):
                order = await filled_database.create_filled_merchant(connection, copies)
                await ROLL.get(connection, merchant_id=order.merchant_id, limit=3 * MANY_ORDERS)
                await indexing._index(connection, order.merchant_id, 2 * MANY_ORDERS, indexing.MANY)
            await connection.execute(
                "update checkouts set status = 'OPEN' where id > $1", _FIRST_OPEN
            )
            await connection.execute("vacuum analyze", timeout=120)
            await connection.execute("set plan_cache_mode = force_generic_plan")
            return {name: await explain(connection, statement) for name, statement in STATEMENTS}
        finally:
            await connection.close()

    async def explain(connection: asyncpg.Connection, statement: Query | Value | Command) -> Any:
        if statement.sql.startswith(("set ", "lock ")):
            return {}
        count = len((await connection.prepare(statement.sql)).get_parameters())
        await connection.execute(f"prepare explained as {statement.sql}")
        values = f"({', '.join(['null'] * count)})" if count else ""
        plans_ = await connection.fetchval(f"explain (format json) execute explained{values}")
        await connection.execute("deallocate explained")
        return json.loads(plans_)[0]["Plan"]

    with cloned_database(postgres_url, template) as url:
        yield asyncio.run(explain_all(url))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _reads_all(node: dict[str, Any]) -> bool:
    """Whether a node reads a big table, or an index of it by the merchant alone."""
    if node.get("Relation Name") not in BIG_TABLES:
        return False
    if node["Node Type"] == "Seq Scan":
        return True
    if node["Node Type"] not in {"Index Scan", "Index Only Scan"}:
        return False
    condition = node.get("Index Cond", "")
    return "Filter" in node and re.fullmatch(r"(\(merchant_id = [^()]*\))?", condition) is not None


def test_no_statement_reads_a_big_table(plans: dict[str, Any]) -> None:
    unbounded = {
        name: [node for node in _nodes(plan) if _reads_all(node)]
        for name, plan in plans.items()
        if name not in UNBOUNDED and not name.startswith((*CHECKS_AND_COUNTS, MERCHANT_CHECKS))
    }
    unbounded = {name: nodes for name, nodes in unbounded.items() if nodes}
    assert not unbounded, json.dumps(unbounded, indent=1)


# Statement → the partial index whose first rows it reads.
_PARTIAL: Final = {
    "orders.payments.queries.GATEWAYS_DUE": "payment_attempts_due",
    "orders.payments.queries.ENDED_ATTEMPTS": "payment_attempts_ended",
    "orders.payments.queries.ENDED_ATTEMPTS_OF_ENVIRONMENT": (
        "payment_attempts_ended_of_environment"
    ),
}


@pytest.mark.parametrize(("name", "index"), _PARTIAL.items())
def test_attempts_of_gateways_are_found_by_a_partial_index(
    plans: dict[str, Any], name: str, index: str
) -> None:
    nodes = list(_nodes(plans[name]))
    assert [node["Index Name"] for node in nodes if "Index Name" in node] == [index]
    assert "Limit" in {node["Node Type"] for node in nodes}


def test_the_check_of_a_merchant_reads_only_its_rows(plans: dict[str, Any]) -> None:
    """Every read of a big table has the condition on the merchant."""
    checked = 0
    for name, plan in plans.items():
        for node in _nodes(plan) if name.startswith(MERCHANT_CHECKS) else ():
            if node.get("Relation Name") not in BIG_TABLES:
                continue
            checked += 1
            conditions = [node.get(kind, "") for kind in ("Index Cond", "Recheck Cond", "Filter")]
            message = f"{name}: {json.dumps(node, indent=1)}"
            assert any("merchant_id = " in text for text in conditions), message
    assert checked
