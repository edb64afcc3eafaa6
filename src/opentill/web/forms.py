"""Forms that people send: refused from foreign sites, and read."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from starlette.types import Receive

from opentill.core.errors import Invalid, Problem, UnsupportedMediaType
from opentill.http.incoming import read_body

_MAX_FIELDS: Final = 20
_ACCEPTED: Final = ("body", "the form must arrive whole, URL-encoded in UTF-8")


class Foreign(Problem):
    """A form that was sent by another site's page."""

    status, code, message = 403, 40301, "Forbidden"


def check_origin(
    headers: Mapping[bytes, bytes], public_url: str, *, cookies_count: bool = False
) -> None:
    """Raise Foreign if a browser says that another site's page has sent the form.

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
    try:
        sender = urlsplit((origin or b"").decode("latin-1")).netloc.lower()
    except ValueError:  # such as "http://[::1"
        raise Foreign from None
    host = headers.get(b"host", b"")
    ours = {urlsplit(public_url).netloc.lower(), host.decode("latin-1").lower()}
    if not sender or sender not in ours:
        raise Foreign


async def read(headers: Mapping[bytes, bytes], receive: Receive) -> dict[str, str]:
    """Read a form of at most 64 KiB; of a field that comes twice the first counts.

    Raises PayloadTooLarge, UnsupportedMediaType, and Invalid for what is no form in UTF-8.
    """
    media_type = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if media_type != b"application/x-www-form-urlencoded":
        raise UnsupportedMediaType
    body = await read_body(headers, receive)
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
