"""The data directory of a deployment: its secrets and locks.

Locks use ``flock``, which the kernel releases however a process ends, so that none becomes stale.
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

_OTHER_USERS: Final = stat.S_IRWXG | stat.S_IRWXO
# Prefixes of the names of OpenTill's files; the modes of other files are not changed.
_OWN_PREFIXES: Final = ("postgres", "sandbox.", "secret.key", "serve.lock", "demo.json", "metrics")
_FILE_SYSTEM_ENTRIES: Final = {"lost+found"}
_READ_OR_WRITTEN: Final = stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH


class DataDirError(ConfigurationError):
    """The data directory cannot be used. The text is one line that says what to do."""


def prepare(data_dir: Path) -> Path:
    """Create the directory if it does not exist, and return its absolute path.

    Permissions of other users on it and on OpenTill's files in it are removed (0700, 0600). Raises
    ``DataDirError`` if it cannot be created or written, or if it belongs to another user and is
    open to everybody.
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
    _restrict(path)
    return path


def _restrict(data_dir: Path) -> None:
    """Remove permissions of other users on the data directory and OpenTill's files in it."""
    if data_dir.stat().st_mode & stat.S_ISVTX:
        message = (
            f"{data_dir} is a directory that several users share; set OPENTILL_DATA_DIR to one for"
            " OpenTill alone"
        )
        raise DataDirError(message)
    try:
        _check_is_ours(data_dir)
        _restrict_path(data_dir)
        paths = list(data_dir.iterdir())
    except PermissionError as error:
        raise DataDirError(_unwritable(data_dir, error)) from None
    for path in paths:
        if path.name.startswith(_OWN_PREFIXES):
            with contextlib.suppress(FileNotFoundError):  # a temporary file was removed meanwhile
                _restrict_path(path)


def _check_is_ours(data_dir: Path) -> None:
    """Raise ``DataDirError`` for a directory open to other users that has only others' files."""
    if not data_dir.stat().st_mode & _READ_OR_WRITTEN:
        return
    names = {path.name for path in data_dir.iterdir()} - _FILE_SYSTEM_ENTRIES
    if names and not any(name.startswith(_OWN_PREFIXES) for name in names):
        message = (
            f"{data_dir} is open to other users and holds other things than OpenTill's; set"
            f" OPENTILL_DATA_DIR to a directory for OpenTill alone, or chmod 700 {data_dir}"
        )
        raise DataDirError(message)


def _restrict_path(path: Path) -> None:
    status = path.lstat()
    mode = stat.S_IMODE(status.st_mode)
    open_to = mode & (_OTHER_USERS if stat.S_ISDIR(status.st_mode) else _OTHER_USERS | stat.S_IXUSR)
    if stat.S_ISLNK(status.st_mode) or not open_to:
        return
    if os.geteuid() in {0, status.st_uid}:
        # If the deployment runs as root, the permission to search a directory stays, because
        # PostgreSQL's own user needs it (server/embedded/sysuser.py).
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


def read_or_create_key(data_dir: Path, name: str, *, lost: str = "") -> str:
    """Return the secret in the file ``name``, creating it on first use (64 hex digits, mode 0600).

    Concurrent processes get the same secret. With ``lost``, which says what is impossible without
    the secret, none is created next to an existing database. Raises ``DataDirError``.
    """
    path = prepare(data_dir) / name
    # Look for the database first, and then for the key. A concurrent first start creates the key
    # first, so that a database without a key means that the key is lost.
    if lost and _has_database(data_dir) and not path.exists():
        message = f"{path} is missing, and there is a database beside it: {lost}"
        raise DataDirError(message)
    fresh = path.with_name(f"{name}.{secrets.token_hex(8)}")
    try:
        if not path.exists():
            _write_private(fresh, secrets.token_hex(32) + "\n")
            try:
                os.link(fresh, path)  # fails if another process has created the key meanwhile
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
    """Write a file with mode 0600 atomically."""
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
        """Open or create the file ``path`` without locking it."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DataDirError(_unwritable(path, error)) from None
        self._file: IO[str] = os.fdopen(descriptor, "r+")

    def take(self, *, shared: bool = False, wait: bool = True) -> bool:
        """Lock, exclusively or shared. Returns False if it is held and ``wait`` is off."""
        flags = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        try:
            fcntl.flock(self._file, flags)
        except BlockingIOError:
            return False
        return True

    def write_holder(self, text: str) -> None:
        """Write a description of the holder into the file."""
        self._file.seek(0)
        self._file.truncate()
        self._file.write(text)
        self._file.flush()

    def read_holder(self) -> str:
        """Return the holder's description."""
        self._file.seek(0)
        return self._file.read().strip()

    def release(self) -> None:
        """Unlock. Idempotent."""
        self._file.close()


class ServerRunning(DataDirError):
    """A server uses the data directory; ``url`` is its public URL, "" if unknown."""

    def __init__(self, message: str, url: str) -> None:
        """``message`` says where the server runs and what to do."""
        super().__init__(message)
        self.url: Final = url


def lock_serve(data_dir: Path, url: str = "") -> Lock:
    """Lock the data directory for one ``opentill serve`` at ``url``. Raises ``ServerRunning``."""
    path = prepare(data_dir)
    lock = Lock(path / "serve.lock")
    if not lock.take(wait=False):
        process, _, other = lock.read_holder().partition(" ")
        lock.release()
        message = (
            f"another `opentill serve` (process {process or 'unknown'}) uses {path}"
            f"{' and serves ' if other else ''}{other};"
            " stop it, or set OPENTILL_DATA_DIR and OPENTILL_PORT for a second one"
        )
        raise ServerRunning(message, other)
    lock.write_holder(f"{os.getpid()} {url}".strip())
    return lock


_RESTORING: Final = "postgres.restoring"


class RestoreDirectory:
    """The directory in which a database is restored, and which is renamed when complete.

    It is a data directory inside the deployment's. A failed restore removes it. A killed restore
    leaves it, so that no empty database is created in place of the backup; the next restore starts
    from the beginning.
    """

    def __init__(self, data_dir: Path) -> None:
        """Create the directory. Raises DataDirError if there is a database or another restore.

        Creating, renaming and removing it requires ``postgres.start.lock``.
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
        """Move the complete database, which must not be running, into the data directory."""
        gate = Lock(self._data_dir / "postgres.start.lock")
        try:
            gate.take()
            self._check_no_database()
            target = _database(self._data_dir)
            if target.exists():
                target.rmdir()  # the directory is empty, because there is no database
            _database(self.path).rename(target)
            sync_directory(self._data_dir)
        finally:
            gate.release()

    def release(self) -> None:
        """Remove the directory, in which no server may be running."""
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
    """Raise ``DataDirError`` if a restore is running or was killed."""
    if (data_dir / _RESTORING).exists():
        message = (
            f"`opentill restore` has not finished in {data_dir}: wait for it, or, if it was killed,"
            f" run it again or remove {_RESTORING} there"
        )
        raise DataDirError(message)


def sync_directory(path: Path) -> None:
    """Make created, renamed and removed names in a directory durable (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class NoDatabase(DataDirError):
    """There is no database. The text says where it was expected and what to set."""


def check_exists(data_dir: Path) -> None:
    """Raise ``NoDatabase`` if ``data_dir`` has none, without writing anything.

    Raises ``DataDirError`` if one is being restored there.
    """
    check_restored(data_dir.expanduser())
    if _has_database(data_dir):
        return  # starting the database will report any problem with it
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
    except PermissionError:  # the directory belongs to another user, so there is a database
        return True
    except OSError:
        return False
