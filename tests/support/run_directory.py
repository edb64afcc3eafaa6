"""The directory in memory that holds all temporary files of one run of the tests."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

# A run creates and removes tens of thousands of files. On most file systems that takes longer than
# the tests, so the files are in memory if there is enough.
MEMORY: Final = Path("/dev/shm")  # noqa: S108 - the directories in it have random names
MEMORY_BYTES: Final = 4 << 30  # a whole run needs less
_PREFIX: Final = "opentill-run-"
_LOCK: Final = "lock"


def has_room(folder: Path) -> bool:
    """Whether a run can write its files to a folder, and execute programs there."""
    if not os.access(folder, os.W_OK):
        return False
    status = os.statvfs(folder)
    is_large = status.f_bavail * status.f_frsize >= MEMORY_BYTES
    return is_large and not status.f_flag & os.ST_NOEXEC


@contextmanager
def run_directory(parent: Path) -> Iterator[Path]:
    """Create a directory for this run; the caller removes it, or leaves it for a look at its files.

    Of the directories of runs that have ended, however they ended, all but the newest are removed.
    """
    remove_ended_runs(parent)
    path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    path.chmod(0o711)  # the user of PostgreSQL must reach its own directories below
    with (path / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path


def remove_ended_runs(parent: Path) -> None:
    """Remove the directories of all runs that have ended, except the newest one's."""
    with_times = []
    for directory in parent.glob(f"{_PREFIX}*"):
        with suppress(FileNotFoundError):  # another run has just removed it
            with_times.append((directory.stat().st_mtime, directory))
    ended = [directory for _, directory in sorted(with_times) if _has_ended(directory)]
    for directory in ended[:-1]:
        shutil.rmtree(directory, ignore_errors=True)


def _has_ended(directory: Path) -> bool:
    """Whether no process holds the run's lock; False for a run that is just being created."""
    try:
        lock: IO[str] = (directory / _LOCK).open()
    except OSError:  # not created yet, or of another user
        return False
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
