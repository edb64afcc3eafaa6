"""The way of an API request: what an operation is, and the one form of every answer.

An ``Operation`` is a row that says everything about one route: the documentation, the checks and
the handler come from it. Checks run in one order (contract.md#order-of-checks): rate limit by
address and authentication (both by the edge, before routing), rate limit per merchant, body, rules.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar, cast

import msgspec
import structlog

from opentill.context import App
from opentill.core import encryption
from opentill.core.errors import (
    Internal,
    Invalid,
    MethodNotAllowed,
    NotFound,
    Problem,
    TooManyAtOnce,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnsupportedMediaType,
)
from opentill.core.ids import is_id
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.http import idempotency, ignored, querystring, strictjson
from opentill.http.incoming import idempotency_key, is_json, read_body, read_headers

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Message, Receive, Scope, Send

B = TypeVar("B")
Q = TypeVar("Q")
Headers = Sequence[tuple[bytes, bytes]]
_NO_STORE: Final = (b"cache-control", b"no-store")  # of answers about money, refusals too
_log: Final = structlog.get_logger()
encode: Final = msgspec.json.Encoder().encode


class Detail(msgspec.Struct, frozen=True):
    """Which input was refused, and what would be accepted."""

    field: str
    reason: str


class Failure(msgspec.Struct, frozen=True):
    """The error body (contract.md#error-body)."""

    code: Annotated[int, msgspec.Meta(ge=1, le=99_999, description="what was refused")]
    message: str
    error: Detail | msgspec.UnsetType = msgspec.UNSET


class Success(msgspec.Struct, frozen=True):
    """The envelope (contract.md#envelope); the document shows ``Done`` with ``data``."""

    code: int
    message: str
    data: Any


class Done(msgspec.Struct, frozen=True):
    """The answer of an operation that returns nothing, such as archiving."""

    code: Annotated[int, msgspec.Meta(ge=0, le=0, description="always 0")]
    message: Annotated[str, msgspec.Meta(pattern="^success$", description="always `success`")]


class Download(msgspec.Struct, frozen=True):
    """An answer that is a file, streamed in chunks."""

    content_type: str
    filename: str
    chunks: AsyncGenerator[bytes, None]


class ApiRequest(msgspec.Struct, Generic[Q, B], frozen=True, kw_only=True):
    """One request on its way through an operation: who asks, and what."""

    app: App
    merchant_id: str  # "" for an operation without authentication
    now: int  # Unix ms
    path: Mapping[str, str]
    query: Q
    body: B
    key_id: str = ""  # of its API key


class Nothing(msgspec.Struct, frozen=True):
    """No query parameters, or no body."""


Read = Callable[[ApiRequest[Any, Any]], Awaitable[Any]]
Write = Callable[[ApiRequest[Any, Any], Tx], Awaitable[Any]]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the API. Exactly one of ``read`` and ``write`` is there.

    ``write`` runs in a transaction of its own with the Idempotency-Key, if there is one; ``answer``
    is the struct of ``data``, None for an answer without data, or ``Download``.
    """

    method: str
    path: str
    tag: str
    summary: str
    response: Any
    read: Read | None = None
    write: Write | None = None
    autocommit: bool = False  # ``write`` changes all by its last statement: that is its transaction
    status: int = 200
    id_of: Callable[[str], str] | None = None  # of another name that may stand in the path's place
    query: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] = Nothing
    auth: bool = True
    per_merchant_limit: rate_limits.OfMerchant | None = None
    secret: bool = False  # the answer shows one: under its Idempotency-Key it is kept sealed
    description: str = ""
    refusals: tuple[str, ...] = ()  # what is answered with 40001, beside malformed fields
    example: Any = None  # of the body
    response_example: Any = None  # of data


def failure(problem: Problem) -> tuple[int, bytes, Headers]:
    """Return status, body bytes and extra headers of a problem's answer."""
    detail: Detail | msgspec.UnsetType = msgspec.UNSET
    if problem.field is not None and not isinstance(problem, Unauthorized):
        detail = Detail(problem.field, problem.reason or "")
    headers: list[tuple[bytes, bytes]] = []
    if isinstance(problem, TooManyAtOnce):
        headers = [(b"retry-after", b"%d" % problem.retry_after_s)]
    elif isinstance(problem, TooManyRequests):
        wait = problem.retry_after_s
        headers = [
            (b"retry-after", b"%d" % wait),
            (b"ratelimit-policy", b'"default";q=%d;w=60' % problem.limit),
            (b"ratelimit", b'"default";r=0;t=%d' % wait),
        ]
    elif isinstance(problem, Unavailable):
        headers = [(b"retry-after", b"1")]
    elif isinstance(problem, Unauthorized):
        headers = [(b"www-authenticate", b'ApiKey realm="opentill"')]
    return problem.status, encode(Failure(problem.code, problem.message, detail)), headers


def log_defect(error: Exception) -> None:
    """Write a defect of ours into the log, where the request's id finds it."""
    _log.error("internal error", exc_info=error)


async def send_json(send: "Send", status: int, body: bytes, headers: Headers = ()) -> None:
    """Send a whole JSON answer."""
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(body)),
                _NO_STORE,
                *headers,
            ],
        },
    )
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def send_problem(send: "Send", error: Exception, also: Headers = ()) -> None:
    """Send the error body of a problem; of any other exception the one of a defect of ours."""
    if not isinstance(error, Problem):
        log_defect(error)
        error = Internal()
    status, body, headers = failure(error)
    await send_json(send, status, body, (*headers, *also))


class _Routes:
    """The operations by path, found without the framework's router.

    It cannot give path parameters to raw ASGI handlers (Litestar 2.25), and all there is to match
    is one parameter between fixed segments.
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._fixed: dict[str, dict[str, Operation]] = {}
        self._open: dict[str, dict[str, Operation]] = {}
        for operation in operations:
            path = operation.path
            if "{" in path:
                found = self._open.setdefault(_shape(path), {})
            else:
                found = self._fixed.setdefault(path, {})
            found[operation.method] = operation

    def find(self, path: str) -> tuple[dict[str, Operation] | None, dict[str, str]]:
        """Return the operations at a path by method, and the path's parameters."""
        if path in self._fixed:
            return self._fixed[path], {}
        segments = path.split("/")
        if len(segments) > _ID_AT:
            key = segments[_ID_AT]
            segments[_ID_AT] = "{id}"
            return self._open.get("/".join(segments)), {"id": key}
        return None, {}


_ID_AT: Final = 3  # "", "v1", "orders", id
_IGNORED: Final = "opentill_ignored"  # in a scope: the header that names what of its body is


def _shape(path: str) -> str:
    segments = path.split("/")
    if segments[_ID_AT] != "{id}" or path.count("{") != 1:
        msg = f"{path}: the only parameter of a path is {{id}}, as its third segment"
        raise ValueError(msg)
    return path


def serve(operations: Sequence[Operation]) -> "ASGIApp":
    """Make the application for everything under ``/v1``."""
    table = _Routes(operations)

    async def api(scope: "Scope", receive: "Receive", send: "Send") -> None:
        extra = cast("dict[str, Any]", scope)  # with what the edge added
        try:
            methods, parameters = table.find(extra["path"])
            if methods is None:
                raise NotFound  # noqa: TRY301 - answered like everything else
            operation = methods.get(extra["method"])
            extra["opentill_route"] = next(iter(methods.values())).path
            if operation is None:
                status, body, _ = failure(MethodNotAllowed())
                allow = ", ".join(sorted(methods)).encode()
                await send_json(send, status, body, [(b"allow", allow)])
                return
            extra["opentill_parameters"] = parameters
            await _perform(operation, extra, receive, send)
        except Exception as error:  # noqa: BLE001 - every failure gets the one error body
            await send_problem(send, error, extra.get(_IGNORED, ()))

    return api


async def _perform(
    operation: Operation, scope: dict[str, Any], receive: "Receive", send: "Send"
) -> None:
    app: App = scope["litestar_app"].state.app
    merchant_id: str = scope["opentill_merchant"] or ""
    if operation.auth and not merchant_id:
        raise Unauthorized
    path: dict[str, str] = scope["opentill_parameters"]
    if path and operation.id_of is not None:
        path["id"] = operation.id_of(path["id"])
    if not all(map(is_id, path.values())):
        raise NotFound
    now = app.clock()
    if operation.per_merchant_limit:
        what = operation.per_merchant_limit
        await rate_limits.hit_merchant(app.db, app.settings, what, merchant_id, now)
    headers = read_headers(scope["headers"])
    key = idempotency_key(headers) if operation.method == "POST" else None
    body = await read_body(headers, receive) if operation.write else b""
    if operation.write and key is not None:
        status, response, replayed = await _once(operation, scope, app, merchant_id, now, key, body)
        also = scope.get(_IGNORED, ())
        if replayed:
            named = ignored.header_of(body, operation.body) if is_json(headers) else ()
            also = (*named, (b"idempotent-replayed", b"true"))
        await send_json(send, status, response, also)
        return
    request = _request(operation, scope, app, merchant_id, now, headers, body)
    write = operation.write
    if write is not None:
        work = functools.partial(write, request)
        data = await (app.db.autocommit(work) if operation.autocommit else app.db.run(work))
    elif operation.read is not None:
        data = await operation.read(request)
    else:
        raise AssertionError  # an operation has one of both
    if isinstance(data, Download):
        await _send_download(receive, send, data)
    else:
        await send_json(send, operation.status, _response_body(data), scope.get(_IGNORED, ()))


def _response_body(data: Any) -> bytes:
    return encode(Done(0, "success") if data is None else Success(0, "success", data))


def _request(
    operation: Operation,
    scope: dict[str, Any],
    app: App,
    merchant_id: str,
    now: int,
    headers: Mapping[bytes, bytes],
    body: bytes,
) -> ApiRequest[Any, Any]:
    try:
        query = querystring.read(scope["query_string"], operation.query)
    except Invalid:  # what of the body nobody reads is named all the same, as in a replay
        if is_json(headers):
            scope[_IGNORED] = ignored.header_of(body, operation.body)
        raise
    return ApiRequest(
        app=app,
        merchant_id=merchant_id,
        now=now,
        path=scope["opentill_parameters"],
        query=query,
        body=_decode_body(operation, scope, headers, body),
        key_id=scope.get("opentill_key", ""),
    )


async def _once(
    operation: Operation,
    scope: dict[str, Any],
    app: App,
    merchant_id: str,
    now: int,
    key: str,
    body: bytes,
) -> tuple[int, bytes, bool]:
    """Answer a POST with an Idempotency-Key: status, body, and whether it is a replay."""
    path = scope["path"] + "?" + scope["query_string"].decode("latin-1")
    print_ = idempotency.fingerprint(operation.method, path, body)
    write = operation.write
    if write is None:
        raise AssertionError
    sealing = app.settings.secret_key, f"answer {merchant_id} {key}"

    async def work(tx: Tx) -> tuple[int, bytes, bool]:
        kept = await idempotency.claim(tx, merchant_id, key, print_, now)
        if kept is not None:
            encrypted = operation.secret and kept.status == operation.status
            told = encryption.decrypt(*sealing, kept.body).encode() if encrypted else kept.body
            return kept.status, told, True
        try:
            request = _request(
                operation, scope, app, merchant_id, now, dict(scope["headers"]), body
            )
            async with tx.transaction():  # a refusal takes back what it had begun
                status, response = operation.status, _response_body(await write(request, tx))
        except Problem as problem:
            if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR or isinstance(
                problem, TooManyRequests
            ):
                raise
            status, response, _ = failure(problem)
        encrypted = operation.secret and status == operation.status
        kept_body = encryption.encrypt(*sealing, response.decode()) if encrypted else response
        await idempotency.keep(tx, merchant_id, key, status, kept_body)
        return status, response, False

    return await app.db.run(work)


@functools.cache
def _has_defaults(body: type[msgspec.Struct]) -> bool:
    """Tell whether a body may be left out."""
    return not any(field.required for field in msgspec.structs.fields(body))


def _decode_body(
    operation: Operation, scope: dict[str, Any], headers: Mapping[bytes, bytes], body: bytes
) -> Any:
    if not body and _has_defaults(operation.body):
        return operation.body()
    if not is_json(headers):
        raise UnsupportedMediaType
    if operation.body is Nothing:
        scope[_IGNORED] = ignored.header_of(body, Nothing)
        return Nothing()
    tree = strictjson.check(body)
    scope[_IGNORED] = ignored.header(tree, operation.body)
    return strictjson.read(body, operation.body)


async def _send_download(receive: "Receive", send: "Send", download: Download) -> None:
    """Stream a file until it ends or its client has left, never ahead of what the client takes."""
    left = asyncio.create_task(_disconnected(receive))
    disposition = f'attachment; filename="{download.filename}"'.encode()
    head: Message = {
        "type": "http.response.start",
        "status": 200,
        "headers": [
            (b"content-type", download.content_type.encode()),
            (b"content-disposition", disposition),
            _NO_STORE,
        ],
    }
    try:
        async with contextlib.aclosing(download.chunks) as chunks:
            # Made before the head is sent, so that what fails at once is an answer.
            chunk = await anext(chunks, b"")
            await send(head)
            while chunk:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                chunk = b""  # the socket has it, nobody else needs it
                # Comes back when the socket has room again: the next is not made before.
                await send({"type": "http.response.body", "body": b"", "more_body": True})
                if left.done():
                    return
                chunk = await anext(chunks, b"")
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        left.cancel()


async def _disconnected(receive: "Receive") -> None:
    """Come back when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
