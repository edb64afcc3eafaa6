"""The files under /static: style sheets and icons, read once, named by what is in them.

An address carries a digest of the content, so that browsers may keep a file for a year and still
get a new one at once when it changes.
"""

import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

_FOLDER: Final = Path(__file__).parent / "static"
_MEDIA_TYPES: Final = {".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
_REFERENCE: Final = re.compile(r'url\("([a-z_]+\.svg)"\)')


class Asset(msgspec.Struct, frozen=True):
    """One file as it is sent; ``version`` is a digest of ``body``."""

    body: bytes
    media_type: str
    version: str


def address(name: str) -> str:
    """Return the path of a file with its version. Raises KeyError if there is no such file."""
    return f"/static/{name}?v={ASSETS[name].version}"


def finder(base: str) -> Callable[[str], str]:
    """Return ``address`` for a service whose public address has the path ``base``."""
    return lambda name: base + address(name)


def _asset(path: Path, body: bytes) -> Asset:
    return Asset(body, _MEDIA_TYPES[path.suffix], sha256(body).hexdigest()[:16])


def _load() -> dict[str, Asset]:
    """Read the folder; icons first, because style sheets name them with their versions."""
    icons = {path.name: _asset(path, path.read_bytes()) for path in _FOLDER.glob("*.svg")}

    def versioned(found: re.Match[str]) -> str:
        return f'url("{found[1]}?v={icons[found[1]].version}")'

    sheets = {
        path.name: _asset(path, _REFERENCE.sub(versioned, path.read_text("utf-8")).encode())
        for path in _FOLDER.glob("*.css")
    }
    return icons | sheets


ASSETS: Final = _load()
