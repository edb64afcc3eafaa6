"""Checking a balance's entries a bounded range at a time, from the first to the last.

Each range begins with the last entry of the one before and continues the sums of all accounts, so
that the ranges together check all that ``ledger.rules`` checks at once.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from opentill.db.database import Tx
from opentill.ledger import incremental_queries, queries
from opentill.ledger.model import Progress, Violation
from opentill.ledger.postings import ACCOUNTS
from opentill.ledger.service import known_moves

RANGE: Final = 50_000
KEPT: Final = 100  # violations of a round, for people to look at


class CheckedRange(msgspec.Struct, frozen=True):
    """What the check of a range found: how far the balance is checked, and if that is its end."""

    progress: Progress
    entries: int
    finished: bool
    violations: list[Violation]


async def next_balance(tx: Tx, until: int) -> Progress | None:
    """Return the balance to check next; None if all were finished after ``until`` (real time)."""
    return await incremental_queries.NEXT.first(tx, until=until)


async def check_range(tx: Tx, before: Progress, limit: int = RANGE) -> CheckedRange:
    """Check the next ``limit`` entries of a balance; ``tx`` is a snapshot of one moment."""
    key = {"merchant_id": before.merchant_id, "currency": before.currency}
    found = await incremental_queries.SUMS.one(tx, **key, after=before.checked_to, limit=limit)
    balance = await queries.BALANCE.first(tx, **key)
    span: dict[str, Any] = {**key, "after": before.checked_to, "last": found.last}
    wrong = await incremental_queries.WRONG.all(tx, **span)
    wrong += await incremental_queries.UNKNOWN.all(tx, **span, **known_moves())
    sums = {name: getattr(before, name) + getattr(found, name) for name in ACCOUNTS}
    last_at = max(before.last_at, found.last_at)
    finished = found.entries < limit
    if finished:
        expected = {name: 0 if balance is None else getattr(balance, name) for name in ACCOUNTS}
        there = (0, 0) if balance is None else (balance.entries, balance.last_at)
        if expected != sums or there != (found.last, last_at):
            rule = "the balance equals the sum of its entries"
            detail = "the balance row and its entries differ"
            wrong.append(Violation(rule, before.merchant_id, before.currency, detail))
    after = msgspec.structs.replace(before, checked_to=found.last, last_at=last_at, **sums)
    return CheckedRange(_with(after, wrong), found.entries, finished, wrong)


def _with(progress: Progress, wrong: Sequence[Violation]) -> Progress:
    """Return a round's progress with more violations, of which the first ``KEPT`` are kept."""
    rows = [*msgspec.json.decode(progress.found_rows, type=list[Violation]), *wrong][:KEPT]
    return msgspec.structs.replace(
        progress,
        found=progress.found + len(wrong),
        found_rows=msgspec.json.encode(rows).decode(),
    )


async def save(
    tx: Tx,
    before: Progress,
    made: CheckedRange,
    now: int,
    *,
    whole: bool = True,
    stored_at: int | None = None,
) -> bool:
    """Store how far a balance is checked; return False if another worker was faster.

    After the last range, the next round begins at the first entry; the one that ends is not
    ``whole`` if there is more to check than entries. ``now`` is real time, Unix ms.
    """
    after = made.progress
    entries = None
    if made.finished:
        entries = after.checked_to
        start = dict.fromkeys(ACCOUNTS, 0)
        after = msgspec.structs.replace(after, checked_to=0, last_at=0, **start)
    return bool(
        await incremental_queries.SAVE.run(
            tx,
            after,
            checked_from=before.checked_to,
            entries=entries,
            whole=made.finished and whole,
            checked_at=now,
            stored_at=stored_at,
        )
    )


async def save_more(
    tx: Tx,
    made: CheckedRange,
    wrong: Sequence[Violation],
    now: int,
    *,
    whole: bool,
    stored_at: int,
) -> bool:
    """Store what else was found after a round's last range, which is stored already.

    ``whole``: all of it was checked. ``stored_at`` is when this round was stored last. Returns
    False if another worker has begun the next one since.
    """
    more = msgspec.structs.replace(made, progress=_with(made.progress, wrong))
    stored = msgspec.structs.replace(made.progress, checked_to=0)
    return await save(tx, stored, more, now, whole=whole, stored_at=stored_at)


async def put_off(tx: Tx, before: Progress, now: int) -> bool:
    """Store that a balance had its turn at ``now``, though nothing of it was checked."""
    return await save(tx, before, CheckedRange(before, 0, finished=False, violations=[]), now)
