"""The files under /static: style sheets, scripts, icons and the font, loaded at the start.

A URL contains a digest of the content, so that browsers can cache the file for a year and get a new
version immediately.
"""

import gzip
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill.core.errors import NotFound
from opentill.web.responses import GUARDS, takes_gzip

_FOR_A_YEAR: Final = "public, max-age=31536000, immutable"
_FOLDER: Final = Path(__file__).parent / "static"
_MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_COMPRESSED: Final = (".woff2",)  # kinds of files that gzip makes no smaller
_REFERENCE: Final = re.compile(r'url\("([a-z0-9_/-]+\.(?:svg|woff2))"\)')
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_LINE_COMMENT: Final = re.compile(rb"^ *//.*\n", re.MULTILINE)
_IMPORT: Final = re.compile(r'@import "([a-z_]+\.css)";')


class Asset(msgspec.Struct, frozen=True):
    """A file: its content, the content compressed by gzip, and a digest of it as version."""

    body: bytes
    compressed: bytes | None  # None if gzip makes it no smaller
    media_type: str
    version: str


def address(name: str) -> str:
    """Return the path of a file with its version. Raises KeyError for an unknown file."""
    return f"/static/{name}?v={ASSETS[name].version}"


def finder(base: str) -> Callable[[str], str]:
    """Return ``address`` for a service whose public URL has the path ``base``."""
    return lambda name: base + address(name)


def _asset(path: Path, body: bytes) -> Asset:
    small = None if path.suffix in _COMPRESSED else gzip.compress(body, mtime=0)
    return Asset(body, small, _MEDIA_TYPES[path.suffix], sha256(body).hexdigest()[:16])


def _load() -> dict[str, Asset]:
    """Read the folder, icons and font first, because style sheets refer to their versions."""
    parts = {
        path.relative_to(_FOLDER).as_posix(): _asset(path, path.read_bytes())
        for pattern in ("*.svg", "*.woff2")
        for path in _FOLDER.rglob(pattern)
    }

    def add_version(match: re.Match[str]) -> str:
        return f'url("{match[1]}?v={parts[match[1]].version}")'

    def combine_imports(path: Path) -> str:
        """Return a style sheet with those that it imports, which saves a request per import."""
        return _IMPORT.sub(
            lambda match: combine_imports(_FOLDER / match[1]), path.read_text("utf-8")
        )

    def is_foreign(path: Path) -> bool:
        """Whether others wrote a file: it is served unchanged."""
        return path.with_suffix(".license.txt").exists()

    def sheet(path: Path) -> bytes:
        text = _REFERENCE.sub(add_version, combine_imports(path))
        if not is_foreign(path):
            text = re.sub(r"\s+", " ", _COMMENT.sub("", text))
        return text.encode()

    sheets = {path.name: _asset(path, sheet(path)) for path in _FOLDER.glob("*.css")}

    def script(path: Path) -> bytes:
        content = path.read_bytes()
        return content if is_foreign(path) else _LINE_COMMENT.sub(b"", content)

    scripts = {path.name: _asset(path, script(path)) for path in _FOLDER.glob("*.js")}
    return parts | sheets | scripts


ASSETS: Final = _load()


async def serve(request: Request) -> Response:
    """Serve a file, cacheable for a year if the URL contains the current version."""
    asset = ASSETS.get(request.path_params["name"])
    if asset is None:
        raise NotFound
    is_current = request.scope["query_string"] == b"v=" + asset.version.encode()
    headers = {
        **GUARDS,
        "cache-control": _FOR_A_YEAR if is_current else "no-cache",
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
        "content-type": asset.media_type,
        "vary": "accept-encoding",
    }
    if asset.compressed is not None and takes_gzip(request):
        return Response(asset.compressed, 200, {**headers, "content-encoding": "gzip"})
    return Response(asset.body, 200, headers)


routes: Final = (Route("/static/{name:path}", serve),)
