"""What came with a request, as it came: its headers, each once where two would differ, its body."""

from collections.abc import Mapping, Sequence
from typing import Final

from starlette.types import Receive, Scope

from opentill.core.errors import Invalid, PayloadTooLarge
from opentill.http import idempotency

MAX_BODY: Final = 64 * 1024
_DIGITS: Final = 19  # of a length; Python turns at most 4,300 of them into a number
# A proxy may have read the other one. A doubled x-api-key counts as none: http/middleware.py.
_ONCE: Final = {b"idempotency-key": "Idempotency-Key", b"content-type": "Content-Type"}


def read_headers(lines: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return headers by name. Raises Invalid for one that stands twice and must not."""
    headers = dict(lines)
    if len(headers) != len(lines):
        names = [name for name, _ in lines]
        for name, shown in _ONCE.items():
            if names.count(name) > 1:
                raise Invalid(shown, f"{shown} must stand only once")
    return headers


def bearer(scope: Scope) -> str:
    """Return the token of a request (RFC 6750 §2.1), "" without one or with two."""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, token = (given[0] if len(given) == 1 else b"").decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def idempotency_key(headers: Mapping[bytes, bytes]) -> str | None:
    """Return a request's Idempotency-Key, None without one. Raises Invalid."""
    value = headers.get(b"idempotency-key")
    if value is None:
        return None
    key = value.decode("latin-1")
    idempotency.check_key(key)
    return key


def is_json(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a request's body is said to be JSON."""
    media_type = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    return media_type == b"application/json"


async def read_body(
    headers: Mapping[bytes, bytes], receive: Receive, most: int = MAX_BODY
) -> bytes:
    """Return a request's raw body. Raises PayloadTooLarge over ``most`` bytes, Invalid for half.

    A length that is no number of at most ``_DIGITS`` digits counts as too large.
    """
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or len(length) > _DIGITS or int(length) > most:
        raise PayloadTooLarge
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Invalid("body", "body must arrive whole")
        if message["type"] == "http.request":
            parts.append(message["body"])
            size += len(message["body"])
            if size > most:
                raise PayloadTooLarge
            if not message["more_body"]:
                return b"".join(parts)
