"""Checks the ledger's own rules, and that orders, refunds and so on explain its entries.

The package is above the features, because it reads the rows of all of them. The rules are in
``queries.py``.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import asyncpg

from opentill import ledger, webhooks
from opentill.core.ids import first_id
from opentill.db.clock import now_ms
from opentill.db.database import Db, Tx
from opentill.db.jobs import run_all
from opentill.db.query import Query
from opentill.integrity import queries
from opentill.ledger import Violation
from opentill.orders import TRANSITIONS

# The columns of the table of order transitions, for the rule about history.
_TRANSITIONS: Final[Mapping[str, Any]] = {
    "source": [transition.source for transition in TRANSITIONS],
    "event": [transition.event for transition in TRANSITIONS],
    "target": [transition.target for transition in TRANSITIONS],
}


# The events of each transition, except the event of settlement. That is emitted once, however often
# the order reaches SETTLED, so the rule derives it from the order.
_EMITTED: Final = [
    (transition, type_)
    for transition in TRANSITIONS
    for type_ in transition.emits
    if type_ != "order.settled"
]
_EVENTS: Final[Mapping[str, Any]] = {
    "source": [transition.source for transition, _ in _EMITTED],
    "event": [transition.event for transition, _ in _EMITTED],
    "target": [transition.target for transition, _ in _EMITTED],
    "type": [type_ for _, type_ in _EMITTED],
}
_DAY_MS: Final = 86_400_000
_CLOCK_SKEW_MS: Final = 3_600_000  # largest tolerated difference between two machines' clocks


def event_values(now: int) -> Mapping[str, Any]:
    """Return the parameters of the rule about events; ``now`` is real time, Unix ms.

    The rule covers objects created within the retention of events minus one day, so that the time
    of the last pruning does not matter. Events are read from a little earlier, because a machine
    whose clock is behind may have written an event whose id is older than its order's.
    """
    since = now - webhooks.KEEP_EVENTS_MS + _DAY_MS
    return {
        **_EVENTS,
        "first_order": first_id("order", since),
        "first_refund": first_id("re", since),
        "first_dispute": first_id("dp", since),
        "first_payout": first_id("po", since),
        "first_event": first_id("evt", since - _CLOCK_SKEW_MS),
    }


def statements() -> Sequence[tuple[Query[Violation], Mapping[str, Any]]]:
    """Return all rules with their parameters, slowest first; ``check_all`` runs two at a time."""
    rules: list[tuple[Query[Violation], Mapping[str, Any]]] = [(rule, {}) for rule in queries.RULES]
    history, events = (queries.HISTORY, _TRANSITIONS), (queries.EVENTS, event_values(now_ms()))
    return [history, events, *ledger.rules(), *rules]


async def check_books(tx: Tx) -> tuple[int, list[Violation]]:
    """Check every rule; return the number of entries and the violations.

    Run it in a repeatable-read transaction, so that all rules see one snapshot.
    """
    violations: list[Violation] = []
    for rule, values in statements():
        violations += await rule.all(tx, **values)
    return await ledger.count_entries(tx), violations


async def check_all(db: Db) -> tuple[int, list[Violation]]:
    """Check like ``check_books``, with two rules at a time in the same snapshot."""
    async with db.snapshot() as first, db.snapshot(first) as second:
        waiting = deque(statements())
        violations: list[Violation] = []

        async def work(tx: Tx) -> None:
            while waiting:
                rule, values = waiting.popleft()
                violations.extend(await rule.all(tx, **values))

        await run_all(work(first), work(second))
        return await ledger.count_entries(first), sorted(violations, key=repr)


class MerchantRule(NamedTuple):
    """A rule that compares a merchant's orders, refunds and so on with its ledger entries."""

    holds: str
    rule: Query[Violation]
    values: Mapping[str, Any]

    async def check(self, tx: Tx) -> list[Violation]:
        """Return the violations. Raises CheckFailed."""
        with failing_checks():
            return await self.rule.all(tx, **self.values)


def merchant_rules(merchant_id: str) -> list[MerchantRule]:
    """Return the rules about a merchant."""
    values = {"merchant_id": merchant_id}
    rules = [(rule, values) for rule in queries.MERCHANT_RULES]
    rules.append((queries.MERCHANT_HISTORY, {**_TRANSITIONS, **values}))
    rules.append((queries.MERCHANT_EVENTS, {**event_values(now_ms()), **values}))
    return [
        MerchantRule(holds, rule, parameters)
        for holds, (rule, parameters) in zip(queries.MERCHANT_SENTENCES, rules, strict=True)
    ]


class CheckFailed(Exception):
    """A statement of a check ran out of time or of database resources.

    The database is available: other statements succeed.
    """


@contextmanager
def failing_checks() -> Iterator[None]:
    """Convert a statement's errors to CheckFailed; use it inside the block of the connection."""
    try:
        yield
    except asyncpg.TooManyConnectionsError:
        raise
    except (TimeoutError, asyncpg.InsufficientResourcesError) as error:
        raise CheckFailed from error
