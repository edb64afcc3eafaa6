"""What is refused before the application sees it, and what a request must look like at least."""

import secrets
from typing import Final

import msgspec
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

MAX_QUEUED: Final = 32  # requests of a connection that wait for the answer before theirs
_INTERNAL: Final = b'{"code":50001,"message":"Internal error"}'


class Refusal(Exception):
    """The request is refused before the application sees it."""

    def __init__(self, status: int, body: bytes, headers: bytes = b"") -> None:
        """``headers`` are whole header lines that go along with the JSON ``body``."""
        super().__init__(status)
        self.status = status
        self.body = body
        self.headers = headers


def malformed(field: str, reason: str) -> Refusal:
    """Return the refusal of a request that breaks the protocol or its limits."""
    error = {"field": field, "reason": reason}
    answer = {"code": 40001, "message": "Validation failed", "error": error}
    return Refusal(400, msgspec.json.encode(answer))


def too_many() -> Refusal:
    """Return the refusal of a client that has its share: of a queue, or of connections.

    Made anew each time: what is raised again and again would keep every frame it came through.
    """
    body = b'{"code":42901,"message":"Too many requests"}'
    return Refusal(429, body, b"retry-after: 1\r\n")


def full() -> Refusal:
    """Return the refusal of a connection when there is room for no more."""
    body = b'{"code":50301,"message":"Service unavailable"}'
    return Refusal(503, body, b"retry-after: 1\r\n")


OVERSIZE: Final = ("headers", "the headers must be 16 KiB or less")
UNREADABLE: Final = ("request", "the request must be valid HTTP/1.1")


def check_framing(headers: list[tuple[bytes, bytes]], version: str) -> None:
    """Raise for requests that two servers in a row could read differently (RFC 9112 §3.2, §6.3)."""
    lengths = codings = hosts = 0
    for name, value in headers:
        if name == b"content-length":
            lengths += 1
        elif name == b"host":
            hosts += 1
        elif name == b"transfer-encoding":
            codings += 1
            if value.lower() != b"chunked":
                raise malformed("request", "transfer-encoding must be chunked or absent")
    if lengths + codings > 1:
        reason = "there must be one content-length or one transfer-encoding, not more"
        raise malformed("request", reason)
    if codings and version != "1.1":
        raise malformed("request", "transfer-encoding needs HTTP/1.1")
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        raise malformed("request", "there must be exactly one host header")


async def answer_internal(cycle: RequestResponseCycle) -> None:
    """The error body for an application that failed before it answered."""
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(_INTERNAL)),
        (b"cache-control", b"no-store"),
        (b"x-request-id", secrets.token_hex(16).encode()),
        (b"connection", b"close"),
    ]
    await cycle.send({"type": "http.response.start", "status": 500, "headers": headers})
    await cycle.send({"type": "http.response.body", "body": _INTERNAL, "more_body": False})
