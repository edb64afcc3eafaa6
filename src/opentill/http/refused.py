"""Log of each merchant's latest refused requests, for its developers.

Requests are buffered in memory (``write_buffer.py``): at most 200 of a merchant and 1,000 in all;
beyond that the merchant with the most loses its oldest. The table keeps a merchant's latest 200
as well, so that a flood of refused requests has a bounded cost.

Requests without a valid key belong to no merchant and are not recorded. Only the method, the path
and the names of query parameters are stored, with secrets and email addresses redacted.
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
from opentill.http.queries import RefusedRequest
from opentill.http.responses import Failure
from opentill.http.write_buffer import WriteBuffer

__all__ = [
    "KEEP_MS",
    "MOST",
    "RefusedRequest",
    "RefusedRequests",
    "newest",
    "prune",
    "truncate",
]
MOST: Final = 200  # at most this many requests are kept per merchant
KEEP_MS: Final = 7 * 24 * 3600 * 1000
_MOST_IN_ALL: Final = 1000  # at most this many requests wait in the memory of a process
# At most this many characters of each path, query, field and reason wait in memory.
_LONGEST_BUFFERED: Final = 2000
_LONGEST_METHOD: Final = 20
_LONGEST_PATH: Final = 500
_LONGEST_FIELD: Final = 100
_LONGEST_REASON: Final = 500
_LONGEST_IGNORED: Final = 1024
_MOST_NAMES: Final = 10  # at most this many names of a request's query parameters are stored
_NAME: Final = re.compile(r"[A-Za-z_][\w.\[\]-]{0,39}", re.ASCII)
# Characters that a PostgreSQL text cannot hold or that would break a line.
_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class _BufferedRequest(NamedTuple):
    """A refused request with long texts cut; ``_row`` redacts it for the table."""

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


class RefusedRequests(WriteBuffer[dict[str, deque[_BufferedRequest]]]):
    """Refused requests that this process has not written yet."""

    label = "refused requests"

    def __init__(self) -> None:
        """Start with an empty buffer."""
        super().__init__()
        self._by_merchant: dict[str, deque[_BufferedRequest]] = {}
        self._count = 0

    def record(self, scope: Scope, request_id: str, status: int, body: bytes) -> None:
        """Record a merchant's request that was refused with this response body."""
        failure = msgspec.json.decode(body, type=Failure)
        detail = failure.error
        field, reason = (
            ("", "") if isinstance(detail, msgspec.UnsetType) else (detail.field, detail.reason)
        )
        ignored = b",".join(value for _, value in scope.get(IGNORED, ()))
        self._add(
            _BufferedRequest(
                merchant_id=scope["opentill_merchant"],
                at=context.app_of(scope).clock(),
                id=request_id,
                key_id=scope["opentill_key"],
                method=scope["method"][:_LONGEST_METHOD],
                path=scope["path"][:_LONGEST_BUFFERED],
                query=scope["query_string"][:_LONGEST_BUFFERED],
                status=status,
                code=failure.code,
                field=field[:_LONGEST_BUFFERED],
                reason=reason[:_LONGEST_BUFFERED],
                ignored=ignored[:_LONGEST_IGNORED].decode("latin-1"),
            )
        )

    def _add(self, request: _BufferedRequest) -> None:
        requests = self._by_merchant.setdefault(request.merchant_id, deque())
        requests.append(request)
        self._count += 1
        if len(requests) > MOST:
            self._drop(request.merchant_id)
        elif self._count > _MOST_IN_ALL:
            self._drop(
                max(self._by_merchant, key=lambda merchant_id: len(self._by_merchant[merchant_id]))
            )

    def _drop(self, merchant_id: str) -> None:
        """Drop a merchant's oldest request."""
        requests = self._by_merchant[merchant_id]
        requests.popleft()
        self._count -= 1
        if not requests:
            del self._by_merchant[merchant_id]

    def _take(self) -> dict[str, deque[_BufferedRequest]] | None:
        requests_by_merchant, self._by_merchant, self._count = self._by_merchant, {}, 0
        return requests_by_merchant or None

    async def _save(self, tx: Tx, batch: dict[str, deque[_BufferedRequest]]) -> None:
        rows = columns(
            RefusedRequest, [_row(request) for requests in batch.values() for request in requests]
        )
        await queries.INSERT_REFUSED.run(tx, **rows)
        await queries.TRIM_REFUSED.run(tx, merchant_id=sorted(batch), most=MOST)

    def _put_back(self, batch: dict[str, deque[_BufferedRequest]]) -> None:
        newer, self._by_merchant, self._count = (
            self._by_merchant,
            batch,
            sum(map(len, batch.values())),
        )
        for requests in newer.values():
            for request in requests:
                self._add(request)


def _row(request: _BufferedRequest) -> RefusedRequest:
    """Return the row of a request, cut to the columns' lengths and redacted."""
    return RefusedRequest(
        merchant_id=request.merchant_id,
        at=request.at,
        id=request.id,
        key_id=request.key_id,
        method=truncate(request.method, _LONGEST_METHOD),
        path=_redacted_path(request.path, request.query),
        status=request.status,
        code=request.code,
        field=truncate(request.field, _LONGEST_FIELD),
        reason=truncate(request.reason, _LONGEST_REASON),
        ignored=truncate(request.ignored, _LONGEST_IGNORED),
    )


def _redacted_path(path: str, query: bytes) -> str:
    """Return a path with the names of its query parameters but without their values."""
    names: list[str] = []
    for part in query.split(b"&", _MOST_NAMES)[:_MOST_NAMES]:
        name, is_pair, _ = part.partition(b"=")
        text = log.redact(unquote(name[:200].decode("latin-1")))
        if part:
            names.append(f"{text}=…" if is_pair and _NAME.fullmatch(text) else "…")
    text = truncate(path, _LONGEST_PATH)
    return truncate(f"{text}?{'&'.join(names)}", _LONGEST_PATH, plain=True) if names else text


def truncate(text: str, longest: int, *, plain: bool = False) -> str:
    """Cut a text to ``longest`` characters, redacted unless ``plain``."""
    clean = _UNFIT.sub("\ufffd", text if plain else log.redact(text))
    return clean if len(clean) <= longest else f"{clean[: longest - 1]}…"


async def newest(tx: Tx, merchant_id: str, now: int) -> list[RefusedRequest]:
    """Return a merchant's refused requests of the last seven days, newest first."""
    return await queries.NEWEST_REFUSED.all(
        tx, merchant_id=merchant_id, after=now - KEEP_MS, limit=MOST
    )


async def prune(tx: Tx, now: int) -> int:
    """Delete a batch of requests older than seven days and return the number."""
    return await queries.PRUNE_REFUSED.run(tx, until=now - KEEP_MS)
