"""Responses without the application: refused requests and internal errors."""

import secrets
from typing import Final

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

MAX_QUEUED: Final = 32  # at most this many pipelined requests of a connection wait
_INTERNAL: Final = b'{"code":50001,"message":"Internal error"}'

Headers = list[tuple[bytes, bytes]]


class Refusal(Exception):
    """A request that is refused before it reaches the application."""

    def __init__(self, status: int, body: bytes, headers: Headers | None = None) -> None:
        """``headers`` are added to those of the JSON ``body``."""
        super().__init__(status)
        self.status = status
        self.body = body
        self.headers = headers or []

    def response(self, default_headers: Headers) -> bytes:
        """Return the complete response, which closes the connection."""
        headers = [*default_headers, *self.headers, *_headers(self.body)]
        lines = [b"%b: %b\r\n" % header for header in headers]
        return b"".join([STATUS_LINE[self.status], *lines, b"\r\n", self.body])


def malformed(field: str, reason: str) -> Refusal:
    """Return the refusal of a request that violates the protocol or its limits."""
    error = {"field": field, "reason": reason}
    body = {"code": 40001, "message": "Validation failed", "error": error}
    return Refusal(400, msgspec.json.encode(body))


def too_many() -> Refusal:
    """Return the refusal of a client with too many queued requests or connections.

    Always a new exception, because raising one again would accumulate its traceback.
    """
    body = b'{"code":42901,"message":"Too many requests"}'
    return Refusal(429, body, [(b"retry-after", b"1")])


def full() -> Refusal:
    """Return the refusal of a connection over the process's limit."""
    body = b'{"code":50301,"message":"Service unavailable"}'
    return Refusal(503, body, [(b"retry-after", b"1")])


OVERSIZE: Final = ("headers", "the headers must be 16 KiB or less")
UNREADABLE: Final = ("request", "the request must be valid HTTP/1.1")


def check_framing(headers: Headers, version: str) -> None:
    """Raise Refusal for requests that two servers could parse differently (request smuggling).

    RFC 9112 §3.2 and §6.3; the parser itself refuses several lengths or transfer codings.
    """
    hosts = 0
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"transfer-encoding":
            if value.lower() != b"chunked":
                raise malformed("request", "transfer-encoding must be chunked or absent")
            if version != "1.1":
                raise malformed("request", "transfer-encoding needs HTTP/1.1")
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        raise malformed("request", "there must be exactly one host header")


async def send_internal_error(cycle: RequestResponseCycle) -> None:
    """Send the error body if the application failed before it responded."""
    headers = _headers(_INTERNAL)
    await cycle.send({"type": "http.response.start", "status": 500, "headers": headers})
    await cycle.send({"type": "http.response.body", "body": _INTERNAL, "more_body": False})


def _headers(body: bytes) -> Headers:
    return [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        (b"x-request-id", secrets.token_hex(16).encode()),
        (b"connection", b"close"),
    ]
