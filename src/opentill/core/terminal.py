"""Escapes untrusted text for output on a terminal.

Control characters can move the cursor; text direction marks and other invisible characters
(Unicode's Cf) can disguise a line. Each is replaced by its JSON escape, which keeps JSON valid.
"""

import codecs
import json
import re
from typing import BinaryIO, Final

_NOT_PLAIN_ASCII: Final = re.compile(r"[^\n\x20-\x7e]")
_ENDS: Final = re.compile(r"\r(?!\n)|[^\n\r\x20-\x7e]")


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    return char if char.isprintable() else json.dumps(char)[1:-1]


def escape(text: str) -> str:
    """Replace all unprintable characters except line feeds by their JSON escapes."""
    return _NOT_PLAIN_ASCII.sub(_escape, text)


class Terminal:
    """Writes UTF-8 bytes to a terminal; their lines may end with LF or CRLF."""

    def __init__(self, target: BinaryIO) -> None:
        """Write the escaped text to ``target``."""
        self._target = target
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""  # a carriage return whose line feed may be in the next chunk

    def write(self, data: bytes) -> int:
        """Write a chunk; a character may be split between chunks."""
        text = self._held + self._decoder.decode(data)
        self._held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix(self._held) if self._held else text
        self._target.write(_ENDS.sub(_escape, text).encode())
        return len(data)

    def flush(self) -> None:
        """Flush the target."""
        self._target.flush()
