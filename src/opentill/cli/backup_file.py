"""The trailer of a backup file: a length and a digest that reveal a truncated file.

PostgreSQL's programs read no more of a dump than they need, and may not notice that its end is
missing. They ignore the trailer, and can restore a file that has one.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import IO, Final

from opentill.core.errors import ConfigurationError

_END: Final = "\nopentill backup: {length:020d} bytes, sha256 {digest}\n"
_FORM: Final = re.compile(rb"\nopentill backup: ([0-9]{20}) bytes, sha256 ([0-9a-f]{64})\n")
_SIZE: Final = len(_END.format(length=0, digest="0" * 64))
_PIECE: Final = 1 << 20


def finish(path: Path, file: IO[bytes]) -> None:
    """Append the trailer to a file with a dump, and make it durable (fsync)."""
    length = path.stat().st_size
    file.seek(0, os.SEEK_END)
    file.write(_END.format(length=length, digest=_digest(path, length)).encode())
    file.flush()
    os.fsync(file.fileno())


def check(path: Path) -> None:
    """Verify a file's trailer. Raises ConfigurationError."""
    length = path.stat().st_size - _SIZE
    with path.open("rb") as file:
        file.seek(max(0, length))
        match = _FORM.fullmatch(file.read())
    if match is None:
        message = (
            f"{path} is not whole: it does not end as `opentill backup` ends a file; restore"
            " another one, or, if it is a dump of pg_dump's own, say --unchecked"
        )
        raise ConfigurationError(message)
    if (int(match[1]), match[2].decode()) != (length, _digest(path, length)):
        message = f"{path} is damaged: it has another length or digest than it was written with"
        raise ConfigurationError(message)


def _digest(path: Path, length: int) -> str:
    digest, remaining = hashlib.sha256(), length
    with path.open("rb") as file:
        while remaining > 0 and (piece := file.read(min(remaining, _PIECE))):
            digest.update(piece)
            remaining -= len(piece)
    return digest.hexdigest()
