"""The plans of statements on a filled database: none reads a big table, or all of one merchant."""

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
from support.databases import clone
from test_queries import EVERYWHERE, STATEMENTS

BIG: Final = 10_000  # orders of the busy merchant
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
    }
)
_RECENT: Final = f"cs_{BIG * 9 // 10:026}"
# Read as much as there is to be found, and why that is right.
WHOLE: Final = {
    "checkouts.queries.COUNT_DUE": "counts what an advance of the sandbox's clock ends",
    "orders.payments.queries.COUNT_FAILED": "what is not counted yet, by the index of just that",
    "orders.settlement.queries.DUE_MERCHANTS": "counts what is due, by the index of what is due",
    "orders.settlement.queries.SETTLEABLE": "lists what is due, for the operator",
    "orders.search.queries.PENDING": "a merchant's orders that are not indexed yet, all of them",
    "orders.payments.queries.MAKE_DUE": "the sandbox's clock went back",
    "refunds.queries.MAKE_DUE": "the sandbox's clock went back",
    "webhooks.queries.MAKE_DUE": "the sandbox's clock went back",
    "webhooks.queries.SKIP_WAITING": "a restored backup: all that waits",
    "reconciliation.queries.BETWEEN": "a period of a gateway's report",
    "reconciliation.queries.NAMED": "a period of a gateway's report",
    "reconciliation.queries.HAS_PAYMENTS": "a period of a gateway's report",
    "mail.queries.OUTAGES": "attempts to be asked about, by the index of just those",
    "figures.gateway_queries.RECOUNT": "everything is counted anew, as after an upgrade",
    "webhooks.queries.RESEND_RANGE": "a merchant's events of a period, all to be sent again",
}
BY_MERCHANT: Final = (
    "integrity.queries.MERCHANT_"  # the worker's check of the books, a merchant at a time
)


@pytest.fixture(scope="module")
def plans(postgres_url: str, template: str) -> Iterator[dict[str, Any]]:
    """Generic plans of all statements, on a merchant with many orders beside small ones."""

    async def explain(url: str) -> dict[str, Any]:
        connection = await asyncpg.connect(url)
        try:
            for copies in (BIG, *([20] * 10)):
                order = await filled_database.shop(connection, copies)
                await ROLL.get(connection, merchant_id=order.merchant_id, limit=3 * BIG)
                await indexing._index(connection, order.merchant_id, 2 * BIG, indexing.MANY)
            # Sessions that are open, as many as a busy hour has.
            await connection.execute("update checkouts set status = 'OPEN' where id > $1", _RECENT)
            await connection.execute("vacuum analyze", timeout=120)
            await connection.execute("set plan_cache_mode = force_generic_plan")
            return {name: await plan(connection, statement) for name, statement in STATEMENTS}
        finally:
            await connection.close()

    async def plan(connection: asyncpg.Connection, statement: Query | Value | Command) -> Any:
        if statement.sql.startswith(("set ", "lock ")):
            return {}
        takes = len((await connection.prepare(statement.sql)).get_parameters())
        await connection.execute(f"prepare hot as {statement.sql}")
        values = f"({', '.join(['null'] * takes)})" if takes else ""
        plans_ = await connection.fetchval(f"explain (format json) execute hot{values}")
        await connection.execute("deallocate hot")
        return json.loads(plans_)[0]["Plan"]

    with clone(postgres_url, template) as url:
        yield asyncio.run(explain(url))


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
    wrong = {
        name: [node for node in _nodes(plan) if _reads_all(node)]
        for name, plan in plans.items()
        if name not in WHOLE and not name.startswith((*EVERYWHERE, BY_MERCHANT))
    }
    wrong = {name: nodes for name, nodes in wrong.items() if nodes}
    assert not wrong, json.dumps(wrong, indent=1)


def test_the_check_of_a_merchant_reads_only_its_rows(plans: dict[str, Any]) -> None:
    """However PostgreSQL reads them: the condition on the merchant reaches every big table."""
    checked = 0
    for name, plan in plans.items():
        for node in _nodes(plan) if name.startswith(BY_MERCHANT) else ():
            if node.get("Relation Name") not in BIG_TABLES:
                continue
            checked += 1
            conditions = [node.get(kind, "") for kind in ("Index Cond", "Recheck Cond", "Filter")]
            shown = f"{name}: {json.dumps(node, indent=1)}"
            assert any("merchant_id = " in text for text in conditions), shown
    assert checked
