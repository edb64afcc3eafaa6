"""Whether the ledger's own rules hold, and whether the features' rows explain its entries.

It stands above the features because it reads the rows of all of them. The rules themselves are in
``queries.py``.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentill import ledger
from opentill.db.database import Db, Tx
from opentill.db.jobs import run_all
from opentill.db.query import Query
from opentill.integrity import queries
from opentill.ledger import Violation
from opentill.orders import TRANSITIONS

# The table of an order's transitions by its columns, for the rule about its history.
_TRANSITIONS: Final[Mapping[str, Any]] = {
    "source": [transition.source for transition in TRANSITIONS],
    "event": [transition.event for transition in TRANSITIONS],
    "target": [transition.target for transition in TRANSITIONS],
}


def statements() -> Sequence[tuple[Query[Violation], Mapping[str, Any]]]:
    """Return all rules with their values, the slowest first: ``check_all`` runs two at a time."""
    rules: list[tuple[Query[Violation], Mapping[str, Any]]] = [(rule, {}) for rule in queries.RULES]
    return [(queries.HISTORY, _TRANSITIONS), *ledger.rules(), *rules]


async def check_books(tx: Tx) -> tuple[int, list[Violation]]:
    """Check every rule. Returns how many entries there are and what is wrong.

    To be run in one repeatable-read transaction, so that it sees the database of one moment.
    """
    violations: list[Violation] = []
    for rule, values in statements():
        violations += await rule.all(tx, **values)
    return await ledger.count(tx), violations


async def check_all(db: Db) -> tuple[int, list[Violation]]:
    """Check as ``check_books`` does, two rules at a time, both of the same moment."""
    async with db.snapshot() as first, db.snapshot(first) as second:
        waiting = deque(statements())
        violations: list[Violation] = []

        async def work(tx: Tx) -> None:
            while waiting:
                rule, values = waiting.popleft()
                violations.extend(await rule.all(tx, **values))

        await run_all(work(first), work(second))
        return await ledger.count(first), sorted(violations, key=repr)


async def check_merchant(tx: Tx, merchant_id: str) -> list[Violation]:
    """Check that a merchant's orders, refunds and so on explain its entries."""
    violations: list[Violation] = []
    for rule in queries.MERCHANT_RULES:
        violations += await rule.all(tx, merchant_id=merchant_id)
    history = queries.MERCHANT_HISTORY
    return violations + await history.all(tx, **_TRANSITIONS, merchant_id=merchant_id)
