"""The API's responses: the envelope, the error body and streamed files."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any, Final

import msgspec
import structlog
from starlette.types import Message, Receive, Send

from opentill.core.errors import (
    Internal,
    MethodNotAllowed,
    Problem,
    TooManyAtOnce,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)

Headers = Sequence[tuple[bytes, bytes]]
# Caches must not store responses: they contain financial data, and errors may contain it too.
_NO_STORE: Final = (b"cache-control", b"no-store")
_log: Final = structlog.get_logger()
encode: Final = msgspec.json.Encoder().encode


class Detail(msgspec.Struct, frozen=True):
    """The input that was refused and what would be accepted."""

    field: Annotated[
        str,
        msgspec.Meta(
            description="The input that was refused: a field of the body, a query parameter, a "
            "header, `body` for JSON that cannot be read, or `path` for one with slashes too many."
        ),
    ]
    reason: Annotated[
        str, msgspec.Meta(description="One plain sentence that says what would be accepted.")
    ]


class Failure(msgspec.Struct, frozen=True):
    """The error body (contract.md#error-body)."""

    code: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=99_999,
            description="The business code: what was refused. It is not the HTTP status.",
        ),
    ]
    message: Annotated[
        str,
        msgspec.Meta(
            description="The business code in words. It is made for people: let programs read "
            "`code`."
        ),
    ]
    error: Detail | msgspec.UnsetType = msgspec.UNSET


class Success(msgspec.Struct, frozen=True):
    """The envelope (contract.md#envelope); the OpenAPI document shows ``Done`` with ``data``."""

    code: int
    message: str
    data: Any


class Done(msgspec.Struct, frozen=True):
    """The response of an operation that returns nothing, such as archiving."""

    code: Annotated[int, msgspec.Meta(ge=0, le=0, description="Always 0: the request succeeded.")]
    message: Annotated[str, msgspec.Meta(pattern=r"^success\Z", description="Always `success`.")]


class Download(msgspec.Struct, frozen=True):
    """A response that is a file, streamed in chunks."""

    content_type: str
    filename: str
    chunks: AsyncGenerator[bytes, None]


def render_problem(problem: Problem) -> tuple[int, bytes, Headers]:
    """Render a problem: return its HTTP status, body and extra headers."""
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
            (b"ratelimit-policy", b'"default";q=%d;w=%d' % (problem.limit, problem.window_s)),
            (b"ratelimit", b'"default";r=0;t=%d' % wait),
        ]
    elif isinstance(problem, Unavailable):
        headers = [(b"retry-after", b"1")]
    elif isinstance(problem, Unauthorized):
        headers = [(b"www-authenticate", problem.challenge)]
    elif isinstance(problem, MethodNotAllowed):
        headers = [(b"allow", problem.allow.encode())]  # RFC 9110 §15.5.6 requires this header
    return problem.status, encode(Failure(problem.code, problem.message, detail)), headers


def log_defect(error: Exception) -> None:
    """Log an unexpected exception; the request's id is bound to the log line."""
    _log.error("internal error", exc_info=error)


async def send_json(send: Send, status: int, body: bytes, headers: Headers = ()) -> None:
    """Send a complete JSON response."""
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


async def send_problem(send: Send, error: Exception, extra_headers: Headers = ()) -> None:
    """Send a problem's error body; log any other exception and send it as status 500."""
    if not isinstance(error, Problem):
        log_defect(error)
        error = Internal()
    status, body, headers = render_problem(error)
    await send_json(send, status, body, (*headers, *extra_headers))


def encode_success(data: Any) -> bytes:
    """Encode the envelope around ``data``; it has no ``data`` if that is None."""
    return encode(Done(0, "success") if data is None else Success(0, "success", data))


async def send_download(receive: Receive, send: Send, download: Download) -> None:
    """Stream a file at the client's pace until it ends or the client disconnects."""
    disconnected = asyncio.create_task(_wait_for_disconnect(receive))
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
            # Get the first chunk before the headers are sent, so that a download that fails at once
            # gets an error response.
            chunk = await anext(chunks, b"")
            await send(head)
            while chunk:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                chunk = b""  # release the memory; the socket holds the bytes
                # This returns once the socket has room: no chunk is generated before that.
                await send({"type": "http.response.body", "body": b"", "more_body": True})
                if disconnected.done():
                    return
                chunk = await anext(chunks, b"")
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        disconnected.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
