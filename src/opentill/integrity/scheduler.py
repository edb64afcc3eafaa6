"""The worker's rounds: every rule of the books is checked again and again, in bounded steps.

A step looks at one snapshot of at most ``walk.RANGE`` entries of a balance; at a balance's end it
looks at all that explains the merchant's entries too. ``opentill ledger check`` does all at once.
"""

from functools import partial
from typing import Final

import structlog

from opentill.db.clock import now_ms
from opentill.db.database import Db, Tx
from opentill.db.query import Query, Value
from opentill.integrity import rules
from opentill.ledger import Violation, incremental

ROUND_MS: Final = 3_600_000  # a balance that was checked rests so long
_BALANCES: Final = 50  # of one run of the job
_LOGGED: Final = 100  # of one step
_log: Final = structlog.get_logger()

# Whether a balance is the merchant's first: the rules about the merchant are checked with that one.
_FIRST: Final = Value(
    bool,
    """
    select not exists (select from balances
    where merchant_id = :merchant_id and currency < :currency)
    """,
)


def _of_merchant(rule: Query[Violation]) -> Query[Violation]:
    """Limit a rule to one merchant; PostgreSQL takes the condition down into it where it can."""
    sql = f"select * from ({rule.text}) as found where merchant_id = :merchant_id"  # noqa: S608 - ours
    return Query(Violation, sql)


RULES: Final = tuple(map(_of_merchant, rules.RULES))
HISTORY: Final = _of_merchant(rules.HISTORY)


async def check_merchant(tx: Tx, merchant_id: str) -> list[Violation]:
    """Check that a merchant's orders, refunds and so on explain its entries."""
    violations: list[Violation] = []
    for rule in RULES:
        violations += await rule.all(tx, merchant_id=merchant_id)
    steps = rules.known_steps()
    return violations + await HISTORY.all(tx, **steps, merchant_id=merchant_id)


async def check_some(db: Db, limit: int = incremental.RANGE) -> int:
    """Check up to ``limit`` entries where the last run stopped, and return how many there were.

    Every violation is logged as an error and counted in ``ledger_checks``. Two workers at once do
    no harm: the slower one's step is not counted.
    """
    left = limit
    for _ in range(_BALANCES):
        now = now_ms()
        async with db.snapshot() as tx:
            before = await incremental.NEXT.first(tx, until=now - ROUND_MS)
            if before is None:
                break
            made = await incremental.step(tx, before, left)
            wrong = list(made.violations)
            if made.finished and await _FIRST.get(
                tx, merchant_id=before.merchant_id, currency=before.currency
            ):
                wrong += await check_merchant(tx, before.merchant_id)
        found = before.found + len(wrong)
        counted = await db.run(
            partial(incremental.save, before=before, made=made, found=found, now=now)
        )
        for violation in wrong[:_LOGGED] if counted else ():
            _log.error(
                "books wrong",
                rule=violation.rule,
                merchant=violation.merchant_id,
                subject=violation.subject,
                detail=violation.detail,
            )
        left -= made.entries
        if left <= 0:
            break
    return limit - left
