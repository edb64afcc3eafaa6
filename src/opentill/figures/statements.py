"""Statements of a range of days: the balance before, what changed it, the balance after.

However long the range is, it costs a few look-ups: balances stand in the entries, and what was
paid, refunded, lost and charged is the difference of two figures. Entries that are not counted yet
are summed (decision 0072).
"""

from typing import Final, Literal

import msgspec

from opentill import ledger
from opentill.db.database import Db, Tx
from opentill.figures import queries
from opentill.figures.model import QUARTER_MS, Sums
from opentill.ledger import (
    MERCHANT_ACCOUNTS,
    MOST_SUMMED,
    POSTINGS,
    Span,
    StatementError,
    Type,
    TypeSum,
)
from opentill.list_counts import FOREVER

Reason = Literal["payments", "refunds", "disputes", "fees", "payouts", "recharges", "corrections"]
# What figures count. Every other type that changes the sum of the merchant's accounts is read by
# itself, and is a correction unless it has a reason of its own: a new one needs nothing here.
_COUNTED: Final[frozenset[Type]] = frozenset(
    {"PAYMENT", "REFUND", "CHARGEBACK", "CHARGEBACK_RECOVERY", "FEE", "CHARGEBACK_FEE"}
)
_OTHERS: Final[tuple[Type, ...]] = tuple(
    dict.fromkeys(
        posting.type
        for posting in POSTINGS
        if (posting.source in MERCHANT_ACCOUNTS) != (posting.target in MERCHANT_ACCOUNTS)
        and posting.type not in _COUNTED
    )
)


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement in one currency; minor units.

    ``opening`` and ``closing`` are by account (``ledger.MERCHANT_ACCOUNTS``), and ``changes`` what
    made the sum of the accounts change, with its sign: None as long as too many entries are not
    counted. ``types`` is what each type of entry moved: None for a range with very many.
    """

    currency: str
    entries: int
    opening: dict[str, int]
    closing: dict[str, int]
    changes: dict[Reason, int] | None
    types: tuple[TypeSum, ...] | None

    @property
    def opening_minor(self) -> int:
        """All of the merchant's money before the range."""
        return sum(self.opening.values())

    @property
    def closing_minor(self) -> int:
        """All of it after the range."""
        return sum(self.closing.values())


async def statements(
    db: Db, merchant_id: str, within: tuple[int, int], most: int = MOST_SUMMED
) -> tuple[Statement, ...]:
    """Return a merchant's statement in each currency; ``within``: inclusive Unix ms.

    0 and FOREVER are open sides, and any other a midnight of some zone on or after
    ``model.FIRST_DAY``. ``most``: how many entries are summed one by one. Raises StatementError if
    anything does not add up.
    """
    since, until = within
    if since % QUARTER_MS or (until != FOREVER and (until + 1) % QUARTER_MS):
        msg = "figures are by quarter hours"
        raise ValueError(msg)

    async def read(tx: Tx) -> tuple[Statement, ...]:
        end = None if until == FOREVER else until
        spans = await ledger.spans(tx, merchant_id, since or None, end)
        return tuple([await _statement(tx, span, within, most) for span in spans])

    return await db.read_snapshot(read)


async def _statement(tx: Tx, span: Span, within: tuple[int, int], most: int) -> Statement:
    types = await ledger.sums_by_type(tx, span, most)
    made = Statement(
        currency=span.balance.currency,
        entries=span.entries,
        opening=dict(zip(MERCHANT_ACCOUNTS, span.opening, strict=True)),
        closing=dict(zip(MERCHANT_ACCOUNTS, span.closing, strict=True)),
        changes=await _changes(tx, span, within, most),
        types=None if types is None else tuple(types),
    )
    changes = made.changes
    if changes is not None and made.opening_minor + sum(changes.values()) != made.closing_minor:
        msg = f"the figures of {within} are not what the balance changed by"
        raise StatementError(msg)
    return made


async def _changes(
    tx: Tx, span: Span, within: tuple[int, int], most: int
) -> dict[Reason, int] | None:
    sums = await _sums(tx, span, within, most)
    if sums is None:
        return None
    key = {"merchant_id": span.balance.merchant_id, "currency": span.balance.currency}
    others = await queries.OTHERS.one(
        tx, **key, types=list(_OTHERS), since=within[0], until=within[1]
    )
    return {
        "payments": sums.paid_minor,
        "refunds": -sums.refunded_minor,
        "disputes": -sums.disputed_minor,
        "fees": -sums.fees_minor,
        "payouts": others.payouts_minor,
        "recharges": others.recharges_minor,
        "corrections": others.corrections_minor,
    }


async def _sums(tx: Tx, span: Span, within: tuple[int, int], most: int) -> Sums | None:
    """Return the sums of a range: counted, and what is not counted yet; None if that is much."""
    key = {"merchant_id": span.balance.merchant_id, "currency": span.balance.currency}
    first, last = span.numbers
    counted = Sums()
    if span.entries > most:
        counted = await _counted(tx, span, within)
        first = max(first, await queries.COUNTED_TO.get(tx, **key) or 0)
    if last - first > most:
        return None
    return counted.plus(await queries.SUMS.one(tx, **key, after=first, last=last))


async def _counted(tx: Tx, span: Span, within: tuple[int, int]) -> Sums:
    since, before = within[0], within[1] + 1
    found = await queries.UNTIL.all(
        tx, merchant_id=span.balance.merchant_id, before=[since, before]
    )
    sums = {one.before: one for one in found if one.currency == span.balance.currency}
    return Sums().plus(sums.get(before, Sums())).minus(sums.get(since, Sums()))
