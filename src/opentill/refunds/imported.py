"""Refunds that were made on another server, of imported orders.

They debit nothing here: the opening balance is less by them already. What the old server says of an
order's refunds is first one refund of the whole sum, without a number. Each refund that it lists is
then split off, so that an order's refunds always add up to what was refunded.
"""

from collections.abc import Sequence

import msgspec

from opentill.db.database import Tx
from opentill.db.query import columns
from opentill.refunds import imported_queries


class ImportedRefund(msgspec.Struct, frozen=True, kw_only=True):
    """The sum of the refunds of an imported order; minor units of its currency."""

    merchant_id: str
    id: str
    order_id: str
    attempt_id: str
    amount_minor: int
    currency: str
    at: int


async def insert(tx: Tx, refunds: Sequence[ImportedRefund]) -> None:
    """Store the sums of refunds."""
    if refunds:
        await imported_queries.INSERT.run(tx, **columns(ImportedRefund, refunds))


async def split(
    tx: Tx,
    merchant_id: str,
    sum_id: str,
    *,
    refund_id: str,
    number: str,
    amount_minor: int,
    at: int,
) -> bool:
    """Split a refund with its number off the sum; return False if the sum does not contain it.

    Idempotent: a refund that was split off before counts as contained. The caller holds the
    merchant's lock.
    """
    values = {"merchant_id": merchant_id, "id": refund_id}
    if await imported_queries.EXISTS.get(tx, **values):
        return True
    rest = await imported_queries.AMOUNT.get(tx, merchant_id=merchant_id, id=sum_id)
    if rest is None or await imported_queries.NUMBER_TAKEN.get(
        tx, merchant_id=merchant_id, refund_no=number
    ):
        return False
    part = min(amount_minor, rest)
    await imported_queries.COPY.run(
        tx, **values, sum_id=sum_id, refund_no=number, amount_minor=part, at=at
    )
    if part == rest:
        await imported_queries.DELETE.run(tx, merchant_id=merchant_id, id=sum_id)
    else:
        await imported_queries.REDUCE.run(tx, merchant_id=merchant_id, id=sum_id, part=part)
    return True
