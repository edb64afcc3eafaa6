"""Epay requests as they come: one source of parameters, never merged.

If ``pid`` stands in the query, the query alone is the request, otherwise the body alone: an old
client posts to ``submit.php?_input_charset=utf-8`` and does not sign that parameter. ``act`` of
api.php may stand in either. Of a parameter that comes twice the last counts, as in PHP.
"""

from collections.abc import Collection, Mapping
from io import BytesIO
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote_plus

import msgspec
import multipart  # type: ignore[import-untyped]  # it does not say that it brings types
from starlette.types import Receive, Scope

from opentill.core.errors import Invalid, PayloadTooLarge
from opentill.epay.model import BUSINESS, Refused
from opentill.gateways.epay import signature
from opentill.http.incoming import MAX_BODY, read_body

_library: Final = cast("Any", multipart)
_MAX_FIELDS: Final = 100
_FORM: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"
# What makes a message a notification, and what a request says of itself. Not ``type``: whichever
# stands there proves nothing, and shops route by a parameter of that name.
_OF_NOTIFICATIONS: Final = frozenset({"trade_no", "trade_status"})
_OF_REQUESTS: Final = frozenset({
    "money", "name", "notify_url", "out_trade_no", "pid", "return_url", "sign", "sign_type",
})  # fmt: skip


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request: its parameters, all of one source, and where it comes from."""

    params: Mapping[str, str]
    act: str  # of api.php, "" if there is none
    address: str

    def get(self, name: str) -> str:
        """Return a parameter, "" where it is missing."""
        return self.params.get(name, "")

    def missing(self, *names: str) -> list[str]:
        """Return which of the parameters are missing or empty."""
        return [name for name in names if not self.get(name)]


async def read_request(scope: Scope, receive: Receive) -> Request:
    """Read a request by GET or POST. Raises Refused."""
    query = _decoded(scope["query_string"])
    whole = "pid" in query and "act" in query
    body: dict[str, str] = {}
    if scope["method"] == "POST" and not whole:
        body = await _form(dict(scope["headers"]), receive)
    one, other = (query, body) if "pid" in query else (body, query)
    _check(one)
    return Request(
        params=one,
        act=one.get("act") or other.get("act", ""),
        address=scope["opentill_address"],
    )


def _decoded(text: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            text.decode(),  # some old clients leave characters as they are
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MAX_FIELDS,
        )
    except ValueError:  # also of UnicodeDecodeError
        raise _unreadable() from None
    return dict(pairs)


def _unreadable() -> Refused:
    return Refused(BUSINESS, f"参数必须是 UTF-8 编码的表单，最多 {_MAX_FIELDS} 个")


async def _form(headers: Mapping[bytes, bytes], receive: Receive) -> dict[str, str]:
    """Read a form of either kind. Anything else counts as no parameters, as it does in PHP."""
    try:
        body = await read_body(headers, receive)
    except PayloadTooLarge:
        raise Refused(BUSINESS, f"请求内容过大，最多 {MAX_BODY // 1024} KiB") from None
    except Invalid:
        raise Refused(BUSINESS, "请求内容不完整") from None
    header = headers.get(b"content-type", b"").decode("latin-1")
    media_type, options = _library.parse_options_header(header)
    if media_type == _MULTIPART:
        return _parts(body, options.get("boundary", ""))
    return _decoded(body.strip()) if media_type in {_FORM, ""} else {}


def _parts(body: bytes, boundary: str) -> dict[str, str]:
    """Read a multipart form: UTF-8, whatever a part says of itself. Files in it are left out."""
    try:
        parser = _library.MultipartParser(
            BytesIO(body), boundary, len(body), part_limit=_MAX_FIELDS, spool_limit=MAX_BODY
        )
        return {part.name: part.raw.decode() for part in parser if not part.filename}
    except (ValueError, LookupError):
        raise _unreadable() from None


def _check(params: Mapping[str, str]) -> None:
    """Refuse what cannot be stored, and names that would make one sign fit two messages."""
    for name, value in params.items():
        if "\0" in name or "\0" in value:
            raise Refused(BUSINESS, "参数不能含有 NUL 字符")
        if "&" in name or "=" in name:
            raise Refused(BUSINESS, "参数名不能含有 & 或 =")


def refuse_borders(params: Mapping[str, str], *, addresses: Collection[str] = ()) -> None:
    """Refuse a value that could make the sign of this message that of another. Raises Refused.

    ``addresses`` are parameters that shops put queries of their own into: there only what could be
    cut out of the signed text to forge something is refused (decision 0041).
    """
    for name, value in params.items():
        for field, text in signature.borders(value):
            if name not in addresses or not _passes(field, text, params):
                raise Refused(BUSINESS, f"参数 {name} 不能含有 &{field}=，签名后会与协议字段混淆")


def _passes(field: str, text: str, params: Mapping[str, str]) -> bool:
    """Return whether an address may hold ``&field=text``: never what only notifications have.

    What a request says of itself may stand there again, in plain or encoded. No forgery has any
    use for the rest.
    """
    if field in _OF_NOTIFICATIONS:
        return False
    if field not in _OF_REQUESTS:
        return True
    own = signature.sign_type(params) if field == "sign_type" else params.get(field, "")
    plain = text.partition("#")[0]
    said = {text, plain, unquote_plus(plain)}
    if field == "sign_type":
        said = {one.strip().upper() for one in said}
    if field == "money":
        own, said = without_zeros(own), {without_zeros(one) for one in said}
    return own in said


def without_zeros(money: str) -> str:
    """Return an amount without the zeros at the end of its fraction: ``1.000`` is ``1``."""
    return money.rstrip("0").rstrip(".") if "." in money else money
