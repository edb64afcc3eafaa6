"""Lines of uploaded files, with a maximum length."""

import hashlib
from collections.abc import Iterator
from typing import IO, Final

from opentill.core.errors import Invalid

LONGEST: Final = 256 * 1024  # a line has at most this many bytes
MOST_BYTES: Final = 1024 * 1024 * 1024  # an unpacked file has at most this many bytes


def sha256(file: IO[bytes]) -> str:
    """Return the digest of a whole file, in hexadecimal."""
    file.seek(0)
    digest = hashlib.sha256()
    while piece := file.read(LONGEST):
        digest.update(piece)
    return digest.hexdigest()


def bounded(file: IO[bytes], encoding: str = "utf-8") -> Iterator[str]:
    """Yield the lines of a text file, with line ends. Raises Invalid, which names the line."""
    number = 0
    while line := file.readline(LONGEST):
        number += 1
        if len(line) == LONGEST:
            raise Invalid("file", f"line {number}: must have fewer than {LONGEST} bytes")
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError:
            reason = f"line {number}: must be CSV in {encoding.upper()}"
            raise Invalid("file", reason) from None
        yield text.removeprefix("\ufeff") if number == 1 else text
