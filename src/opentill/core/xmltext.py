"""XML of others: how it is known by its first bytes, and what its parser raises.

expat reads UTF-8, UTF-16, ISO-8859-1 and ASCII by itself, and encodings of one byte with Python's
help. For any other the parser raises no error of its own but Python's.
"""

import codecs
from typing import Final
from xml.parsers import expat

ERRORS: Final = (expat.ExpatError, LookupError, ValueError)
_UTF16: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_BEGINNINGS: Final = (b"<", b"<\0", b"\0<")


def is_xml(start: bytes) -> bool:
    """Return whether a file that begins so is XML, in any encoding that there may be."""
    if start[:2] in _UTF16:
        text = start[2 : len(start) // 2 * 2].decode(_UTF16[start[:2]], "replace")
        return text.lstrip().startswith("<")
    return start.removeprefix(codecs.BOM_UTF8).lstrip().startswith(_BEGINNINGS)


def explain(error: Exception) -> str:
    """Say what a file must be that the parser refused, and why."""
    if isinstance(error, expat.ExpatError):
        return f"well-formed XML: {error}"
    return f"XML in UTF-8, UTF-16 or ISO-8859-1: {error}"
