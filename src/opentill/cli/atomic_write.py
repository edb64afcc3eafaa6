"""Atomic writes: a temporary file next to the target, which is renamed when complete."""

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
def open_part(file: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Create a private temporary file next to a target.

    The file is removed after the block unless the block has renamed it. Temporary files that killed
    processes left in the directory are removed too. Raises OSError.
    """
    for old in file.parent.glob(f"{_BEGIN}*{_END}"):
        _remove_if_left(old)
    path, target = _create_locked_file(file.parent)
    try:
        with closing(target):
            yield path, target
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def closing(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Close a file after the block without replacing the block's exception. Raises OSError."""
    try:
        yield file
    except BaseException:
        with suppress(OSError):  # closing also flushes, which fails again on a full disk
            file.close()
        raise
    file.close()


def _create_locked_file(folder: Path) -> tuple[Path, IO[bytes]]:
    """Create a temporary file, locked while this process or its children have it open."""
    while True:
        descriptor, name = tempfile.mkstemp(_END, _BEGIN, folder)
        target = os.fdopen(descriptor, "wb")
        if not _lock(descriptor, wait=True) or os.fstat(descriptor).st_nlink:
            return Path(name), target
        target.close()  # another process removed the file before this one locked it


def _remove_if_left(path: Path) -> None:
    """Remove a temporary file of this user, unless it is locked or cannot be opened."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        status = os.fstat(descriptor)
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        if is_own and _lock(descriptor, wait=False):
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool) -> bool:
    """Lock a file. Returns False if another process has the lock, or the file system has none."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True
