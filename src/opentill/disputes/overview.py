"""Lists and sums of disputes: those of a merchant, and those of all merchants for staff."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from opentill.core.errors import NotFound
from opentill.db.database import Tx
from opentill.disputes import queries
from opentill.disputes.model import (
    OPEN_STATES,
    STATUSES,
    Dispute,
    Response,
    Stake,
    State,
    Status,
    WaitingCases,
    filter_of,
)
from opentill.disputes.service import find_anywhere
from opentill.list_counts import FOREVER, page_values

MOST_COUNTED: Final = 100


async def page(
    tx: Tx,
    merchant_id: str,
    choice: State | Status | None,
    within: tuple[int, int],
    number: int,
    size: int,
) -> tuple[list[Dispute], Counter[State]]:
    """Return a page (from 1) of a merchant's disputes, and the numbers of disputes by state.

    ``choice``: see ``filter_of``. Without one, open disputes come first. Those with one state of an
    open dispute are sorted by deadline, all others newest first. ``within``: times of opening,
    inclusive Unix ms. The numbers are those of all states within these times.
    """
    counts = await count_by_state(tx, merchant_id, within)
    offset = (number - 1) * size
    if total_of(counts, choice) <= offset:
        return [], counts
    chosen = filter_of(choice)
    values = {"merchant_id": merchant_id, "since": within[0], "until": within[1]}
    if chosen.response is not None:
        values["response"] = chosen.response
        rows = queries.OPEN_WITH_RESPONSE
    elif chosen.status is not None:
        values["status"] = chosen.status
        rows = queries.LISTS["status",].newest
    else:
        rows = queries.OPEN_FIRST
    return await rows.all(tx, **values, limit=size, offset=offset), counts


def total_of(counts: Mapping[State, int], choice: State | Status | None) -> int:
    """Return how many disputes a choice selects (see ``filter_of``), of those by state."""
    if choice == "OPEN":
        return sum(counts.get(state, 0) for state in OPEN_STATES.values())
    return sum(number for state, number in counts.items() if choice in {None, state})


async def count_by_state(tx: Tx, merchant_id: str, within: tuple[int, int]) -> Counter[State]:
    """Count a merchant's disputes of each state. ``within`` is that of ``page``."""
    values = {"merchant_id": merchant_id, "since": within[0], "until": within[1]}
    counts = Counter[State]()
    for row in await queries.COUNT_BY_STATE.all(tx, **values):
        counts[row.state] += row.number
    return counts


async def count_waiting(tx: Tx, merchant_id: str, now: int) -> WaitingCases:
    """Count a merchant's open disputes without a response and failed refunds.

    Each up to MOST_COUNTED. One statement counts both, because each page of a merchant does.
    """
    return await queries.WAITING.one(tx, merchant_id=merchant_id, limit=MOST_COUNTED, now=now)


async def sum_at_stake(tx: Tx, merchant_id: str, *, with_contested: bool = False) -> list[Stake]:
    """Return what open disputes without a response can cost a merchant, by currency.

    ``with_contested`` adds the contested ones. It is the amount of each dispute and its fee.
    """
    return await queries.AT_STAKE.all(tx, merchant_id=merchant_id, with_contested=with_contested)


class DisputeFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter for disputes of all merchants that were opened in a range of time (inclusive Unix ms).

    ``response`` is that of a ``StateFilter``. ``due`` (Unix ms) selects the open disputes whose
    deadline is not later, sorted by deadline; None selects disputes of ``statuses``, newest first.
    ``after`` is the id of the last dispute on the previous page, "" for the first page.
    """

    statuses: tuple[Status, ...] = STATUSES
    response: Response | Literal["NONE"] | None = None
    since: int = 0
    until: int = FOREVER
    due: int | None = None
    after: str = ""


async def search_all(tx: Tx, criteria: DisputeFilter, limit: int) -> list[Dispute]:
    """Return disputes of all merchants; ``after`` is ignored if no dispute has this id."""
    last = await _find_last(tx, criteria.after)
    if criteria.due is not None:
        return await queries.DUE.all(
            tx,
            since=criteria.since,
            until=criteria.until,
            due=criteria.due,
            after_at=0 if last is None else last.respond_by or 0,
            after_id="" if last is None else last.id,
            limit=limit,
        )
    days = criteria.since, criteria.until
    values = page_values(criteria.statuses, days, last, limit)
    return await queries.OF_ALL.all(tx, **values, response=criteria.response)


async def list_unforwarded(tx: Tx, limit: int) -> list[Dispute]:
    """Return open disputes of all merchants whose response waits for staff, oldest response first.

    A response waits until staff have recorded that they forwarded it to the bank.
    """
    return await queries.UNFORWARDED.all(tx, limit=limit)


async def find_unforwarded(tx: Tx, merchant_id: str, disputes: Sequence[Dispute]) -> frozenset[str]:
    """Return the ids of those disputes of a merchant whose response waits for staff."""
    ids = [dispute.id for dispute in disputes if dispute.status == "OPEN" and dispute.response]
    if not ids:
        return frozenset()
    rows = await queries.UNFORWARDED_OF_IDS.all(tx, merchant_id=merchant_id, ids=ids)
    return frozenset(row.id for row in rows)


async def _find_last(tx: Tx, dispute_id: str) -> Dispute | None:
    try:
        return await find_anywhere(tx, dispute_id) if dispute_id else None
    except NotFound:
        return None


async def find_order_ids(tx: Tx, merchant_id: str, dispute_ids: Sequence[str]) -> dict[str, str]:
    """Return the ids of disputes' orders, by the disputes' ids."""
    rows = await queries.OF_IDS.all(tx, merchant_id=merchant_id, ids=list(dispute_ids))
    return {row.id: row.order_id for row in rows}
