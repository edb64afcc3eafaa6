"""Whether the ledger's own rules hold, and whether the features' rows explain its entries.

It stands above the features because it reads the rows of all of them. The rules themselves are in
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

# The table of an order's transitions by its columns, for the rule about its history.
_TRANSITIONS: Final[Mapping[str, Any]] = {
    "source": [transition.source for transition in TRANSITIONS],
    "event": [transition.event for transition in TRANSITIONS],
    "target": [transition.target for transition in TRANSITIONS],
}


# The events of each transition, likewise. That an order settled is emitted once, however often it
# reaches SETTLED, so the rule takes that from the order itself.
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
_CLOCKS_DIFFER_MS: Final = 3_600_000  # of two machines, at most


def event_values(now: int) -> Mapping[str, Any]:
    """Return the values of the rule about events: it covers what was created while they are kept.

    One day less, so that it does not matter when the last events were removed, and by which clock.
    Events are read from a little before: a machine whose clock is behind may have made the event of
    the first order, with an id that is older than the order's. ``now`` is real time.
    """
    since = now - webhooks.KEEP_EVENTS_MS + _DAY_MS
    return {
        **_EVENTS,
        "first_order": first_id("order", since),
        "first_refund": first_id("re", since),
        "first_dispute": first_id("dp", since),
        "first_payout": first_id("po", since),
        "first_event": first_id("evt", since - _CLOCKS_DIFFER_MS),
    }


def statements() -> Sequence[tuple[Query[Violation], Mapping[str, Any]]]:
    """Return all rules with their values, the slowest first: ``check_all`` runs two at a time."""
    rules: list[tuple[Query[Violation], Mapping[str, Any]]] = [(rule, {}) for rule in queries.RULES]
    history, events = (queries.HISTORY, _TRANSITIONS), (queries.EVENTS, event_values(now_ms()))
    return [history, events, *ledger.rules(), *rules]


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


class MerchantRule(NamedTuple):
    """That a merchant's orders, refunds and so on explain its entries: one rule about them."""

    holds: str
    rule: Query[Violation]
    values: Mapping[str, Any]

    async def check(self, tx: Tx) -> list[Violation]:
        """Return where it does not hold. Raises NotPossible."""
        with possible():
            return await self.rule.all(tx, **self.values)


def of_merchant(merchant_id: str) -> list[MerchantRule]:
    """Return all rules about a merchant."""
    values = {"merchant_id": merchant_id}
    rules = [(rule, values) for rule in queries.MERCHANT_RULES]
    rules.append((queries.MERCHANT_HISTORY, {**_TRANSITIONS, **values}))
    rules.append((queries.MERCHANT_EVENTS, {**event_values(now_ms()), **values}))
    return [
        MerchantRule(holds, *each)
        for holds, each in zip(queries.MERCHANT_HOLDS, rules, strict=True)
    ]


class NotPossible(Exception):
    """A statement of the check took longer than it may, or more than the database has for it.

    The database is not away: others are served.
    """


@contextmanager
def possible() -> Iterator[None]:
    """Raise NotPossible for such a statement, inside of what lends the connection."""
    try:
        yield
    except asyncpg.TooManyConnectionsError:
        raise
    except (TimeoutError, asyncpg.InsufficientResourcesError) as error:
        raise NotPossible from error
