"""Forms that people send: refused from foreign sites, and read; some bring files along."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final, NamedTuple, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec
import multipart  # type: ignore[import-untyped]  # it does not say that it brings types
from starlette.types import Receive

from opentill.core.errors import Invalid, PayloadTooLarge, Problem, UnsupportedMediaType
from opentill.http.incoming import MAX_BODY, read_body
from opentill.server.client_address import is_loopback_host

_library: Final = cast("Any", multipart)
_MAX_FIELDS: Final = 40
_PORTS: Final = {"http": 80, "https": 443}
_DRAINED: Final = 16 * 1024 * 1024
_FORM: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"
_ACCEPTED: Final = ("body", "the form must arrive whole, URL-encoded in UTF-8, without NUL")


class Foreign(Problem):
    """A form that was sent by another site's page."""

    status, code, message = 403, 40301, "Forbidden"


def check_origin(
    headers: Mapping[bytes, bytes], public_url: str, *, cookies_count: bool = False
) -> None:
    """Raise Foreign if a browser says that another site's page has sent the form.

    An origin is ours with its scheme: that of the public address, for its host and for the one that
    the browser has asked for; on loopback also http.

    Browsers that say nothing, and programs, may send a form that acts on nothing but its address,
    which is the secret. They are refused where a cookie says who sends it (``cookies_count``).
    """
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        if site not in {b"same-origin", b"none"}:
            raise Foreign
        return
    origin = headers.get(b"origin")
    if origin is None and not cookies_count:
        return
    sender = _origin_of((origin or b"").decode("latin-1"))
    host = headers.get(b"host", b"").decode("latin-1")
    ours = {_origin_of(public_url), _origin_of(f"{urlsplit(public_url).scheme}://{host}")}
    plain = _origin_of(f"http://{host}")
    if plain is not None and is_loopback_host(plain.host):
        ours.add(plain)
    if sender is None or sender not in ours:
        raise Foreign


class _Origin(NamedTuple):
    """An origin (RFC 6454): its port is never left out."""

    scheme: str
    host: str
    port: int


def _origin_of(url: str) -> _Origin | None:
    """Return the origin of an address, None for what is none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # such as "http://[::1"
        return None
    if parts.scheme not in _PORTS or not parts.hostname:
        return None
    return _Origin(parts.scheme, parts.hostname, port or _PORTS[parts.scheme])


class Upload(msgspec.Struct, frozen=True):
    """A file of a form, as its sender calls it."""

    name: str
    content: bytes


KEPT: Final = "kept_file."  # begins the name of a field that holds a file, see ``kept``


def kept(files: Mapping[str, Upload], most: int) -> dict[str, str]:
    """Write files as the fields of a page that asks for something before their form is taken.

    A page cannot put a file back where it was chosen. Those beyond ``most`` characters in all are
    left out.
    """
    fields = dict[str, str]()
    for name, file in files.items():
        text = f"{quote(file.name, safe='')}:{b64encode(file.content).decode()}"
        if len(text) <= most:
            fields[KEPT + name] = text
            most -= len(text)
    return fields


def take_kept(form: "Form") -> None:
    """Make files of the fields that hold some. Raises Invalid."""
    for name in [one for one in form.fields if one.startswith(KEPT)]:
        called, _, content = form.fields.pop(name).partition(":")
        try:
            upload = Upload(unquote(called), b64decode(content, validate=True))
        except ValueError:
            raise Invalid(*_ACCEPTED) from None
        form.files.setdefault(name.removeprefix(KEPT), upload)


class Form(NamedTuple):
    """What a form has brought: its fields, and the files that were chosen in it."""

    fields: dict[str, str]
    files: dict[str, Upload]


async def read(headers: Mapping[bytes, bytes], receive: Receive) -> dict[str, str]:
    """Read a form of at most 64 KiB; of a field that comes twice the first counts.

    Raises PayloadTooLarge, UnsupportedMediaType, and Invalid for what is no form in UTF-8 or has a
    NUL, which PostgreSQL does not store.
    """
    return (await read_with_files(headers, receive, 0)).fields


async def read_with_files(
    headers: Mapping[bytes, bytes], receive: Receive, most_of_files: int
) -> Form:
    """Read a form that may bring so many bytes of files along, as ``read`` does.

    Without any it must be URL-encoded. A field of a file that was not chosen is left out.
    """
    header = headers.get(b"content-type", b"").decode("latin-1")
    media_type, options = _library.parse_options_header(header)
    if media_type == _FORM:
        return _storable(Form(_decoded(await read_body(headers, receive)), {}))
    if media_type != _MULTIPART or not most_of_files:
        raise UnsupportedMediaType
    try:
        body = await read_body(headers, receive, MAX_BODY + most_of_files)
    except PayloadTooLarge:
        await _take_rest(receive)
        raise
    return _storable(_parts(body, options.get("boundary", "")))


async def _take_rest(receive: Receive) -> None:
    """Take what still comes of a body that is too large, as far as that is not abuse.

    A browser that gets a response while it still sends shows an error of its own and not our page.
    """
    size = 0
    while size < _DRAINED:
        message = await receive()
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or not message["more_body"]:
            return


def _storable(form: Form) -> Form:
    if any("\0" in text for field in form.fields.items() for text in field):
        raise Invalid(*_ACCEPTED)
    return form


def _decoded(body: bytes) -> dict[str, str]:
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


def _parts(body: bytes, boundary: str) -> Form:
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
    except (ValueError, LookupError):  # the library's own errors are ValueErrors
        raise Invalid(*_ACCEPTED) from None
    return form
