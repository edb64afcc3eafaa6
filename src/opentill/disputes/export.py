"""Disputes as CSV: the columns of all files, and the file of a merchant's disputes."""

from collections.abc import AsyncGenerator, AsyncIterator
from datetime import tzinfo
from typing import Final

from opentill.db.database import Db
from opentill.disputes import queries
from opentill.disputes.model import Dispute, DisputeOut, State, StateFilter, Status, filter_of
from opentill.http import csvfile

_COLUMN_FIELDS: Final = (
    ("id", "id"),
    ("orderId", "order_id"),
    ("status", "status"),
    ("amount", "amount"),
    ("currency", "currency"),
    ("debit", "debit"),
    ("fee", "fee"),
    ("debitCurrency", "debit_currency"),
    ("reason", "reason"),
)
TIMES: Final = (  # columns of times, and the dispute's fields that they show
    ("createdAt", "created_at"),
    ("respondBy", "respond_by"),
    ("respondedAt", "responded_at"),
    ("closedAt", "closed_at"),
)
# Columns of the merchant's response (ACCEPTED or CONTESTED) and of the bank's decision.
_RESPONSE_FIELDS: Final = (
    ("response", "response"),
    ("respondedBy", "responder"),
    ("outcome", "outcome"),
)
COLUMNS: Final = tuple(name for name, _ in (*_COLUMN_FIELDS, *_RESPONSE_FIELDS))
_BATCH: Final = 500


def chunks(
    db: Db,
    merchant_id: str,
    choice: State | Status | None,
    within: tuple[int, int],
    zone: tzinfo,
) -> AsyncGenerator[bytes, None]:
    """Yield the CSV file of the disputes that were opened ``within`` (inclusive Unix ms).

    ``choice``: see ``filter_of``. The file shows each time in ``zone``, in UTC and in Unix ms.
    """
    header = list(COLUMNS)
    for name, _ in TIMES:
        header += [f"{name} {zone}", f"{name}Utc", name]
    return csvfile.encode_rows(header, _rows(db, merchant_id, filter_of(choice), within, zone))


def cells(dispute: Dispute) -> list[str]:
    """Return the cells of ``COLUMNS``."""
    dispute_out = DisputeOut.from_dispute(dispute)
    values = [
        *(getattr(dispute_out, field) for _, field in _COLUMN_FIELDS),
        *(getattr(dispute, field) for _, field in _RESPONSE_FIELDS),
    ]
    return [csvfile.format_cell(value) for value in values]


async def _rows(
    db: Db, merchant_id: str, chosen: StateFilter, within: tuple[int, int], zone: tzinfo
) -> AsyncIterator[list[str]]:
    async for dispute in _disputes(db, merchant_id, chosen, within):
        row = cells(dispute)
        for _, field in TIMES:
            at: int | None = getattr(dispute, field)
            row += [csvfile.format_local(at, zone), csvfile.format_utc(at), csvfile.format_cell(at)]
        yield row


async def _disputes(
    db: Db, merchant_id: str, chosen: StateFilter, within: tuple[int, int]
) -> AsyncIterator[Dispute]:
    """Yield the disputes, oldest first; no connection is held between batches."""
    since, last_id = within[0], ""
    while True:
        async with db.connection() as tx:
            batch = await queries.AFTER.all(
                tx,
                merchant_id=merchant_id,
                status=chosen.status,
                response=chosen.response,
                since=since,
                last_id=last_id,
                until=within[1],
                limit=_BATCH,
            )
        for dispute in batch:
            yield dispute
        if len(batch) < _BATCH:
            return
        since, last_id = batch[-1].created_at, batch[-1].id
