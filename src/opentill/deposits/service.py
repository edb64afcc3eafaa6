"""Cases of deposits that staff must look at, and the progress of a payment."""

from collections.abc import Sequence
from typing import Final

from opentill.core.errors import Invalid, or_not_found
from opentill.db.database import Tx
from opentill.deposits import queries
from opentill.deposits.model import ChainState, DepositCase, Progress

_LISTED: Final = 500
_MOST_COUNTED: Final = 10_000
_LONGEST_RESOLUTION: Final = 500


async def find_progress(tx: Tx, attempt_id: str) -> Progress | None:
    """Return what arrived for an attempt; None if it has no address."""
    return await queries.PROGRESS.first(tx, attempt_id=attempt_id)


async def list_open_cases(tx: Tx) -> list[DepositCase]:
    """Return the latest open cases, the newest first."""
    return await queries.OPEN_CASES.all(tx, limit=_LISTED)


async def count_open_cases(tx: Tx) -> int:
    """Return how many cases are open, at most 10,000."""
    return await queries.COUNT_OPEN.get(tx, limit=_MOST_COUNTED) or 0


async def cases_of_attempts(tx: Tx, attempt_ids: Sequence[str]) -> list[DepositCase]:
    """Return all cases about attempts, the oldest first."""
    return await queries.CASES_OF_ATTEMPTS.all(tx, attempt_ids=list(attempt_ids))


async def close_case(tx: Tx, case_id: str, who: str, resolution: str, now: int) -> DepositCase:
    """Close a case and record what staff did. Raises NotFound, and Invalid on ``reason``."""
    text = resolution.strip()
    if not 0 < len(text) <= _LONGEST_RESOLUTION:
        raise Invalid("reason", f"reason must be 1 to {_LONGEST_RESOLUTION} characters")
    closed = await queries.CLOSE_CASE.first(tx, id=case_id, closed_by=who, resolution=text, now=now)
    return or_not_found(closed, f"there is no open case {case_id}")


async def list_chains(tx: Tx) -> list[ChainState]:
    """Return how far each account's chain was read, the longest failing first."""
    return await queries.CHAINS.all(tx)
