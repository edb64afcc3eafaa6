"""Logos: pictures whose type is detected from their content.

PNG (ISO/IEC 15948), JPEG (ITU-T T.81) and WebP (RFC 9649). SVG is refused, because it may contain
scripts and load other resources.
"""

import struct
import zlib
from typing import Final, Literal

import msgspec

from opentill.core.errors import Invalid

MAX_BYTES: Final = 256 * 1024
LEAST_SIDE: Final = 32  # pixels, like MOST_SIDE
MOST_SIDE: Final = 2048
MOST_RATIO: Final = 10  # the longer side may be at most this many times as long as the shorter one
Why = Literal["size", "kind", "broken", "moving", "dimensions"]
MediaType = Literal["image/png", "image/jpeg", "image/webp"]

_REASONS: Final[dict[Why, str]] = {
    "size": f"logo must be a file of at most {MAX_BYTES // 1024} kB",
    "kind": "logo must be a PNG, JPEG or WebP picture",
    "broken": "logo must be a whole picture: this file ends early or is damaged",
    "moving": "logo must be a picture that does not move",
    "dimensions": f"logo must have sides of {LEAST_SIDE} to {MOST_SIDE} pixels, the longer one at "
    f"most {MOST_RATIO} times the shorter",
}
_PNG: Final = b"\x89PNG\r\n\x1a\n"
# JPEG markers of frame headers, which contain the picture's size (T.81 table B.1).
_FRAME_MARKERS: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_SCAN: Final = 0xDA
_MARKERS_WITHOUT_LENGTH: Final = frozenset({0x01, *range(0xD0, 0xD9)})  # JPEG
_ANIMATED: Final = 0x02  # the flag for animations in WebP's extended header


class LogoRefused(Invalid):
    """A file that cannot be a logo; ``why`` names the rule."""

    def __init__(self, why: Why) -> None:
        """The error says what would be accepted."""
        super().__init__("logo", _REASONS[why])
        self.why: Why = why


class Picture(msgspec.Struct, frozen=True):
    """A picture's type and its size in pixels."""

    media_type: MediaType
    width: int
    height: int


def recognize(content: bytes, *, max_bytes: int = MAX_BYTES, most_side: int = MOST_SIDE) -> Picture:
    """Return type and size of a picture. Raises LogoRefused."""
    if len(content) > max_bytes:
        raise LogoRefused("size")
    try:
        if content.startswith(_PNG):
            picture = _png(content)
        elif content.startswith(b"\xff\xd8\xff"):
            picture = _jpeg(content)
        elif content[:4] == b"RIFF" and content[8:12] == b"WEBP":
            picture = _webp(content)
        else:
            raise LogoRefused("kind")
    except (IndexError, struct.error):
        raise LogoRefused("broken") from None
    short, long = sorted((picture.width, picture.height))
    if short < LEAST_SIDE or long > most_side or long > short * MOST_RATIO:
        raise LogoRefused("dimensions")
    return picture


def _png(content: bytes) -> Picture:
    """Check all chunks; the first contains the size, the last must be IEND."""
    at, size = len(_PNG), (0, 0)
    while True:
        length, kind = struct.unpack_from(">I4s", content, at)
        (checksum,) = struct.unpack_from(">I", content, at + 8 + length)
        if zlib.crc32(content[at + 4 : at + 8 + length]) != checksum:
            raise LogoRefused("broken")
        if at == len(_PNG):
            if kind != b"IHDR":
                raise LogoRefused("broken")
            size = struct.unpack_from(">II", content, at + 8)
        if kind == b"acTL":
            raise LogoRefused("moving")
        if kind == b"IEND":
            return Picture("image/png", *size)
        at += 12 + length


def _jpeg(content: bytes) -> Picture:
    """Read the segments up to the scan; the frame contains the size."""
    at, size = 2, (0, 0)
    while True:
        if content[at] != 0xFF:  # noqa: PLR2004 - the first byte of a marker
            raise LogoRefused("broken")
        marker = content[at + 1]
        if marker == 0xFF:  # noqa: PLR2004 - a fill byte
            at += 1
            continue
        if marker in _MARKERS_WITHOUT_LENGTH:
            at += 2
            continue
        (length,) = struct.unpack_from(">H", content, at + 2)
        if marker in _FRAME_MARKERS:
            height, width = struct.unpack_from(">HH", content, at + 5)
            size = (width, height)
        if marker == _SCAN:
            if size == (0, 0) or content.find(b"\xff\xd9", at + 2 + length) < 0:
                raise LogoRefused("broken")
            return Picture("image/jpeg", *size)
        at += 2 + length


def _webp(content: bytes) -> Picture:
    (riff,) = struct.unpack_from("<I", content, 4)
    kind = content[12:16]
    if riff + 8 > len(content):
        raise LogoRefused("broken")
    match kind:
        case b"VP8 ":
            if content[23:26] != b"\x9d\x01\x2a":
                raise LogoRefused("broken")
            width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", content, 26))
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", content, 21)
            if content[20] != 0x2F:  # noqa: PLR2004 - its signature
                raise LogoRefused("broken")
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            if content[20] & _ANIMATED:
                raise LogoRefused("moving")
            if len(content) < 30:  # noqa: PLR2004 - the header
                raise LogoRefused("broken")
            width, height = (
                int.from_bytes(content[place : place + 3], "little") + 1 for place in (24, 27)
            )
        case _:
            raise LogoRefused("broken")
    return Picture("image/webp", width, height)
