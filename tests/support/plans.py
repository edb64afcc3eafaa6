"""The number of rows that a statement reads, from PostgreSQL's ``explain analyze``."""

import json
from collections.abc import Iterator
from typing import Any

from opentill.db.database import Tx
from opentill.db.query import Query


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


async def max_rows_read(tx: Tx, statement: Query[Any], **values: Any) -> int:
    """Run a statement; return the largest number of rows that a node of its plan reads."""
    arguments = [values[name] for name in statement.names]
    explain = f"explain (analyze, format json, timing off) {statement.sql}"
    plan = json.loads(await tx.fetchval(explain, *arguments))[0]["Plan"]
    return max(
        int(node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)))
        for node in _nodes(plan)
    )
