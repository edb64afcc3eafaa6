"""Reading the content of PDFs that fpdf2 has written."""

import re
import zlib


def streams_of(content: bytes) -> list[bytes]:
    """Return the streams of a PDF, decompressed."""
    streams = re.findall(rb"stream\n(.*?)\nendstream", content, re.DOTALL)
    return [zlib.decompress(each) if each.startswith(b"x") else each for each in streams]
