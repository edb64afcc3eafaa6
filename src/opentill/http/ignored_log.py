"""Log of the ignored fields in each merchant's accepted requests, for its developers.

Requests are recorded in memory after their response (``write_buffer.py``). The same fields at the
same route are one row, with a count and the time of the last request, because integrations send
fields of other services with every request. The newest 50 rows of a merchant are kept
(decision 0080). Only names of fields are stored, with anything that looks like a secret redacted.
"""

from collections import Counter
from typing import Final, NamedTuple

import msgspec
from starlette.types import Scope

from opentill import context
from opentill.db.database import Tx
from opentill.db.query import columns
from opentill.http import queries
from opentill.http.handling import IGNORED
from opentill.http.queries import IgnoredFields
from opentill.http.refused import truncate
from opentill.http.write_buffer import WriteBuffer

MOST: Final = 50  # at most this many rows are kept per merchant
KEEP_MS: Final = 7 * 24 * 3600 * 1000
_MOST_IN_ALL: Final = 1000  # at most this many rows wait in the memory of a process
_LONGEST_METHOD: Final = 20
_LONGEST_ROUTE: Final = 200
_LONGEST_FIELDS: Final = 1024


class _Kind(NamedTuple):
    """The values that requests counted in one row have in common."""

    merchant_id: str
    method: str
    route: str
    fields: str


class AcceptedRequests(WriteBuffer[dict[_Kind, IgnoredFields]]):
    """Ignored fields that this process has not written yet."""

    label = "ignored fields"

    def __init__(self) -> None:
        """Start with an empty buffer."""
        super().__init__()
        self._rows: dict[_Kind, IgnoredFields] = {}
        self._rows_by_merchant: Counter[str] = Counter()

    def record(self, scope: Scope, request_id: str) -> None:
        """Record a merchant's accepted request whose body has ignored fields.

        New rows over the limits are dropped until the buffer is next written.
        """
        names = b",".join(value for _, value in scope[IGNORED])
        kind = _Kind(
            merchant_id=scope["opentill_merchant"],
            method=scope["method"][:_LONGEST_METHOD],
            route=truncate(scope["route"].path_format, _LONGEST_ROUTE),
            fields=truncate(names.decode("latin-1"), _LONGEST_FIELDS),
        )
        row = IgnoredFields(
            **kind._asdict(),
            requests=1,
            last_at=context.app_of(scope).clock(),
            last_id=request_id,
            key_id=scope["opentill_key"],
        )
        self._add(kind, row)

    def _add(self, kind: _Kind, row: IgnoredFields) -> None:
        existing = self._rows.get(kind)
        if existing is not None:
            row = msgspec.structs.replace(row, requests=existing.requests + row.requests)
        elif self._rows_by_merchant[kind.merchant_id] >= MOST or len(self._rows) >= _MOST_IN_ALL:
            return
        else:
            self._rows_by_merchant[kind.merchant_id] += 1
        self._rows[kind] = row

    def _take(self) -> dict[_Kind, IgnoredFields] | None:
        rows, self._rows, self._rows_by_merchant = self._rows, {}, Counter()
        return rows or None

    async def _save(self, tx: Tx, batch: dict[_Kind, IgnoredFields]) -> None:
        rows = columns(IgnoredFields, [batch[kind] for kind in sorted(batch)])
        await queries.UPSERT_IGNORED.run(tx, **rows)
        merchants = sorted({kind.merchant_id for kind in batch})
        await queries.TRIM_IGNORED.run(tx, merchant_id=merchants, most=MOST)

    def _put_back(self, batch: dict[_Kind, IgnoredFields]) -> None:
        newer, self._rows = self._rows, batch
        self._rows_by_merchant = Counter(kind.merchant_id for kind in batch)
        for kind, row in newer.items():
            self._add(kind, row)


async def newest(tx: Tx, merchant_id: str, now: int) -> list[IgnoredFields]:
    """Return the ignored fields of a merchant's requests of seven days, newest first."""
    return await queries.NEWEST_IGNORED.all(
        tx, merchant_id=merchant_id, after=now - KEEP_MS, limit=MOST
    )


async def prune(tx: Tx, now: int) -> int:
    """Delete a batch of rows older than seven days and return the number."""
    return await queries.PRUNE_IGNORED.run(tx, until=now - KEEP_MS)
