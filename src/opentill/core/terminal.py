"""Makes text that others wrote harmless on a terminal.

Control characters move the cursor and more; text direction and other invisible characters
(Unicode's Cf) make a line look different. Each is written as its JSON escape, so that JSON keeps
its meaning.
"""

import codecs
import json
import re
from typing import BinaryIO, Final

_PERHAPS: Final = re.compile(r"[^\n\x20-\x7e]")
_ENDS: Final = re.compile(r"\r(?!\n)|[^\n\r\x20-\x7e]")


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    return char if char.isprintable() else json.dumps(char)[1:-1]


def inert(text: str) -> str:
    """Return the text with all that is not printable, but for line ends, as its JSON escape."""
    return _PERHAPS.sub(_escape, text)


class Terminal:
    """A terminal that bytes of a file are written to, UTF-8 with line ends of either kind."""

    def __init__(self, target: BinaryIO) -> None:
        """Write to ``target``."""
        self._target = target
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""  # a carriage return, whose line feed may come with the next bytes

    def write(self, data: bytes) -> int:
        """Write bytes; a character may be spread over several calls."""
        text = self._held + self._decoder.decode(data)
        self._held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix(self._held) if self._held else text
        self._target.write(_ENDS.sub(_escape, text).encode())
        return len(data)

    def flush(self) -> None:
        """Show what was written."""
        self._target.flush()
