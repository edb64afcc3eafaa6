"""Writes small PNG, JPEG and WebP files."""

import struct
import zlib


def chunk(kind: bytes, data: bytes) -> bytes:
    """Return a chunk of PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int = 64, height: int = 48, *more: bytes, color: bytes = b"\x0d\x5c\x49") -> bytes:
    """Return a PNG of one color with ``more`` chunks before its pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress((b"\0" + color * width) * height)
    parts = (chunk(b"IHDR", header), *more, chunk(b"IDAT", pixels), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def jpeg(width: int = 64, height: int = 48, frame: int = 0xC0) -> bytes:
    """Return a JPEG as our check reads it: with its size, but with no real picture data."""
    start = b"\xff\xd8\xff\xe0\x00\x10JFIF\0\1\1\0\0\1\0\1\0\0"
    size = b"\xff" + bytes([frame]) + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\1\x11\0"
    scan = b"\xff\xda\x00\x08\1\1\0\0\x3f\0" + b"\x12\x34\xff\x00\x56"
    return start + b"\xff" + size + scan + b"\xff\xd9"  # the 0xff before ``size`` is a fill byte


def _riff(kind: bytes, data: bytes) -> bytes:
    body = b"WEBP" + kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def webp(kind: bytes = b"VP8 ", width: int = 64, height: int = 48, flags: int = 0) -> bytes:
    """Return a WebP with the parts that identify it."""
    match kind:
        case b"VP8 ":
            data = b"\x10\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
        case b"VP8L":
            data = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14)
        case _:
            sides = ((side - 1).to_bytes(3, "little") for side in (width, height))
            data = bytes([flags, 0, 0, 0]) + b"".join(sides)
    return _riff(kind, data)


PICTURE = png()
