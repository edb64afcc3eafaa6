"""Who can be the second person for somebody: another one, who is independent of them."""

from collections.abc import Callable
from typing import Final

import msgspec

from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.merchants import operator_actions
from opentill.people import queries
from opentill.people.model import HOUR_MS, person_named

_LET_IN_MS: Final = 72 * HOUR_MS  # so long, whoever was let in is no second person for their host


class Approver(msgspec.Struct, frozen=True):
    """Who approves. ``knows``: whether their browser has logged in to an account, by its e-mail."""

    who: str
    knows: Callable[[str], bool]


async def check_second(tx: Tx, asked_by: str, approver: Approver, now: int) -> None:
    """Raise Invalid unless somebody can approve what ``asked_by`` has asked for.

    They are another person, whom the first one has neither invited nor given a new password in the
    last 72 hours, also by way of others, and who uses no browser of the first one's. The error is
    on ``by``, ``invited`` or ``browser``.
    """
    operator_actions.second(asked_by, approver.who)
    maker, other = person_named(asked_by), person_named(approver.who)
    if maker is None or other is None:
        return
    if await queries.WAS_LET_IN.get(tx, person_id=other, maker=maker, since=now - _LET_IN_MS):
        reason = f"by must be somebody whom {asked_by} has not let in within the last 72 hours"
        raise Invalid("invited", reason)
    person = await queries.PERSON.first(tx, id=maker)
    if person is not None and approver.knows(person.email):
        reason = f"by must approve in a browser in which {asked_by} has not logged in"
        raise Invalid("browser", reason)
