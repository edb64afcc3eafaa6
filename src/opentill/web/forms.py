"""Forms: refusing forms of other sites, and parsing fields and files."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any, Final, NamedTuple, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec
import multipart  # type: ignore[import-untyped]  # it does not declare its types
from starlette.types import Receive

from opentill.core.errors import Invalid, PayloadTooLarge, Problem, UnsupportedMediaType
from opentill.http.incoming import MAX_BODY, read_body
from opentill.server.client_address import is_loopback_host

_library: Final = cast("Any", multipart)
_MAX_FIELDS: Final = 1000  # a schedule of 100 fees has 500; the size of a form is limited, too
_PORTS: Final = {"http": 80, "https": 443}
_DRAIN_LIMIT: Final = 16 * 1024 * 1024
_FORM: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"
_ACCEPTED: Final = ("body", "the form must arrive whole, URL-encoded in UTF-8, without NUL")


class Foreign(Problem):
    """A form that was submitted by a page of another site."""

    status, code, message = 403, 40301, "Forbidden"


class IncompleteForm(Invalid):
    """A form without one of the fields that it has in the browser."""

    field: str


def require_fields(form: Mapping[str, str], names: Iterable[str]) -> None:
    """Raise IncompleteForm unless the form has all these fields, which may be empty."""
    for name in names:
        if name not in form:
            reason = f"the form must have the field {name}, which may be empty"
            raise IncompleteForm(name, reason)


def check_origin(
    headers: Mapping[bytes, bytes], public_url: str, *, cookies_count: bool = False
) -> None:
    """Raise Foreign if a page of another site submitted the form (CSRF).

    Sec-Fetch-Site decides if the browser sends it, else Origin. An own origin has the scheme of the
    public URL and the host of the public URL or of the request; on loopback it may also be http.

    A client that sends neither header is refused if ``cookies_count``: a cookie authenticates the
    sender. Otherwise it may submit the form, whose address is secret.
    """
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        if site not in {b"same-origin", b"none"}:
            raise Foreign
        return
    origin = headers.get(b"origin")
    if origin is None and not cookies_count:
        return
    sender = _parse_origin((origin or b"").decode("latin-1"))
    host = headers.get(b"host", b"").decode("latin-1")
    own_origins = {
        _parse_origin(public_url),
        _parse_origin(f"{urlsplit(public_url).scheme}://{host}"),
    }
    http_origin = _parse_origin(f"http://{host}")
    if http_origin is not None and is_loopback_host(http_origin.host):
        own_origins.add(http_origin)
    if sender is None or sender not in own_origins:
        raise Foreign


class _Origin(NamedTuple):
    """An origin (RFC 6454) with an explicit port."""

    scheme: str
    host: str
    port: int


def _parse_origin(url: str) -> _Origin | None:
    """Return the origin of a URL, None if it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # no valid URL, such as "http://[::1"
        return None
    if parts.scheme not in _PORTS or not parts.hostname:
        return None
    return _Origin(parts.scheme, parts.hostname, port or _PORTS[parts.scheme])


class Upload(msgspec.Struct, frozen=True):
    """An uploaded file and its sender's name for it."""

    name: str
    content: bytes


KEPT: Final = "kept_file."  # begins the names of fields that contain a file (``encode_files``)


def encode_files(files: Mapping[str, Upload], most: int) -> dict[str, str]:
    """Encode files as hidden fields of a page that submits the form again.

    A page cannot preset a file input. Files over ``most`` characters in total are omitted.
    """
    fields = dict[str, str]()
    for name, file in files.items():
        text = f"{quote(file.name, safe='')}:{b64encode(file.content).decode()}"
        if len(text) <= most:
            fields[KEPT + name] = text
            most -= len(text)
    return fields


def decode_files(form: "Form") -> None:
    """Decode the fields that contain files. Raises Invalid."""
    for name in [field for field in form.fields if field.startswith(KEPT)]:
        called, _, content = form.fields.pop(name).partition(":")
        try:
            upload = Upload(unquote(called), b64decode(content, validate=True))
        except ValueError:
            raise Invalid(*_ACCEPTED) from None
        form.files.setdefault(name.removeprefix(KEPT), upload)


class Form(NamedTuple):
    """The fields of a form and its uploaded files."""

    fields: dict[str, str]
    files: dict[str, Upload]


async def read(headers: Mapping[bytes, bytes], receive: Receive) -> dict[str, str]:
    """Read a form of at most 64 KiB; the first value of a repeated field counts.

    Raises PayloadTooLarge, UnsupportedMediaType, and Invalid for a form that is not UTF-8 or has a
    NUL, which PostgreSQL cannot store.
    """
    return (await read_with_files(headers, receive, 0)).fields


async def read_with_files(
    headers: Mapping[bytes, bytes], receive: Receive, max_file_bytes: int
) -> Form:
    """Read a form as ``read`` does, with files of up to ``max_file_bytes`` in total.

    If ``max_file_bytes`` is 0, the form must be URL-encoded. File inputs without a file are left
    out.
    """
    header = headers.get(b"content-type", b"").decode("latin-1")
    media_type, options = _library.parse_options_header(header)
    if media_type == _FORM:
        return _check_storable(Form(_decode_fields(await read_body(headers, receive)), {}))
    if media_type != _MULTIPART or not max_file_bytes:
        raise UnsupportedMediaType
    try:
        body = await read_body(headers, receive, MAX_BODY + max_file_bytes)
    except PayloadTooLarge:
        await _drain(receive)
        raise
    return _check_storable(_parse_multipart(body, options.get("boundary", "")))


async def _drain(receive: Receive) -> None:
    """Drain the rest of a body that is too large, up to a limit.

    A browser that gets a response before it has sent the body shows its own error instead.
    """
    size = 0
    while size < _DRAIN_LIMIT:
        message = await receive()
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or not message["more_body"]:
            return


def _check_storable(form: Form) -> Form:
    if any("\0" in text for field in form.fields.items() for text in field):
        raise Invalid(*_ACCEPTED)
    return form


def _decode_fields(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MAX_FIELDS,
        )
    except ValueError:
        raise Invalid(*_ACCEPTED) from None
    return dict(reversed(pairs))


def _parse_multipart(body: bytes, boundary: str) -> Form:
    form = Form({}, {})
    try:
        parser = _library.MultipartParser(
            BytesIO(body),
            boundary,
            len(body),
            part_limit=_MAX_FIELDS,
            spool_limit=len(body),
            memory_limit=len(body),
        )
        for part in parser:
            if part.filename is None:
                form.fields.setdefault(part.name, part.raw.decode())
            elif part.filename or part.size:
                form.files.setdefault(part.name, Upload(part.filename, part.raw))
    except (ValueError, LookupError):  # the parser's own errors are ValueErrors
        raise Invalid(*_ACCEPTED) from None
    return form
