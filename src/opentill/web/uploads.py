"""A file that somebody sends by a form: read as it comes, and never more of it than is taken."""

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec
import multipart  # type: ignore[import-untyped]  # it does not say that it brings types
from starlette.types import Receive

from opentill.core.errors import Invalid, PayloadTooLarge, UnsupportedMediaType
from opentill.http.incoming import MAX_BODY

_library: Final = cast("Any", multipart)
_MOST_PARTS: Final = 20
_ACCEPTED: Final = ("body", "the form must arrive whole, as multipart/form-data in UTF-8")


class Upload(msgspec.Struct, frozen=True):
    """A file; ``name`` is as the sender has it, and may say anything."""

    name: str
    content: bytes


async def read(
    headers: Mapping[bytes, bytes], receive: Receive, field: str, longest: int
) -> Upload | None:
    """Return the file in a field of a multipart form (RFC 7578), None if there is none.

    Of several files in the field, the first counts. Raises PayloadTooLarge for a file of more than
    ``longest`` bytes as soon as that is known, also for more than 64 KiB beside it;
    UnsupportedMediaType, and Invalid for what is no such form.
    """
    header = headers.get(b"content-type", b"").decode("latin-1")
    media_type, options = _library.parse_options_header(header)
    if media_type != "multipart/form-data":
        raise UnsupportedMediaType
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > longest + MAX_BODY:
        raise PayloadTooLarge
    taken = _Taken(field, longest)
    try:
        parser = _library.PushMultipartParser(
            options.get("boundary", ""), max_segment_count=_MOST_PARTS
        )
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Invalid(*_ACCEPTED)
            body, more = message["body"], message["more_body"]
            size += len(body)
            if size > longest + MAX_BODY:
                raise PayloadTooLarge
            for event in parser.parse(body) if body else ():
                taken.take(event)
        parser.close()
    except ValueError:  # what the library raises
        raise Invalid(*_ACCEPTED) from None
    return taken.upload


class _Taken:
    """What is kept of a form: the first file of one field."""

    def __init__(self, field: str, longest: int) -> None:
        self._field = field
        self._longest = longest
        self._name: str | None = None
        self._content = bytearray()
        self._inside = False

    def take(self, event: Any) -> None:
        """Take what the parser found: the head of a part, some of its body, or its end (None)."""
        if event is None:
            self._inside = False
        elif isinstance(event, (bytes, bytearray)):
            if self._inside:
                self._content += event
                if len(self._content) > self._longest:
                    raise PayloadTooLarge
        elif event.name == self._field and event.filename is not None and self._name is None:
            self._name = str(event.filename)
            self._inside = True

    @property
    def upload(self) -> Upload | None:
        """The file; a field in which none was chosen has neither name nor content."""
        if self._name is None or not (self._name or self._content):
            return None
        return Upload(self._name, bytes(self._content))
