"""What accepted requests of each merchant send that nobody reads, for its developers to see.

Such a request is noted once its response is sent, in memory (``noting.py``). The same fields at the
same route are one note, with how often they came, and when last: integrations send the fields of
other services with every request. A merchant's newest 50 stay (decision 0080).

Only names are kept, as the header has them (``ignored.py``), without what looks like a secret.
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
from opentill.http.noting import Noting
from opentill.http.queries import IgnoredFields
from opentill.http.refused import fit

MOST: Final = 50  # of a merchant
KEEP_MS: Final = 7 * 24 * 3600 * 1000
_MOST_IN_ALL: Final = 1000  # in the memory of a process
_LONGEST_METHOD: Final = 20
_LONGEST_ROUTE: Final = 200
_LONGEST_FIELDS: Final = 1024


class _Kind(NamedTuple):
    """What requests have in common that are one note."""

    merchant_id: str
    method: str
    route: str
    fields: str


class AcceptedRequests(Noting[dict[_Kind, IgnoredFields]]):
    """What a process has noted and not written yet."""

    what = "ignored fields"

    def __init__(self) -> None:
        """Nothing is noted yet."""
        super().__init__()
        self._noted: dict[_Kind, IgnoredFields] = {}
        self._of: Counter[str] = Counter()

    def note(self, scope: Scope, request_id: str) -> None:
        """Note a request of a merchant that was accepted, and whose body has ignored fields.

        What is beyond the bounds is not noted until the next two seconds.
        """
        names = b",".join(value for _, value in scope[IGNORED])
        kind = _Kind(
            merchant_id=scope["opentill_merchant"],
            method=scope["method"][:_LONGEST_METHOD],
            route=fit(scope["route"].path_format, _LONGEST_ROUTE),
            fields=fit(names.decode("latin-1"), _LONGEST_FIELDS),
        )
        one = IgnoredFields(
            **kind._asdict(),
            requests=1,
            last_at=context.of(scope).clock(),
            last_id=request_id,
            key_id=scope["opentill_key"],
        )
        self._add(kind, one)

    def _add(self, kind: _Kind, one: IgnoredFields) -> None:
        before = self._noted.get(kind)
        if before is not None:
            one = msgspec.structs.replace(one, requests=before.requests + one.requests)
        elif self._of[kind.merchant_id] >= MOST or len(self._noted) >= _MOST_IN_ALL:
            return
        else:
            self._of[kind.merchant_id] += 1
        self._noted[kind] = one

    def _take(self) -> dict[_Kind, IgnoredFields] | None:
        noted, self._noted, self._of = self._noted, {}, Counter()
        return noted or None

    async def _save(self, tx: Tx, batch: dict[_Kind, IgnoredFields]) -> None:
        rows = columns(IgnoredFields, [batch[kind] for kind in sorted(batch)])
        await queries.NOTE_IGNORED.run(tx, **rows)
        merchants = sorted({kind.merchant_id for kind in batch})
        await queries.TRIM_IGNORED.run(tx, merchant_id=merchants, most=MOST)

    def _put_back(self, batch: dict[_Kind, IgnoredFields]) -> None:
        newer, self._noted = self._noted, batch
        self._of = Counter(kind.merchant_id for kind in batch)
        for kind, one in newer.items():
            self._add(kind, one)


async def newest(tx: Tx, merchant_id: str, now: int) -> list[IgnoredFields]:
    """Return what a merchant's accepted requests of seven days sent in vain, the last first."""
    return await queries.NEWEST_IGNORED.all(
        tx, merchant_id=merchant_id, after=now - KEEP_MS, limit=MOST
    )


async def prune(tx: Tx, now: int) -> int:
    """Delete a batch of notes that are older than seven days and return how many."""
    return await queries.PRUNE_IGNORED.run(tx, until=now - KEEP_MS)
