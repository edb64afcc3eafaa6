"""The data directory of a deployment: its secrets and its locks.

Locks are ``flock``: the kernel releases them however a process ends, so none is ever stale.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
from pathlib import Path
from typing import IO, Final

from opentill.core.errors import ConfigurationError

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
# Names of OpenTill's files begin so; the modes of other files are not changed.
_OURS: Final = ("postgres", "sandbox.", "secret.key", "serve.lock", "demo.json", "metrics")
_OF_FILE_SYSTEMS: Final = {"lost+found"}
_READ_OR_WRITTEN: Final = stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH


class DataDirError(ConfigurationError):
    """The data directory cannot be used; the text, one line, says what to do."""


def prepare(data_dir: Path) -> Path:
    """Make the directory if there is none and return its absolute path.

    Other users lose their rights on it and on OpenTill's files in it (0700, 0600). Raises
    ``DataDirError`` if it cannot be made or written, or is another user's and open to everybody.
    """
    path = data_dir.expanduser().absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        message = f"{path} is not a directory; set OPENTILL_DATA_DIR to one that can be written"
        raise DataDirError(message) from None
    except OSError as error:
        raise DataDirError(_unwritable(path, error)) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise DataDirError(_unwritable(path, PermissionError(13, "Permission denied")))
    path = path.resolve()
    _close(path)
    return path


def _close(data_dir: Path) -> None:
    """Take other users' rights on the data directory and on OpenTill's files in it."""
    if data_dir.stat().st_mode & stat.S_ISVTX:
        message = (
            f"{data_dir} is a directory that several users share; set OPENTILL_DATA_DIR to one for"
            " OpenTill alone"
        )
        raise DataDirError(message)
    try:
        _check_is_ours(data_dir)
        _close_one(data_dir)
        paths = list(data_dir.iterdir())
    except PermissionError as error:
        raise DataDirError(_unwritable(data_dir, error)) from None
    for path in paths:
        if path.name.startswith(_OURS):
            with contextlib.suppress(FileNotFoundError):  # a temporary one
                _close_one(path)


def _check_is_ours(data_dir: Path) -> None:
    """Refuse an open directory with files of others only: other users may need it."""
    if not data_dir.stat().st_mode & _READ_OR_WRITTEN:
        return
    names = {path.name for path in data_dir.iterdir()} - _OF_FILE_SYSTEMS
    if names and not any(name.startswith(_OURS) for name in names):
        message = (
            f"{data_dir} is open to other users and holds other things than OpenTill's; set"
            f" OPENTILL_DATA_DIR to a directory for OpenTill alone, or chmod 700 {data_dir}"
        )
        raise DataDirError(message)


def _close_one(path: Path) -> None:
    status = path.lstat()
    mode = stat.S_IMODE(status.st_mode)
    open_to = mode & (_OTHERS if stat.S_ISDIR(status.st_mode) else _OTHERS | stat.S_IXUSR)
    if stat.S_ISLNK(status.st_mode) or not open_to:
        return
    if os.geteuid() in {0, status.st_uid}:
        # Root's PostgreSQL, which runs as another user, has the right to search the directory
        # (server/embedded/sysuser.py), which shows as a right of the group or of others.
        let_through = os.geteuid() == 0 and not mode & _READ_OR_WRITTEN
        if not (let_through and stat.S_ISDIR(status.st_mode)):
            path.chmod(mode & ~open_to)
    elif open_to & stat.S_IRWXO:
        message = (
            f"{path} is open to every user (mode {mode:04o}) and belongs to another one, who must"
            f" close it: chmod o-rwx {path}; or set OPENTILL_DATA_DIR to a directory of your own"
        )
        raise DataDirError(message)


def _unwritable(path: Path, error: OSError) -> str:
    return (
        f"{path} cannot be written ({error.strerror}); set OPENTILL_DATA_DIR to a directory of your"
        " own, or run as the user who owns this one"
    )


def key(data_dir: Path, name: str, *, lost: str = "") -> str:
    """Return the secret in the file ``name``, made on first use: 64 hexadecimal digits, mode 0600.

    Processes that call this at once get the same one. With ``lost``, which says what cannot be done
    without the secret, none is made beside an existing database. Raises ``DataDirError``.
    """
    path = prepare(data_dir) / name
    # In this order: another process that begins the deployment makes the key before the database.
    if lost and _has_database(data_dir) and not path.exists():
        message = f"{path} is missing, and there is a database beside it: {lost}"
        raise DataDirError(message)
    fresh = path.with_name(f"{name}.{secrets.token_hex(8)}")
    try:
        if not path.exists():
            _write_private(fresh, secrets.token_hex(32) + "\n")
            try:
                os.link(fresh, path)  # atomic; fails if another process was faster
            except FileExistsError:
                pass
            finally:
                fresh.unlink()
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path} cannot be read or made: {error}"
        raise DataDirError(message) from None
    if len(text) < 32:  # noqa: PLR2004 - 32 characters is also what OPENTILL_SECRET_KEY needs
        message = f"{path} does not hold a key; restore it from a backup, stored secrets need it"
        raise DataDirError(message)
    return text


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    _write_private(fresh, text)
    fresh.replace(path)


def _write_private(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


class Lock:
    """A file lock, held by this process until ``release`` or its end."""

    def __init__(self, path: Path) -> None:
        """Open or make the file ``path``; nothing is locked yet."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DataDirError(_unwritable(path, error)) from None
        self._file: IO[str] = os.fdopen(descriptor, "r+")

    def take(self, *, shared: bool = False, wait: bool = True) -> bool:
        """Lock, exclusively or shared; return False if it is held and ``wait`` is off."""
        flags = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        try:
            fcntl.flock(self._file, flags)
        except BlockingIOError:
            return False
        return True

    def note(self, text: str) -> None:
        """Write who holds the lock, for others to read."""
        self._file.seek(0)
        self._file.truncate()
        self._file.write(text)
        self._file.flush()

    def read_note(self) -> str:
        """Return what the holder wrote."""
        self._file.seek(0)
        return self._file.read().strip()

    def release(self) -> None:
        """Unlock. Safe to repeat."""
        self._file.close()


class Served(DataDirError):
    """A server uses the data directory; ``url`` is its public address, "" if that is unknown."""

    def __init__(self, message: str, url: str) -> None:
        """``message`` says where it runs and what to do."""
        super().__init__(message)
        self.url: Final = url


def lock_serve(data_dir: Path, url: str = "") -> Lock:
    """Lock the data directory for one ``opentill serve`` at ``url``. Raises ``Served``."""
    path = prepare(data_dir)
    lock = Lock(path / "serve.lock")
    if not lock.take(wait=False):
        process, _, other = lock.read_note().partition(" ")
        lock.release()
        message = (
            f"another `opentill serve` (process {process or 'unknown'}) uses {path}"
            f"{' and serves ' if other else ''}{other};"
            " stop it, or set OPENTILL_DATA_DIR and OPENTILL_PORT for a second one"
        )
        raise Served(message, other)
    lock.note(f"{os.getpid()} {url}".strip())
    return lock


_RESTORING: Final = "postgres.restoring"


class Restoring:
    """The directory in which a database is restored, and renamed when it is complete.

    It is a data directory inside the deployment's. A restore that fails removes it; one that is
    killed leaves it, so that no empty database is made where a backup was meant to be, and the next
    restore begins anew.
    """

    def __init__(self, data_dir: Path) -> None:
        """Make the directory. Raises DataDirError where there is a database or another restore.

        It is made, renamed and removed by whoever has ``postgres.start.lock``.
        """
        self._data_dir = prepare(data_dir)
        self.path: Final = self._data_dir / _RESTORING
        gate = Lock(self._data_dir / "postgres.start.lock")
        try:
            gate.take()
            self._check_no_database()
            _make_directory(self.path)
            self._lock = Lock(self.path / "restore.lock")
            if not self._lock.take(wait=False):
                self._lock.release()
                message = f"another `opentill restore` is at work in {self._data_dir}"
                raise DataDirError(message)
            sync_directory(self._data_dir)
        finally:
            gate.release()

    def finish(self) -> None:
        """Give the data directory its database, which is complete and does not run."""
        gate = Lock(self._data_dir / "postgres.start.lock")
        try:
            gate.take()
            self._check_no_database()
            target = _database(self._data_dir)
            if target.exists():
                target.rmdir()  # an empty one
            _database(self.path).rename(target)
            sync_directory(self._data_dir)
        finally:
            gate.release()

    def release(self) -> None:
        """Remove the directory and what is left in it; no server runs there any more."""
        gate = Lock(self._data_dir / "postgres.start.lock")
        try:
            gate.take()
            shutil.rmtree(self.path)
            self._lock.release()
            sync_directory(self._data_dir)
        finally:
            gate.release()

    def _check_no_database(self) -> None:
        if _has_database(self._data_dir):
            message = (
                f"{self._data_dir} has a database; set OPENTILL_DATA_DIR to a directory without one"
            )
            raise DataDirError(message)


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise DataDirError(_unwritable(path, error)) from None


def check_restored(data_dir: Path) -> None:
    """Raise ``DataDirError`` if a restore is at work or was killed."""
    if (data_dir / _RESTORING).exists():
        message = (
            f"`opentill restore` has not finished in {data_dir}: wait for it, or, if it was killed,"
            f" run it again or remove {_RESTORING} there"
        )
        raise DataDirError(message)


def sync_directory(path: Path) -> None:
    """Have names that were made, changed or removed in a directory outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class NoDatabase(DataDirError):
    """There is no database; the text says where it was looked for, and what to set."""


def check_exists(data_dir: Path) -> None:
    """Raise ``NoDatabase`` if there is none in ``data_dir``; nothing is written.

    Raises ``DataDirError`` if one is being restored there.
    """
    check_restored(data_dir.expanduser())
    if _has_database(data_dir):
        return  # its start says what is wrong with it
    message = (
        f"there is no OpenTill database in {_database(data_dir)}: set OPENTILL_DATA_DIR to the data"
        " directory of the deployment that is meant, or OPENTILL_DATABASE_URL to its database, or"
        " run this in the directory where it is served; `opentill serve`, `demo` and `migrate` make"
        " a new one"
    )
    raise NoDatabase(message)


def _database(data_dir: Path) -> Path:
    return data_dir.expanduser().absolute() / "postgres"


def _has_database(data_dir: Path) -> bool:
    path = _database(data_dir)
    try:
        return (path / "PG_VERSION").exists() or (path.exists() and any(path.iterdir()))
    except PermissionError:  # it exists, and is another user's
        return True
    except OSError:
        return False
