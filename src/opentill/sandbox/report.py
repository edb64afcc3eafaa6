"""The settlement report: all movements of money as CSV, streamed in pages of rows.

``kind,reference,amount,currency,settled_at``. The reference of a payment, a refund and a reversal
is the shop's id, or the bank's for a refund at the desk; the reference of a chargeback and a
recovery is the id of the payment. Times are ISO 8601 in UTC.
"""

import csv
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import Final, Literal

import msgspec

from opentill.sandbox.amounts import decimal
from opentill.sandbox.storage import Store, Tx

COLUMNS: Final = ("kind", "reference", "amount", "currency", "settled_at")
FOREVER: Final = 2**62
_PAGE: Final = 500

_SQL: Final = """
select * from (
    select 'payment' as kind, id as reference, amount_minor, currency, settled_at from payments
    where status = 'succeeded'
    union all
    select 'refund', id, amount_minor, currency, succeeded_at from refunds
    where succeeded_at is not null
    union all
    select 'refund_failure', id, amount_minor, currency, reversed_at from refunds
    where reversed_at is not null
    union all
    select 'chargeback', payment_id, amount_minor, currency, lost_at
    from disputes where status in ('lost', 'recovered')
    union all
    select 'recovery', payment_id, amount_minor, currency, updated_at
    from disputes where status = 'recovered'
)
where settled_at between :since and :until
    and (settled_at, kind, reference) > (:after_at, :after_kind, :after_reference)
order by settled_at, kind, reference limit :page
"""


class ReportRow(msgspec.Struct, frozen=True):
    """A row of the report."""

    kind: Literal["payment", "refund", "refund_failure", "chargeback", "recovery"]
    reference: str
    amount_minor: int
    currency: str
    settled_at: int


async def lines(store: Store, since: int, until: int) -> AsyncIterator[str]:
    """Yield the report in pages, from ``since`` to ``until`` (Unix ms, inclusive)."""
    yield _text([COLUMNS])
    after: tuple[int, str, str] = (-1, "", "")
    while True:
        rows = await store.do(partial(_page, since=since, until=until, after=after))
        if rows:
            yield _text([_cells(row) for row in rows])
            after = (rows[-1].settled_at, rows[-1].kind, rows[-1].reference)
        if len(rows) < _PAGE:
            return


def _page(tx: Tx, since: int, until: int, after: tuple[int, str, str]) -> list[ReportRow]:
    at, kind, reference = after
    return tx.all(
        ReportRow, _SQL, since=since, until=until, after_at=at, after_kind=kind,
        after_reference=reference, page=_PAGE,
    )  # fmt: skip


def _cells(row: ReportRow) -> tuple[str, ...]:
    moment = datetime.fromtimestamp(row.settled_at // 1000, UTC)
    time = f"{moment:%Y-%m-%dT%H:%M:%S}.{row.settled_at % 1000:03}Z"
    return row.kind, row.reference, decimal(row.amount_minor, row.currency), row.currency, time


def _text(rows: list[tuple[str, ...]]) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows(rows)
    return buffer.getvalue()
