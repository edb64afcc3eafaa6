"""External XML: its detection, and the errors of its parser.

expat supports UTF-8, UTF-16, ISO-8859-1 and ASCII, and single-byte encodings through Python. For
any other encoding the parser raises Python's errors instead of its own.
"""

import codecs
from typing import Final
from xml.parsers import expat

ERRORS: Final = (expat.ExpatError, LookupError, ValueError)
_UTF16: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_BEGINNINGS: Final = (b"<", b"<\0", b"\0<")


def is_xml(start: bytes) -> bool:
    """Whether the first bytes of a file show that it is XML, in any encoding."""
    if start[:2] in _UTF16:
        text = start[2 : len(start) // 2 * 2].decode(_UTF16[start[:2]], "replace")
        return text.lstrip().startswith("<")
    return start.removeprefix(codecs.BOM_UTF8).lstrip().startswith(_BEGINNINGS)


def explain(error: Exception) -> str:
    """Describe what a refused file must be, and why it was refused."""
    if isinstance(error, expat.ExpatError):
        return f"well-formed XML: {error}"
    return f"XML in UTF-8, UTF-16 or ISO-8859-1: {error}"
