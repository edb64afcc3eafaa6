"""The contents of a payout: payments, fees, refunds and more since the payout before it.

A payout pays out what is available, so its contents are the entries that changed the available
balance since the previous payout in the same currency.
"""

from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import msgspec

from opentill import ledger
from opentill.db.database import Db, Tx
from opentill.figures import payout_queries as queries
from opentill.figures.payout_model import PayoutItem, PayoutSum
from opentill.ledger import Entry, StatementError

# More entries between two payouts are neither summed nor listed on a page; the file has them all.
MAX_LISTED: Final = 5_000
_BATCH: Final = 500
_NO_SUM: Final = PayoutSum(
    kind="", items=0, amount_minor=0, gross_minor=0, fee_minor=0, refunded_items=0
)


class PayoutContents(msgspec.Struct, frozen=True, kw_only=True):
    """The entries between the numbers ``after`` and ``before``, and the balances around them.

    ``opening_minor`` and ``left_minor`` are the available balance before the first entry and after
    the payout. ``sums`` are by kind; None if there are too many entries.
    """

    currency: str
    after: int
    before: int
    opening_minor: int
    left_minor: int
    sums: dict[str, PayoutSum] | None

    @property
    def items(self) -> int:
        """The number of entries that changed the available balance; 0 if they are not summed."""
        return sum(one.items for one in (self.sums or {}).values())

    def sum_of(self, kind: str) -> PayoutSum:
        """Return the sum of a kind."""
        return (self.sums or {}).get(kind, _NO_SUM)

    @property
    def refunds_minor(self) -> int:
        """Refunds, with those of payments that were not settled yet; negative."""
        payments = self.sum_of("payments")
        net = payments.gross_minor - payments.fee_minor
        net -= payments.lost_minor + payments.dispute_fee_minor
        return self.sum_of("refunds").amount_minor + payments.amount_minor - net

    @property
    def refunds(self) -> int:
        """The number of refunds, with payments that were refunded before they settled."""
        return self.sum_of("refunds").items + self.sum_of("payments").refunded_items

    @property
    def disputes_minor(self) -> int:
        """Disputes without their fees, with those of payments that were not settled yet."""
        return self.sum_of("disputes").amount_minor - self.sum_of("payments").lost_minor

    @property
    def disputes(self) -> int:
        """The number of entries of disputes, with payments that were lost before they settled."""
        return self.sum_of("disputes").items + self.sum_of("payments").lost_items

    @property
    def dispute_fees_minor(self) -> int:
        """The fees of lost disputes; negative."""
        fees = self.sum_of("payments").dispute_fee_minor
        return self.sum_of("dispute_fees").amount_minor - fees

    @property
    def dispute_fees(self) -> int:
        """The number of fees of lost disputes."""
        return self.sum_of("dispute_fees").items + self.sum_of("payments").dispute_fee_items


async def find_payout_contents(tx: Tx, merchant_id: str, payout_id: str) -> PayoutContents | None:
    """Return the contents of a payout. Raises StatementError if they do not add up."""
    entries = await ledger.list_entries_of(tx, merchant_id, "payout", payout_id)
    payout = next((one for one in entries if one.from_account == "available"), None)
    if payout is None:
        return None
    previous = await _end_of_previous(tx, payout)
    # The fee is an entry of its own, right after the payout.
    last = max((one for one in entries if _is_part_of(one, payout)), key=lambda one: one.number)
    contents = PayoutContents(
        currency=payout.currency,
        after=previous.number if previous else 0,
        before=payout.number,
        opening_minor=previous.available_after if previous else 0,
        left_minor=last.available_after,
        sums=None,
    )
    if contents.before - contents.after > MAX_LISTED:
        return contents
    sums = {one.kind: one for one in await queries.SUMS.all(tx, **_range(merchant_id, contents))}
    changes = sum(one.amount_minor for one in sums.values())
    if contents.opening_minor + changes != payout.available_after + payout.amount_minor:
        msg = f"the entries before payout {payout_id} do not add up to its balance"
        raise StatementError(msg)
    return msgspec.structs.replace(contents, sums=sums)


def _is_part_of(entry: Entry, payout: Entry) -> bool:
    return entry.from_account == "available" and entry.number - payout.number in (0, 1)


async def _end_of_previous(tx: Tx, payout: Entry) -> Entry | None:
    """Return the last entry of the payout before: the payout, or its fee."""
    previous = await queries.PREVIOUS.first(
        tx,
        merchant_id=payout.merchant_id,
        currency=payout.currency,
        at=payout.created_at,
        before=payout.number,
    )
    if previous is None:
        return None
    entries = await ledger.list_entries_of(tx, payout.merchant_id, "payout", previous.source_id)
    return max((one for one in entries if _is_part_of(one, previous)), key=lambda one: one.number)


def _range(merchant_id: str, contents: PayoutContents) -> dict[str, str | int]:
    return {
        "merchant_id": merchant_id,
        "currency": contents.currency,
        "after": contents.after,
        "before": contents.before,
    }


async def list_payout_items(
    tx: Tx, merchant_id: str, contents: PayoutContents, number: int, size: int
) -> list[PayoutItem]:
    """Return a page (from 1) of the entries, newest first."""
    return await queries.PAGE.all(
        tx, **_range(merchant_id, contents), limit=size, offset=(number - 1) * size
    )


async def all_payout_items(
    db: Db, merchant_id: str, contents: PayoutContents
) -> AsyncIterator[PayoutItem]:
    """Yield the entries, oldest first. No connection is held between batches."""
    after = contents.after
    while True:
        values = _range(merchant_id, contents) | {"after": after, "limit": _BATCH}
        batch = await db.read(partial(_following, values=values))
        for item in batch:
            yield item
        if len(batch) < _BATCH:
            return
        after = batch[-1].number


async def _following(tx: Tx, values: dict[str, str | int]) -> list[PayoutItem]:
    return await queries.FOLLOWING.all(tx, **values)
