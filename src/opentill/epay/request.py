"""Reading of Epay requests: parameters come from query or body and are never merged.

If the query contains ``pid``, the query alone is the request, otherwise the body alone: an old
client posts to ``submit.php?_input_charset=utf-8`` and does not sign that parameter. ``act`` of
api.php may be in either. Of a repeated parameter the last value counts, as in PHP.
"""

from collections.abc import Collection, Mapping
from io import BytesIO
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote_plus

import msgspec
import multipart  # type: ignore[import-untyped]  # it lacks the marker py.typed
from starlette.types import Receive, Scope

from opentill.core.errors import Invalid, PayloadTooLarge
from opentill.epay.model import BUSINESS, Refused
from opentill.gateways.epay import signature
from opentill.http.incoming import MAX_BODY, read_body

_library: Final = cast("Any", multipart)
_MAX_FIELDS: Final = 100
_FORM: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"
# Fields that make a message a notification, and fields of a request. ``type`` is in neither: its
# value proves nothing, and shops use a parameter of that name for routing.
_NOTIFICATION_FIELDS: Final = frozenset({"trade_no", "trade_status"})
_REQUEST_FIELDS: Final = frozenset({
    "money", "name", "notify_url", "out_trade_no", "pid", "return_url", "sign", "sign_type",
})  # fmt: skip


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request: its parameters, all from one source, and the client's address."""

    params: Mapping[str, str]
    act: str  # the operation of api.php, "" if the request names none
    address: str

    def get(self, name: str) -> str:
        """Return a parameter, "" if it is missing."""
        return self.params.get(name, "")

    def missing(self, *names: str) -> list[str]:
        """Return which of the parameters are missing or empty."""
        return [name for name in names if not self.get(name)]


async def read_request(scope: Scope, receive: Receive) -> Request:
    """Read a request by GET or POST. Raises Refused."""
    query = _decode_form(scope["query_string"])
    is_query_only = "pid" in query and "act" in query
    body: dict[str, str] = {}
    if scope["method"] == "POST" and not is_query_only:
        body = await _read_form(dict(scope["headers"]), receive)
    params, other_params = (query, body) if "pid" in query else (body, query)
    _check(params)
    return Request(
        params=params,
        act=params.get("act") or other_params.get("act", ""),
        address=scope["opentill_address"],
    )


def _decode_form(text: bytes) -> dict[str, str]:
    return dict(decode_pairs(text))


def decode_pairs(text: bytes) -> list[tuple[str, str]]:
    """Decode a URL-encoded form, with repeated names. Raises Refused."""
    try:
        return parse_qsl(
            text.decode(),  # some old clients send UTF-8 without percent-encoding
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MAX_FIELDS,
        )
    except ValueError:  # a UnicodeDecodeError is a ValueError too
        raise _unreadable() from None


def _unreadable() -> Refused:
    return Refused(BUSINESS, f"参数必须是 UTF-8 编码的表单，最多 {_MAX_FIELDS} 个")


async def _read_form(headers: Mapping[bytes, bytes], receive: Receive) -> dict[str, str]:
    return dict(await read_pairs(headers, receive))


async def read_pairs(headers: Mapping[bytes, bytes], receive: Receive) -> list[tuple[str, str]]:
    """Read a form, URL-encoded or multipart, with repeated names. Raises Refused.

    Other bodies have no parameters, as in PHP.
    """
    try:
        body = await read_body(headers, receive)
    except PayloadTooLarge:
        raise Refused(BUSINESS, f"请求内容过大，最多 {MAX_BODY // 1024} KiB") from None
    except Invalid:
        raise Refused(BUSINESS, "请求内容不完整") from None
    header = headers.get(b"content-type", b"").decode("latin-1")
    media_type, options = _library.parse_options_header(header)
    if media_type == _MULTIPART:
        return _read_multipart(body, options.get("boundary", ""))
    return decode_pairs(body.strip()) if media_type in {_FORM, ""} else []


def _read_multipart(body: bytes, boundary: str) -> list[tuple[str, str]]:
    """Read a multipart form as UTF-8, whatever charset a part declares, and ignore files."""
    try:
        parser = _library.MultipartParser(
            BytesIO(body), boundary, len(body), part_limit=_MAX_FIELDS, spool_limit=MAX_BODY
        )
        return [(part.name, part.raw.decode()) for part in parser if not part.filename]
    except (ValueError, LookupError):
        raise _unreadable() from None


def _check(params: Mapping[str, str]) -> None:
    """Refuse NUL, which cannot be stored, and names that make the signed text ambiguous."""
    for name, value in params.items():
        if "\0" in name or "\0" in value:
            raise Refused(BUSINESS, "参数不能含有 NUL 字符")
        if "&" in name or "=" in name:
            raise Refused(BUSINESS, "参数名不能含有 & 或 =")


def refuse_embedded_fields(params: Mapping[str, str], *, addresses: Collection[str] = ()) -> None:
    """Refuse values with which the signature would also fit another message. Raises Refused.

    ``addresses`` are the parameters with URLs, whose queries may have parameters of the shop's own.
    In a URL, only fields that could be cut out of the signed text for a forgery are refused
    (decision 0041).
    """
    for name, value in params.items():
        for field, text in signature.embedded_fields(value):
            if name not in addresses or not _may_embed(field, text, params):
                raise Refused(BUSINESS, f"参数 {name} 不能含有 &{field}=，签名后会与协议字段混淆")


def _may_embed(field: str, text: str, params: Mapping[str, str]) -> bool:
    """Whether the query of a URL may contain ``&field=text``.

    A field of notifications is never allowed, and a field of requests only with this request's own
    value, plain or encoded. All other fields are allowed: they are useless for a forgery.
    """
    if field in _NOTIFICATION_FIELDS:
        return False
    if field not in _REQUEST_FIELDS:
        return True
    own_value = signature.sign_type(params) if field == "sign_type" else params.get(field, "")
    plain = text.partition("#")[0]
    values = {text, plain, unquote_plus(plain)}
    if field == "sign_type":
        values = {value.strip().upper() for value in values}
    if field == "money":
        own_value, values = without_zeros(own_value), {without_zeros(value) for value in values}
    return own_value in values


def without_zeros(money: str) -> str:
    """Remove the trailing zeros of an amount's fraction: ``1.000`` becomes ``1``."""
    return money.rstrip("0").rstrip(".") if "." in money else money
