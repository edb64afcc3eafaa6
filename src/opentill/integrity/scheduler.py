"""The incremental check: the worker checks every rule over and over, a bounded part at a time.

A part is at most ``incremental.RANGE`` entries of a balance, read in one snapshot. After the last
part of a merchant's first balance, the rules about the merchant's orders, refunds and so on are
checked too, each by a statement of its own: how long one takes grows with the merchant. What cannot
be checked is logged and put off, so that it holds up no other merchant. ``opentill ledger check``
checks everything at once.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import structlog

from opentill.core.errors import Unavailable
from opentill.db.clock import now_ms
from opentill.db.database import Db
from opentill.integrity import queries, rules
from opentill.ledger import Violation, incremental
from opentill.ledger.model import Progress

REST_MS: Final = 3_600_000  # between two checks of a balance
_BALANCES: Final = 50  # of one run of the job
_LOGGED: Final = 100  # of one part, or of one rule
_log: Final = structlog.get_logger()


async def check_some(db: Db, limit: int = incremental.RANGE) -> int:
    """Check up to ``limit`` entries where the last run stopped, and return how many there were.

    Violations are logged as errors, counted in ``ledger_checks``, and the first of them kept there.
    Two workers at once do no harm: what the slower one checked is not counted. Raises Unavailable.
    """
    left = limit
    for _ in range(_BALANCES):
        now = now_ms()
        async with db.connection() as tx:
            before = await incremental.next_balance(tx, until=now - REST_MS)
        if before is None:
            break
        try:
            left -= await _check_part(db, before, left, now)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - it is logged, and the next run begins with another one
            _log.exception(
                "entries not checked", merchant=before.merchant_id, currency=before.currency
            )
            await db.run(partial(incremental.put_off, before=before, now=now))
            break
        if left <= 0:
            break
    return limit - left


async def _check_part(db: Db, before: Progress, limit: int, now: int) -> int:
    """Check the next ``limit`` entries of a balance, and its merchant if they are the last.

    Returns how many entries there were. How far they are checked is stored before the rules about
    the merchant begin: whatever becomes of these, the balance has its turn again after all others.
    """
    async with db.snapshot() as tx:
        with rules.in_time():
            made = await incremental.check_range(tx, before, limit)
        with_rules = made.finished and await queries.IS_FIRST.get(
            tx, merchant_id=before.merchant_id, currency=before.currency
        )
    save = partial(incremental.save, before=before, made=made, now=now, whole=not with_rules)
    if await db.run(save):
        _log_wrong(made.violations)
        if with_rules:
            await _check_merchant(db, before.merchant_id, made)
    return made.entries


async def _check_merchant(db: Db, merchant_id: str, made: incremental.CheckedRange) -> None:
    """Check the rules about a merchant after the last part of its first balance.

    A pass in which one of them could not be checked is not finished, and keeps what the pass before
    it found.
    """
    found: list[Violation] = []
    whole = True
    for rule in rules.of_merchant(merchant_id):
        try:
            wrong = await db.read_snapshot(rule.check)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - it is logged, and the other rules are checked
            _log.exception("rule not checked", rule=rule.holds, merchant=merchant_id)
            whole = False
        else:
            _log_wrong(wrong)
            found += wrong
    await db.run(partial(incremental.save_more, made=made, wrong=found, now=now_ms(), whole=whole))


def _log_wrong(wrong: Sequence[Violation]) -> None:
    for violation in wrong[:_LOGGED]:
        _log.error(
            "books wrong",
            rule=violation.rule,
            merchant=violation.merchant_id,
            subject=violation.subject,
            detail=violation.detail,
        )
