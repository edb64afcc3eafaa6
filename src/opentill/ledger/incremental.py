"""Check a balance's entries in bounded ranges, from the first to the last entry: a pass.

Each range begins with the last entry of the previous one and continues the sums of all accounts, so
that a pass checks the same as ``ledger.rules`` at once.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from opentill.db.database import Tx
from opentill.ledger import incremental_queries, queries
from opentill.ledger.model import Progress, Violation
from opentill.ledger.postings import ACCOUNTS
from opentill.ledger.service import posting_columns

RANGE: Final = 50_000
MAX_STORED: Final = 100  # at most this many violations of a pass are stored


class CheckedRange(msgspec.Struct, frozen=True):
    """The result of checking a range: the progress of the pass, and whether it is finished."""

    progress: Progress
    entries: int
    finished: bool
    violations: list[Violation]


async def next_balance(tx: Tx, until: int) -> Progress | None:
    """Return the balance to check next; None if all passes ended after ``until`` (real time)."""
    return await incremental_queries.NEXT.first(tx, until=until)


async def check_range(tx: Tx, before: Progress, limit: int = RANGE) -> CheckedRange:
    """Check the next ``limit`` entries of a balance; ``tx`` is a snapshot."""
    key = {"merchant_id": before.merchant_id, "currency": before.currency}
    range_sums = await incremental_queries.SUMS.one(tx, **key, after=before.checked_to, limit=limit)
    balance = await queries.BALANCE.first(tx, **key)
    scope: dict[str, Any] = {**key, "after": before.checked_to, "last": range_sums.last}
    violations = await incremental_queries.WRONG.all(tx, **scope)
    violations += await incremental_queries.UNKNOWN.all(tx, **scope, **posting_columns())
    sums = {name: getattr(before, name) + getattr(range_sums, name) for name in ACCOUNTS}
    last_at = max(before.last_at, range_sums.last_at)
    finished = range_sums.entries < limit
    if finished:
        expected = {name: 0 if balance is None else getattr(balance, name) for name in ACCOUNTS}
        stored = (0, 0) if balance is None else (balance.entries, balance.last_at)
        if expected != sums or stored != (range_sums.last, last_at):
            rule = "the balance equals the sum of its entries"
            detail = "the balance row and its entries differ"
            violations.append(Violation(rule, before.merchant_id, before.currency, detail))
    progress = msgspec.structs.replace(before, checked_to=range_sums.last, last_at=last_at, **sums)
    progress = _add_violations(progress, violations)
    return CheckedRange(progress, range_sums.entries, finished, violations)


def _add_violations(progress: Progress, violations: Sequence[Violation]) -> Progress:
    """Add violations to a pass's progress, which stores the first ``MAX_STORED``."""
    rows = [*msgspec.json.decode(progress.pass_violation_rows, type=list[Violation]), *violations][
        :MAX_STORED
    ]
    return msgspec.structs.replace(
        progress,
        pass_violations=progress.pass_violations + len(violations),
        pass_violation_rows=msgspec.json.encode(rows).decode(),
    )


async def save(
    tx: Tx,
    before: Progress,
    checked: CheckedRange,
    now: int,
    *,
    whole: bool = True,
    stored_at: int | None = None,
) -> bool:
    """Store the progress of a pass; return False if another worker was faster.

    After the last range the next pass begins at the first entry. ``whole`` is False if the pass
    still has rules to check. ``now`` is real time, Unix ms. ``stored_at``: as in ``save_more``.
    """
    after = checked.progress
    entries = None
    if checked.finished:
        entries = after.checked_to
        start = dict.fromkeys(ACCOUNTS, 0)
        after = msgspec.structs.replace(after, checked_to=0, last_at=0, **start)
    return bool(
        await incremental_queries.SAVE.run(
            tx,
            after,
            checked_from=before.checked_to,
            entries=entries,
            whole=checked.finished and whole,
            checked_at=now,
            stored_at=stored_at,
        )
    )


async def save_more(
    tx: Tx,
    checked: CheckedRange,
    violations: Sequence[Violation],
    now: int,
    *,
    whole: bool,
    stored_at: int,
) -> bool:
    """Store violations found after a pass's last range, which is stored already.

    ``whole``: every rule was checked. ``stored_at`` is the time at which this worker last stored
    the pass. Returns False if another worker has stored anything since.
    """
    total = msgspec.structs.replace(checked, progress=_add_violations(checked.progress, violations))
    stored = msgspec.structs.replace(checked.progress, checked_to=0)
    return await save(tx, stored, total, now, whole=whole, stored_at=stored_at)


async def put_off(tx: Tx, before: Progress, now: int) -> bool:
    """Record a turn of a balance at ``now`` in which nothing could be checked."""
    return await save(tx, before, CheckedRange(before, 0, finished=False, violations=[]), now)
