"""The incremental check: the worker checks every rule over and over, a bounded part at a time.

A part is at most ``incremental.RANGE`` entries of a balance, read in one snapshot. After the last
part of a merchant's first balance, the rules about the merchant's orders, refunds and so on are
checked too. ``opentill ledger check`` checks everything at once.
"""

from functools import partial
from typing import Final

import structlog

from opentill.db.clock import now_ms
from opentill.db.database import Db
from opentill.integrity import queries, rules
from opentill.ledger import incremental

REST_MS: Final = 3_600_000  # between two checks of a balance
_BALANCES: Final = 50  # of one run of the job
_LOGGED: Final = 100  # of one part
_log: Final = structlog.get_logger()


async def check_some(db: Db, limit: int = incremental.RANGE) -> int:
    """Check up to ``limit`` entries where the last run stopped, and return how many there were.

    Violations are logged as errors, counted in ``ledger_checks``, and the first of them kept there.
    Two workers at once do no harm: what the slower one checked is not counted.
    """
    left = limit
    for _ in range(_BALANCES):
        now = now_ms()
        async with db.snapshot() as tx:
            before = await incremental.next_balance(tx, until=now - REST_MS)
            if before is None:
                break
            made = await incremental.check_range(tx, before, left)
            wrong = list(made.violations)
            if made.finished and await queries.IS_FIRST.get(
                tx, merchant_id=before.merchant_id, currency=before.currency
            ):
                wrong += await rules.check_merchant(tx, before.merchant_id)
        counted = await db.run(
            partial(incremental.save, before=before, made=made, wrong=wrong, now=now)
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
