"""Reading requests and writing responses, for the bank's API and pages."""

from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from opentill.sandbox.bank import Bank
from opentill.sandbox.model import Refusal
from opentill.sandbox.storage import Store

T = TypeVar("T")
MAX_BODY: Final = 64 * 1024
_MAX_FIELDS: Final = 20
_MILLIS_DIGITS: Final = 15
_CODE: Final = "invalid_request"


def bank_of(request: Request) -> Bank:
    """Return the bank of the application."""
    bank: Bank = request.app.state.bank
    return bank


def store_of(request: Request) -> Store:
    """Return the bank's storage."""
    store: Store = request.app.state.store
    return store


def json_response(data: Any, status: int = 200) -> Response:
    """Return ``data`` as JSON."""
    return Response(msgspec.json.encode(data), status, media_type="application/json")


def error_response(refusal: Refusal) -> Response:
    """Return ``{"error": {"code", "message"}}``."""
    error = {"code": refusal.code, "message": refusal.message}
    return json_response({"error": error}, refusal.status)


async def read_json(request: Request, struct: type[T], default: T | None = None) -> T:
    """Return the JSON body as ``struct``, whatever its media type; ``default`` for an empty body.

    Raises Refusal: 400 for anything else, 413 for more than 64 KiB.
    """
    body = await read_body(request)
    if default is not None and not body:
        return default
    try:
        return msgspec.json.decode(body, type=struct)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, _CODE, str(error)) from None


async def read_form(request: Request, struct: type[T]) -> T:
    """Return a URL-encoded form as ``struct``, whatever its media type. Raises Refusal."""
    pairs = await read_pairs(request)
    try:
        return msgspec.convert(pairs, struct)
    except ValueError as error:  # msgspec.ValidationError is a ValueError
        raise Refusal(400, _CODE, str(error)) from None


async def read_pairs(request: Request) -> dict[str, str]:
    """Return a URL-encoded form in UTF-8 as pairs. Raises Refusal."""
    try:
        text = (await read_body(request)).decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError as error:  # UnicodeDecodeError is a ValueError
        raise Refusal(400, _CODE, str(error)) from None
    return dict(pairs)


def read_millis(request: Request, name: str, default: int) -> int:
    """Return a query parameter that is a time in Unix milliseconds. Raises Refusal."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= _MILLIS_DIGITS):
        raise Refusal(400, _CODE, f"{name} must be a time in Unix milliseconds.")
    return int(text)


async def read_body(request: Request) -> bytes:
    """Return the body. Raises Refusal: 413 for more than 64 KiB."""
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY:
                raise Refusal(413, _CODE, "The body must not exceed 64 KiB.")
    except ClientDisconnect:
        raise Refusal(400, _CODE, "The body must arrive whole.") from None
    return bytes(body)
