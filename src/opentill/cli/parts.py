"""Files that have their name only when they are whole: until then each is a part beside it."""

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

_BEGIN: Final = ".opentill-"
_END: Final = ".part"


@contextmanager
def part(file: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Open a new file beside another, under a name of its own, that only its owner may read.

    It is gone after the block, unless it was given another name. Parts of processes that were
    killed are removed. Raises OSError.
    """
    for old in file.parent.glob(f"{_BEGIN}*{_END}"):
        _remove_if_left(old)
    path, target = _locked(file.parent)
    try:
        with closing(target):
            yield path, target
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def closing(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Close a file after the block; what the block raises is not replaced. Raises OSError."""
    try:
        yield file
    except BaseException:
        with suppress(OSError):  # the same full disk, for what is not written yet
            file.close()
        raise
    file.close()


def _locked(folder: Path) -> tuple[Path, IO[bytes]]:
    """Make a part, locked for as long as it is open by this process or one that it started."""
    while True:
        descriptor, name = tempfile.mkstemp(_END, _BEGIN, folder)
        target = os.fdopen(descriptor, "wb")
        if not _lock(descriptor, wait=True) or os.fstat(descriptor).st_nlink:
            return Path(name), target
        target.close()  # another process took it for one that was left


def _remove_if_left(path: Path) -> None:
    """Remove a part of ours that no process has locked; leave one that cannot be opened."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        status = os.fstat(descriptor)
        ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        if ours and _lock(descriptor, wait=False):
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool) -> bool:
    """Lock a file; return False if another process has it, or the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True
