"""How much waits for staff on pages of the menu: the counts beside its links.

The counts of a person are kept for twenty seconds in each process, so that most pages read nothing;
what the person does forgets them.
"""

import time
from collections.abc import Mapping
from typing import Final

from opentill import merchants, reconciliation
from opentill.console import need_counts
from opentill.console.second_person import count_approvable, count_confirmable_resets
from opentill.portal.request import PageRequest

_VALID_S: Final = 20.0
_MOST_PEOPLE: Final = 1000
_counts: Final[dict[str, tuple[float, Mapping[str, int]]]] = {}  # by the id of the person


async def count_waiting(request: PageRequest) -> Mapping[str, int]:
    """Count open disputes, differences, applications and approvals, by the path of their page."""
    login = request.optional_login
    if login is None or login.staff_role is None:  # an error page, which has no menu for them
        return {}
    person_id, now = login.person_id, time.monotonic()
    until, counts = _counts.get(person_id, (0.0, {}))
    if not request.is_read:  # it may change the counts: the next page reads them
        _counts.pop(person_id, None)
        return counts
    if until > now:
        return counts
    counts = await _read(request)
    if len(_counts) >= _MOST_PEOPLE:
        _counts.clear()
    _counts[person_id] = now + _VALID_S, counts
    return counts


async def _read(request: PageRequest) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    async with request.app.db.connection() as tx:
        if request.may("disputes.read"):
            counts["/disputes"] = len(await need_counts.list_open_disputes(tx))
        if request.may("balance.read"):
            counts["/reconciliation"] = await reconciliation.count_open(tx)
        if request.may("merchants.manage"):
            counts["/applications"] = await merchants.count_waiting(tx)
        counts["/approvals"] = await count_approvable(tx, request)
        counts["/approvals"] += await count_confirmable_resets(tx, request)
    return counts
