"""The prepaid balance: what pays the fees of payments that went to the merchant directly.

A payment through an account of its merchant reserves its fee before it starts, and takes it when
it is paid (decision 0165). The reserved sum is a column of the balance's row, so that a reservation
and every posting wait for each other. The statement that records an attempt reserves its fee itself
(``orders.transition_queries``), because it is a transaction of its own.
"""

from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec

from opentill.db.database import Tx
from opentill.ledger import prepaid_queries, service
from opentill.ledger.model import Entry

MAX_SUMMED: Final = 10_000
PACE_DAYS: Final = 7  # fees of this time show how long the balance lasts
_LOW_DAYS: Final = 3
_DAY_MS: Final = 86_400_000

# EMPTY: it does not pay the smallest fee of the last week, so that the merchant's own accounts are
# not offered. LOW: it pays the fees of less than three days.
PrepaidLevel = Literal["ENOUGH", "LOW", "EMPTY"]
LEVELS: Final[tuple[PrepaidLevel, ...]] = get_args(PrepaidLevel)  # from the best to the worst


class PrepaidState(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of a prepaid balance, and the fees that it paid in ``pace_ms``; minor units.

    ``entries`` is the number of the balance's last entry.
    """

    entries: int
    free_minor: int
    fees_minor: int
    smallest_fee_minor: int
    pace_ms: int

    @property
    def level(self) -> PrepaidLevel:
        """Whether what is left must be topped up."""
        return self.level_of(self.free_minor)

    def level_of(self, free_minor: int) -> PrepaidLevel:
        """Return the level of another balance at the same pace."""
        if free_minor < max(self.smallest_fee_minor, 1):
            return "EMPTY"
        lasts = free_minor * self.pace_ms >= self.fees_minor * _LOW_DAYS * _DAY_MS
        return "ENOUGH" if lasts else "LOW"


async def release(tx: Tx, reserved: Mapping[tuple[str, str], int]) -> None:
    """Give reserved fees back to prepaid balances, by merchant and currency; minor units.

    Locks the balances in the order of (merchant, currency).
    """
    keys = sorted(key for key, minor in reserved.items() if minor)
    for merchant_id, currency in keys:
        await prepaid_queries.RELEASE.run(
            tx,
            merchant_id=merchant_id,
            currency=currency,
            amount_minor=reserved[merchant_id, currency],
        )


async def find_free(tx: Tx, merchant_id: str, currency: str) -> int:
    """Return the part of a prepaid balance that no payment has reserved; minor units."""
    free = await prepaid_queries.FREE.get(tx, merchant_id=merchant_id, currency=currency)
    return free or 0


async def find_state(tx: Tx, merchant_id: str, currency: str, now: int) -> PrepaidState:
    """Return what is left of a prepaid balance, and how long it lasts at the pace of a week.

    At most the newest 10,000 fees are summed; if there are more, the pace is that of their time.
    """
    balance = await service.find_balance(tx, merchant_id, currency)
    since = now - PACE_DAYS * _DAY_MS
    fees = await prepaid_queries.FEES.one(
        tx, merchant_id=merchant_id, currency=currency, since=since, limit=MAX_SUMMED
    )
    is_cut = fees.number >= MAX_SUMMED
    return PrepaidState(
        entries=balance.entries if balance is not None else 0,
        free_minor=balance.free_prepaid if balance is not None else 0,
        fees_minor=fees.fees_minor,
        smallest_fee_minor=fees.smallest_minor,
        pace_ms=max(now - fees.first_at, 1) if is_cut else PACE_DAYS * _DAY_MS,
    )


async def find_highest_top_up(
    tx: Tx, merchant_id: str, currency: str, after: int, last: int
) -> int | None:
    """Return the highest prepaid balance right after a top-up, in a range of entry numbers.

    The range is ``after < number <= last``; None: no money was added in it. Returned fees are no
    top-ups.
    """
    key = {"merchant_id": merchant_id, "currency": currency}
    return await prepaid_queries.HIGHEST_TOP_UP.get(tx, **key, after=after, last=last)


async def list_newest(tx: Tx, merchant_id: str, limit: int) -> list[Entry]:
    """Return the newest entries of a merchant's prepaid balance, newest first."""
    return await prepaid_queries.NEWEST.all(tx, merchant_id=merchant_id, limit=limit)
