"""What is refused before the application sees it, and what a request must look like at least."""

from typing import Final

import msgspec

MAX_QUEUED: Final = 32  # requests of a connection that wait for the answer before theirs


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


def _too_many(reason: str) -> Refusal:
    error = {"field": "request", "reason": reason}
    answer = {"code": 42901, "message": "Too many requests", "error": error}
    return Refusal(429, msgspec.json.encode(answer), b"retry-after: 1\r\n")


OVERSIZE: Final = ("headers", "the headers must be 16 KiB or less")
UNREADABLE: Final = ("request", "the request must be valid HTTP/1.1")


# Each made anew: one that is raised again and again would keep every frame that it came through.


def queue_full() -> Refusal:
    """Return the refusal of a request that too many others of its connection are ahead of."""
    return _too_many(
        f"at most {MAX_QUEUED} requests may wait on a connection for the answer before theirs"
    )


def address_full() -> Refusal:
    """Return the refusal of a connection of an address that has its share."""
    return _too_many("too many connections of this address are at work")


def full() -> Refusal:
    """Return the refusal of a connection when there is room for no more."""
    body = b'{"code":50301,"message":"Service unavailable"}'
    return Refusal(503, body, b"retry-after: 1\r\n")


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
