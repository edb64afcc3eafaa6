"""The four-eyes rule: the second person must be independent of the first."""

from collections.abc import Callable
from typing import Final

import msgspec

from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.merchants import operator_actions
from opentill.people import queries
from opentill.people.lifetimes import HOUR_MS
from opentill.people.model import person_named

# For this time after they joined, newcomers cannot approve requests of the person who invited them.
_NEWCOMER_MS: Final = 72 * HOUR_MS


class Approver(msgspec.Struct, frozen=True):
    """A person who approves.

    ``knows`` returns whether their browser has logged in to the account of an email address.
    """

    who: str
    knows: Callable[[str], bool]


async def check_second(tx: Tx, asked_by: str, approver: Approver, now: int) -> None:
    """Raise Invalid unless ``approver`` can approve a request of ``asked_by``.

    The approver must be another person, whom the first has neither invited nor given a new
    password in the last 72 hours, directly or through others, and must use a browser in which the
    first has not logged in. The error names ``by``, ``invited`` or ``browser``.
    """
    operator_actions.check_second_operator(asked_by, approver.who)
    maker, other = person_named(asked_by), person_named(approver.who)
    if maker is None or other is None:
        return
    if await queries.WAS_LET_IN.get(tx, person_id=other, maker=maker, since=now - _NEWCOMER_MS):
        reason = f"by must be somebody whom {asked_by} has not let in within the last 72 hours"
        raise Invalid("invited", reason)
    person = await queries.PERSON.first(tx, id=maker)
    if person is not None and approver.knows(person.email):
        reason = f"by must approve in a browser in which {asked_by} has not logged in"
        raise Invalid("browser", reason)
