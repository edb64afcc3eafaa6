"""Statements of a range of days: opening balance, changes by reason, closing balance.

The cost does not depend on the length of the range: entries contain balances, and payments,
refunds, losses and fees are differences of two figures. Entries that are not counted yet are summed
(decision 0072).
"""

from typing import Final, Literal

import msgspec

from opentill import ledger
from opentill.db.database import Db, Tx
from opentill.figures import queries
from opentill.figures.model import QUARTER_MS, Sums
from opentill.ledger import (
    MAX_SUMMED,
    MERCHANT_ACCOUNTS,
    POSTINGS,
    EntryRange,
    StatementError,
    Type,
    TypeSum,
)
from opentill.list_counts import FOREVER

Reason = Literal[
    "payments", "refunds", "disputes", "recovered", "fees", "dispute_fees", "payouts", "recharges",
    "corrections",
]  # fmt: skip
# The types that figures count. Two of them are a part of another's figure, and are read from the
# entries as well. So is every other type that changes the sum of the merchant's accounts; it is a
# correction unless it has a reason of its own.
_COUNTED_TYPES: Final[frozenset[Type]] = frozenset(
    {"PAYMENT", "REFUND", "CHARGEBACK", "CHARGEBACK_RECOVERY", "FEE", "CHARGEBACK_FEE"}
)
_PART_TYPES: Final[tuple[Type, ...]] = ("CHARGEBACK_RECOVERY", "CHARGEBACK_FEE")
_OTHER_TYPES: Final[tuple[Type, ...]] = tuple(
    dict.fromkeys(
        posting.type
        for posting in POSTINGS
        if (posting.source in MERCHANT_ACCOUNTS) != (posting.target in MERCHANT_ACCOUNTS)
        and posting.type not in _COUNTED_TYPES
    )
)
_READ_TYPES: Final = (*_PART_TYPES, *_OTHER_TYPES)


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement in one currency; minor units.

    ``opening`` and ``closing`` are by account (``ledger.MERCHANT_ACCOUNTS``). ``changes`` are the
    signed changes of the accounts' sum by reason; None while too many entries are uncounted.
    ``types`` are the sums by type of entry; None for a range with too many entries.
    """

    currency: str
    entries: int
    opening: dict[str, int]
    closing: dict[str, int]
    changes: dict[Reason, int] | None
    types: tuple[TypeSum, ...] | None

    @property
    def opening_minor(self) -> int:
        """The merchant's money before the range."""
        return sum(self.opening.values())

    @property
    def closing_minor(self) -> int:
        """The merchant's money after the range."""
        return sum(self.closing.values())


async def statements(
    db: Db, merchant_id: str, within: tuple[int, int], most: int = MAX_SUMMED
) -> tuple[Statement, ...]:
    """Return a merchant's statement in each currency; ``within`` is inclusive Unix ms.

    0 and FOREVER are open ends; any other end must be at a midnight of some time zone, not before
    ``model.FIRST_DAY``. At most ``most`` entries are summed one by one. Raises StatementError if
    the sums do not match the balances.
    """
    since, until = within
    if since % QUARTER_MS or (until != FOREVER and (until + 1) % QUARTER_MS):
        msg = "figures are by quarter hours"
        raise ValueError(msg)

    async def read(tx: Tx) -> tuple[Statement, ...]:
        end = None if until == FOREVER else until
        ranges = await ledger.find_ranges(tx, merchant_id, since or None, end)
        return tuple([await _statement(tx, entry_range, within, most) for entry_range in ranges])

    return await db.read_snapshot(read)


async def _statement(
    tx: Tx, entry_range: EntryRange, within: tuple[int, int], most: int
) -> Statement:
    types = await ledger.sums_by_type(tx, entry_range, most)
    statement = Statement(
        currency=entry_range.balance.currency,
        entries=entry_range.entries,
        opening=dict(zip(MERCHANT_ACCOUNTS, entry_range.opening, strict=True)),
        closing=dict(zip(MERCHANT_ACCOUNTS, entry_range.closing, strict=True)),
        changes=await _changes(tx, entry_range, within, most),
        types=None if types is None else tuple(types),
    )
    changes = statement.changes
    if (
        changes is not None
        and statement.opening_minor + sum(changes.values()) != statement.closing_minor
    ):
        msg = f"the figures of {within} are not what the balance changed by"
        raise StatementError(msg)
    return statement


async def _changes(
    tx: Tx, entry_range: EntryRange, within: tuple[int, int], most: int
) -> dict[Reason, int] | None:
    sums = await _sums(tx, entry_range, within, most)
    if sums is None:
        return None
    key = {"merchant_id": entry_range.balance.merchant_id, "currency": entry_range.balance.currency}
    others = await queries.UNCOUNTED_CHANGES.one(
        tx, **key, types=list(_READ_TYPES), since=within[0], until=within[1]
    )
    return {
        "payments": sums.paid_minor,
        "refunds": -sums.refunded_minor,
        "disputes": -sums.disputed_minor - others.recovered_minor,
        "recovered": others.recovered_minor,
        "fees": -sums.fees_minor - others.dispute_fees_minor,
        "dispute_fees": others.dispute_fees_minor,
        "payouts": others.payouts_minor,
        "recharges": others.recharges_minor,
        "corrections": others.corrections_minor,
    }


async def _sums(tx: Tx, entry_range: EntryRange, within: tuple[int, int], most: int) -> Sums | None:
    """Return the sums of a range, counted and uncounted; None if too many entries are uncounted."""
    key = {"merchant_id": entry_range.balance.merchant_id, "currency": entry_range.balance.currency}
    first, last = entry_range.numbers
    counted = Sums()
    if entry_range.entries > most:
        counted = await _sum_counted(tx, entry_range, within)
        first = max(first, await queries.COUNTED_TO.get(tx, **key) or 0)
    if last - first > most:
        return None
    return counted.plus(await queries.SUMS.one(tx, **key, after=first, last=last))


async def _sum_counted(tx: Tx, entry_range: EntryRange, within: tuple[int, int]) -> Sums:
    since, before = within[0], within[1] + 1
    rows = await queries.UNTIL.all(
        tx, merchant_id=entry_range.balance.merchant_id, before=[since, before]
    )
    sums = {one.before: one for one in rows if one.currency == entry_range.balance.currency}
    return Sums().plus(sums.get(before, Sums())).minus(sums.get(since, Sums()))
