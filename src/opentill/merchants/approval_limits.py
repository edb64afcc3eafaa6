"""The limit above which a second person approves, over all that one person moves in 24 hours.

What somebody moves at a merchant without a second person is recorded, and counts until it is 24
hours old, so that several small movements need a second person as one large one does. Whoever asks
holds the head of the audit log: of two at once the second one counts the first (decision 0141).
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
    """Return under which name movements are counted: a person's id, however they are called.

    The machine's owner is one maker, whichever system user that was.
    """
    if who.startswith(ROOT):
        return "root"
    return Actor(who, "").person_id or who.casefold()


async def exceeds(
    tx: Tx, merchant_id: str, who: str, amount: tuple[int, str], above: Decimal | None, now: int
) -> bool:
    """Return whether an amount and what the person moved in 24 hours are together above a limit.

    ``amount`` is in minor units with its currency; ``above`` is in whole units of any currency,
    None for no limit. Changes nothing and waits for nobody: see ``needs_second``.
    """
    if above is None:
        return False
    moved = await queries.SOLO_SUMS.all(
        tx, merchant_id=merchant_id, maker=maker_of(who), since=now - WINDOW_MS
    )
    sums = [amount, *((one.amount_minor, one.currency) for one in moved)]
    return (
        sum(Decimal(abs(minor)).scaleb(-money.exponent(currency)) for minor, currency in sums)
        > above
    )


async def needs_second(
    tx: Tx, merchant_id: str, who: str, amount: tuple[int, str], above: Decimal | None, now: int
) -> bool:
    """As ``exceeds``, after whoever moves something at this moment has committed."""
    if above is None:
        return False
    await audit.lock_log(tx)
    return await exceeds(tx, merchant_id, who, amount, above, now)


async def record(tx: Tx, movement: SoloMovement, now: int) -> None:
    """Record what somebody moves without a second person."""
    await record_many(tx, [movement], now)


async def record_many(tx: Tx, movements: Iterable[SoloMovement], now: int) -> None:
    """As ``record``, of any number in one statement: operators wait for the audit log's head."""
    moved = [movement for movement in movements if movement.amount_minor]
    if not moved:
        return
    await queries.RECORD_SOLO_MOVEMENTS.run(
        tx,
        merchant_id=[movement.merchant_id for movement in moved],
        id=[movement.id for movement in moved],
        kind=[movement.kind for movement in moved],
        maker=[maker_of(movement.who) for movement in moved],
        amount_minor=[abs(movement.amount_minor) for movement in moved],
        currency=[movement.currency for movement in moved],
        now=now,
    )
