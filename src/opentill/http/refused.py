"""The last requests of each merchant that the API refused, for its developers to read.

They are noted in memory (``noting.py``): of a merchant the last 200, of all merchants together at
most 1,000. Of what is written, too, a merchant's last 200 stay. A flood of refused requests costs
no more than that, and the merchant with the most loses its oldest first.

A request without a valid key is nobody's, and is not noted. Of what was sent only the method, the
path and the names of query parameters are kept, without what looks like a secret or an address.
"""

import re
from collections import deque
from typing import Final, NamedTuple
from urllib.parse import unquote

import msgspec
from starlette.types import Scope

from opentill import context
from opentill.core import log
from opentill.db.database import Tx
from opentill.db.query import columns
from opentill.http import queries
from opentill.http.handling import IGNORED
from opentill.http.noting import Noting
from opentill.http.queries import RefusedRequest
from opentill.http.responses import Failure

MOST: Final = 200  # of a merchant
KEEP_MS: Final = 7 * 24 * 3600 * 1000
_MOST_IN_ALL: Final = 1000  # in the memory of a process
_LONGEST_NOTED: Final = 2000  # of a path, a query, a field and a reason, in memory
_LONGEST_METHOD: Final = 20
_LONGEST_PATH: Final = 500
_LONGEST_FIELD: Final = 100
_LONGEST_REASON: Final = 500
_LONGEST_IGNORED: Final = 1024
_MOST_NAMES: Final = 10  # of query parameters
_NAME: Final = re.compile(r"[A-Za-z_][\w.\[\]-]{0,39}", re.ASCII)
# What a text of PostgreSQL cannot hold, and what does not belong on one line.
_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class _Noted(NamedTuple):
    """A refused request as it came, but for its length: ``_row`` makes a row of it."""

    merchant_id: str
    at: int
    id: str
    key_id: str
    method: str
    path: str
    query: bytes
    status: int
    code: int
    field: str
    reason: str
    ignored: str


class RefusedRequests(Noting[dict[str, deque[_Noted]]]):
    """What a process has noted and not written yet."""

    what = "refused requests"

    def __init__(self) -> None:
        """Nothing is noted yet."""
        super().__init__()
        self._of: dict[str, deque[_Noted]] = {}
        self._count = 0

    def note(self, scope: Scope, request_id: str, status: int, body: bytes) -> None:
        """Note a request of a merchant that was refused with this response."""
        failure = msgspec.json.decode(body, type=Failure)
        detail = failure.error
        said = ("", "") if isinstance(detail, msgspec.UnsetType) else (detail.field, detail.reason)
        ignored = b",".join(value for _, value in scope.get(IGNORED, ()))
        self._add(
            _Noted(
                merchant_id=scope["opentill_merchant"],
                at=context.of(scope).clock(),
                id=request_id,
                key_id=scope["opentill_key"],
                method=scope["method"][:_LONGEST_METHOD],
                path=scope["path"][:_LONGEST_NOTED],
                query=scope["query_string"][:_LONGEST_NOTED],
                status=status,
                code=failure.code,
                field=said[0][:_LONGEST_NOTED],
                reason=said[1][:_LONGEST_NOTED],
                ignored=ignored[:_LONGEST_IGNORED].decode("latin-1"),
            )
        )

    def _add(self, request: _Noted) -> None:
        ring = self._of.setdefault(request.merchant_id, deque())
        ring.append(request)
        self._count += 1
        if len(ring) > MOST:
            self._drop(request.merchant_id)
        elif self._count > _MOST_IN_ALL:
            self._drop(max(self._of, key=lambda merchant_id: len(self._of[merchant_id])))

    def _drop(self, merchant_id: str) -> None:
        """Forget a merchant's oldest."""
        ring = self._of[merchant_id]
        ring.popleft()
        self._count -= 1
        if not ring:
            del self._of[merchant_id]

    def _take(self) -> dict[str, deque[_Noted]] | None:
        noted, self._of, self._count = self._of, {}, 0
        return noted or None

    async def _save(self, tx: Tx, batch: dict[str, deque[_Noted]]) -> None:
        rows = columns(RefusedRequest, [_row(one) for ring in batch.values() for one in ring])
        await queries.NOTE_REFUSED.run(tx, **rows)
        await queries.TRIM_REFUSED.run(tx, merchant_id=sorted(batch), most=MOST)

    def _put_back(self, batch: dict[str, deque[_Noted]]) -> None:
        newer, self._of, self._count = self._of, batch, sum(map(len, batch.values()))
        for ring in newer.values():
            for one in ring:
                self._add(one)


def _row(noted: _Noted) -> RefusedRequest:
    """Return what is kept of a request."""
    return RefusedRequest(
        merchant_id=noted.merchant_id,
        at=noted.at,
        id=noted.id,
        key_id=noted.key_id,
        method=fit(noted.method, _LONGEST_METHOD),
        path=_shown(noted.path, noted.query),
        status=noted.status,
        code=noted.code,
        field=fit(noted.field, _LONGEST_FIELD),
        reason=fit(noted.reason, _LONGEST_REASON),
        ignored=fit(noted.ignored, _LONGEST_IGNORED),
    )


def _shown(path: str, query: bytes) -> str:
    """Return a path with the names of its query parameters, and none of their values."""
    names: list[str] = []
    for part in query.split(b"&", _MOST_NAMES)[:_MOST_NAMES]:
        name, is_pair, _ = part.partition(b"=")
        text = log.redact(unquote(name[:200].decode("latin-1")))
        if part:
            names.append(f"{text}=…" if is_pair and _NAME.fullmatch(text) else "…")
    text = fit(path, _LONGEST_PATH)
    return fit(f"{text}?{'&'.join(names)}", _LONGEST_PATH, plain=True) if names else text


def fit(text: str, longest: int, *, plain: bool = False) -> str:
    """Return a text that fits into a column of so many characters, redacted unless ``plain``."""
    clean = _UNFIT.sub("\ufffd", text if plain else log.redact(text))
    return clean if len(clean) <= longest else f"{clean[: longest - 1]}…"


async def newest(tx: Tx, merchant_id: str, now: int) -> list[RefusedRequest]:
    """Return a merchant's refused requests of the last seven days, newest first."""
    return await queries.NEWEST_REFUSED.all(
        tx, merchant_id=merchant_id, after=now - KEEP_MS, limit=MOST
    )


async def prune(tx: Tx, now: int) -> int:
    """Delete a batch of requests that are older than seven days and return how many."""
    return await queries.PRUNE_REFUSED.run(tx, until=now - KEEP_MS)
