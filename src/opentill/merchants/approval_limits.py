"""The limit above which a second person must approve, over a person's movements of 24 hours.

Amounts that a person moves at a merchant without a second person are recorded and count for 24
hours, so that several small movements need a second person like one large one. Checks lock the head
of the audit log, so that of two concurrent movements the second counts the first (decision 0141).
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from opentill.core import money
from opentill.db.database import Tx
from opentill.merchants import audit, queries
from opentill.merchants.audit import Actor
from opentill.merchants.model import SoloMovement
from opentill.merchants.operator_actions import ROOT

WINDOW_MS: Final = 24 * 3_600_000


def maker_of(who: str) -> str:
    """Return the subject under which movements are counted: the person's id.

    All system users of the machine count as one person, its owner.
    """
    if who.startswith(ROOT):
        return "root"
    return Actor(who, "").person_id or who.casefold()


async def exceeds(
    tx: Tx, merchant_id: str, who: str, amount: tuple[int, str], above: Decimal | None, now: int
) -> bool:
    """Whether an amount plus the person's movements of 24 hours exceed a limit.

    ``amount`` is in minor units with its currency; ``above`` is in whole units of any currency,
    None for no limit. Read-only and without locks; see ``needs_second``.
    """
    if above is None:
        return False
    solo_sums = await queries.SOLO_SUMS.all(
        tx, merchant_id=merchant_id, maker=maker_of(who), since=now - WINDOW_MS
    )
    sums = [amount, *((row.amount_minor, row.currency) for row in solo_sums)]
    return (
        sum(Decimal(abs(minor)).scaleb(-money.exponent(currency)) for minor, currency in sums)
        > above
    )


async def needs_second(
    tx: Tx, merchant_id: str, who: str, amount: tuple[int, str], above: Decimal | None, now: int
) -> bool:
    """Like ``exceeds``, but wait for concurrent movements to commit, so that they count."""
    if above is None:
        return False
    await audit.lock_log(tx)
    return await exceeds(tx, merchant_id, who, amount, above, now)


async def record(tx: Tx, movement: SoloMovement, now: int) -> None:
    """Record an amount that a person moves alone."""
    await record_many(tx, [movement], now)


async def record_many(tx: Tx, movements: Iterable[SoloMovement], now: int) -> None:
    """Record many amounts in one statement, because other operators wait for the lock meanwhile."""
    nonzero_movements = [movement for movement in movements if movement.amount_minor]
    if not nonzero_movements:
        return
    await queries.RECORD_SOLO_MOVEMENTS.run(
        tx,
        merchant_id=[movement.merchant_id for movement in nonzero_movements],
        id=[movement.id for movement in nonzero_movements],
        kind=[movement.kind for movement in nonzero_movements],
        maker=[maker_of(movement.who) for movement in nonzero_movements],
        amount_minor=[abs(movement.amount_minor) for movement in nonzero_movements],
        currency=[movement.currency for movement in nonzero_movements],
        now=now,
    )
