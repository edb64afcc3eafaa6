"""Unpacks the single file of a zip archive, as banks and the ECB send them, and gzip files.

The sizes in an archive are not trusted; unpacking stops at the limit.
"""

import contextlib
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from tempfile import SpooledTemporaryFile
from typing import IO, Final, cast

from opentill.core.errors import Invalid

# beginnings of an archive with files and of an empty archive
MAGIC: Final = (b"PK\x03\x04", b"PK\x05\x06")
_GZIP: Final = b"\x1f\x8b"
_CHUNK: Final = 64 * 1024
_IN_MEMORY: Final = 8 * 1024 * 1024
_RATIO: Final = 250  # limit of the compression ratio; the XML of a bank statement has about 20
_LEAST: Final = 1024 * 1024  # every archive may unpack to this many bytes, whatever its ratio
_NAMED: Final = 5  # an error lists at most this many files
# Python raises RuntimeError for an encrypted file, and NotImplementedError, a RuntimeError too, for
# a compression method that it lacks.
_ERRORS: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError,
)  # fmt: skip
# Below this folder, macOS adds an entry for each file of an archive.
_ATTRIBUTES: Final = ("__MACOSX/",)


class Damaged(Invalid):
    """A packed file that is cut off or damaged, so that it cannot be unpacked."""

    def __init__(self, reason: str) -> None:
        """Name the field ``file``."""
        super().__init__("file", reason)


@contextlib.contextmanager
def open_unpacked(
    file: IO[bytes], most: int, is_ignored: Callable[[str], bool] = lambda _: False
) -> Iterator[IO[bytes]]:
    """Open the single file of a zip archive; any other file is returned unchanged, at its start.

    Files whose names ``is_ignored`` do not count. Raises Damaged for an archive that cannot be
    read, and Invalid on ``file`` for one that does not contain exactly one file, or unpacks to more
    than ``most`` bytes.
    """
    file.seek(0)
    is_zip = file.read(4) in MAGIC
    file.seek(0)
    if not is_zip:
        yield file
        return
    with SpooledTemporaryFile(_IN_MEMORY) as target:
        try:
            _unpack(file, target, most, is_ignored)
        except _ERRORS as error:
            raise Damaged(_reason(f"it cannot be unpacked: {error}")) from None
        target.seek(0)
        yield cast("IO[bytes]", target)


def _unpack(
    file: IO[bytes],
    target: SpooledTemporaryFile[bytes],
    most: int,
    is_ignored: Callable[[str], bool],
) -> None:
    with zipfile.ZipFile(file) as archive:
        info = _find_only_file(archive, is_ignored)
        bound = _bound(file, most)
        with archive.open(info) as packed:
            if not _copy(packed, target, bound):
                raise _refusal(f"{info.filename[:100]!r} is larger than can be read")  # noqa: EM102, TRY003 - no class takes it


@contextlib.contextmanager
def open_gunzipped(file: IO[bytes], most: int) -> Iterator[IO[bytes]]:
    """Open a file compressed with gzip; any other file is returned unchanged, at its start.

    Raises Damaged for one that cannot be read, and Invalid on ``file`` for one that unpacks to more
    than ``most`` bytes.
    """
    file.seek(0)
    is_gzip = file.read(len(_GZIP)) == _GZIP
    bound = _bound(file, most)
    file.seek(0)
    if not is_gzip:
        yield file
        return
    with SpooledTemporaryFile(_IN_MEMORY) as target:
        try:
            is_whole = _copy(cast("IO[bytes]", gzip.GzipFile(fileobj=file)), target, bound)
        except (zlib.error, EOFError, OSError) as error:
            reason = f"file cannot be unpacked: {error}"
            raise Damaged(reason) from None
        if not is_whole:
            raise Invalid("file", "file is larger than can be read when it is unpacked")
        target.seek(0)
        yield cast("IO[bytes]", target)


def _bound(file: IO[bytes], most: int) -> int:
    """Return to how many bytes a file may unpack."""
    return min(most, max(_LEAST, file.seek(0, 2) * _RATIO))


def _copy(packed: IO[bytes], target: SpooledTemporaryFile[bytes], bound: int) -> bool:
    """Copy unpacked bytes; return False as soon as there are more than ``bound``."""
    length = 0
    while chunk := packed.read(_CHUNK):
        length += len(chunk)
        if length > bound:
            return False
        target.write(chunk)
    return True


def decode_gbk_name(name: str) -> str:
    """Return the name of a file in an archive whose names may be in GBK instead of UTF-8."""
    try:
        return name.encode("cp437").decode("gb18030")
    except UnicodeError:
        return name


def _find_only_file(archive: zipfile.ZipFile, is_ignored: Callable[[str], bool]) -> zipfile.ZipInfo:
    files = [
        info
        for info in archive.infolist()
        if not info.is_dir()
        and not info.filename.startswith(_ATTRIBUTES)
        and not is_ignored(info.filename)
    ]
    if len(files) != 1:
        names = ", ".join(repr(info.filename[:100]) for info in files[:_NAMED]) or "none"
        ellipsis = ", …" if len(files) > _NAMED else ""
        raise _refusal(f"it has {names}{ellipsis}")  # noqa: EM102, TRY003 - no class takes it
    return files[0]


def _refusal(why: str) -> Invalid:
    return Invalid("file", _reason(why))


def _reason(why: str) -> str:
    return f"file, a zip archive, must hold exactly one file to be read: {why}"
