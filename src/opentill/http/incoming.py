"""Reads the headers and the body of a request."""

from collections.abc import Mapping, Sequence
from typing import Final

from starlette.types import Receive, Scope

from opentill.core.errors import Invalid, PayloadTooLarge
from opentill.http import idempotency

MAX_BODY: Final = 64 * 1024
_MAX_DIGITS: Final = 19  # longest Content-Length in digits; int() refuses over 4,300
# Headers that must not be repeated, because a proxy might use a different one of the values than we
# do. A request with several x-api-key headers has no valid key (middleware.py).
_UNIQUE: Final = {b"idempotency-key": "Idempotency-Key", b"content-type": "Content-Type"}


def read_headers(lines: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return headers by name. Raises Invalid for a header that must not be repeated."""
    headers = dict(lines)
    if len(headers) != len(lines):
        names = [name for name, _ in lines]
        for name, display_name in _UNIQUE.items():
            if names.count(name) > 1:
                raise Invalid(display_name, f"{display_name} must stand only once")
    return headers


def bearer_token(scope: Scope) -> str:
    """Return the bearer token of a request (RFC 6750 §2.1), "" if it has none or several."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, token = (values[0] if len(values) == 1 else b"").decode("latin-1").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def idempotency_key(headers: Mapping[bytes, bytes]) -> str | None:
    """Return a request's Idempotency-Key, None if it has none. Raises Invalid."""
    value = headers.get(b"idempotency-key")
    if value is None:
        return None
    key = value.decode("latin-1")
    idempotency.check_key(key)
    return key


def is_json(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request declares its body as JSON."""
    media_type = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    return media_type == b"application/json"


async def read_body(
    headers: Mapping[bytes, bytes], receive: Receive, most: int = MAX_BODY
) -> bytes:
    """Read a request's body. Raises PayloadTooLarge over ``most`` bytes, Invalid if it is cut off.

    A malformed content length, or one of over ``_MAX_DIGITS`` digits, counts as too large.
    """
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or len(length) > _MAX_DIGITS or int(length) > most:
        raise PayloadTooLarge
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Invalid("body", "body must arrive whole")
        if message["type"] == "http.request":
            chunks.append(message["body"])
            size += len(message["body"])
            if size > most:
                raise PayloadTooLarge
            if not message["more_body"]:
                return b"".join(chunks)
