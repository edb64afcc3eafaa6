"""A cluster: the files and the server process of an embedded PostgreSQL.

A new cluster is created in a temporary directory and renamed, so that it is complete or absent. The
server listens on a socket in a private directory and never on a port. Killing all processes loses
no committed data: fsync, full page writes, synchronous commit and page checksums are on.
"""

import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from opentill.server.embedded import sysuser
from opentill.server.embedded.datadir import DataDirError
from opentill.server.embedded.programs import Programs

DATABASE: Final = "opentill"
SOCKET: Final = ".s.PGSQL.5432"
SOCKET_PATH_LIMIT: Final = 103  # bytes; the limit of macOS, Linux allows 107
RESPONSE_TIMEOUT_S: Final = 2.0
# The message SSLRequest (PostgreSQL protocol §55.7).
SSL_REQUEST: Final = (8).to_bytes(4) + (80877103).to_bytes(4)
START_TIMEOUT_S: Final = 60.0  # recovery after a crash may have to replay a long log
STOP_TIMEOUT_S: Final = 30.0
ORPHANS_TIMEOUT_S: Final = 10.0
LOG_LIMIT_BYTES: Final = 8 * 1024 * 1024
POLL_S: Final = 0.01

CONNECTIONS: Final = 100  # PostgreSQL accepts this many connections

SETTINGS: Final[Mapping[str, str]] = {
    # Listen only on the Unix socket, not on TCP.
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    "max_connections": str(CONNECTIONS),
    # A committed transaction survives a crash.
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    # Tuned for two cores, an SSD and short statements.
    "shared_buffers": "128MB",
    "random_page_cost": "1.1",
    "jit": "off",
    "io_method": "sync",
    # Update the statistics of fast-growing tables soon.
    "autovacuum_naptime": "15s",
    # Do not depend on the machine's settings.
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    # Log no statements and DETAIL lines, because they contain values such as email addresses.
    "log_min_messages": "warning",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
}


class Cluster:
    """The files and the server process of a cluster. The caller holds the locks."""

    def __init__(self, data_dir: Path, *, durable: bool = True) -> None:
        """``data_dir`` is absolute and exists."""
        self.data_dir = data_dir
        self.path = data_dir / "postgres"
        self._durable = durable
        self._ids = sysuser.user_ids(self.path)
        self._programs = Programs(self._ids)
        self._child: subprocess.Popen[bytes] | None = None
        self.socket_dir = _socket_dir(self.path)

    @property
    def url(self) -> str:
        """The connection URL for asyncpg and libpq, with the path percent-encoded."""
        # A space must be written as %20, because libpq, unlike asyncpg, does not decode "+" as one.
        host = quote(str(self.socket_dir), safe="/")
        return f"postgresql://{DATABASE}@/{DATABASE}?host={host}&port=5432"

    def ensure_running(self) -> None:
        """Start the server if it is not running. Raises ``DataDirError`` and ``OSError``."""
        self._check_files()
        if self._ids is not None:
            # If a killed process has left its server running, that server is used again. It may
            # have lost access by a chmod of the data directory, as in the recipe of a restore.
            sysuser.allow_path(self.path, self._ids[0])
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._responds():
            if self._status() == "ready":
                return
            if time.monotonic() > deadline:  # another process's server responds, but is not ready
                message = f"the embedded PostgreSQL in {self.path} does not get ready"
                raise DataDirError(message)
            time.sleep(POLL_S)
        if self._ids is not None:
            self._programs.allow_user(self._ids[0])
        if not self.path.exists() or not any(self.path.iterdir()):
            self._create()
        self._ready_socket_dir()
        self._start()

    def stop(self) -> None:
        """Stop the server by a fast shutdown: roll back transactions and write a checkpoint."""
        child = self._child
        # A child of this process is known to be the server, without reading /proc.
        pid = child.pid if child is not None and child.poll() is None else self._find_running_pid()
        if pid is None:
            return
        os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while self._runs(pid):
            if time.monotonic() > deadline:
                # Stop at once, without a checkpoint: the next start recovers from the log.
                os.kill(pid, signal.SIGQUIT)
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
            cluster_version = version.read_text(encoding="ascii").strip()
        except PermissionError:
            message = f"{self.path} belongs to another user; run as its owner, or as root"
            raise DataDirError(message) from None
        program_version = self._programs.version
        if cluster_version != str(program_version):
            message = (
                f"{self.path} was made by PostgreSQL {cluster_version}, this OpenTill brings"
                f" {program_version}; use the OpenTill that made it, or dump and restore"
            )
            raise DataDirError(message)

    def _create(self) -> None:
        """Create the cluster and its database in a temporary directory and rename it."""
        for old in self.data_dir.glob("postgres.new-*"):  # a start that was killed has left these
            shutil.rmtree(old)
        names = self.data_dir / "postgres.new-names"
        environment = sysuser.name_environment(self._ids[0] if self._ids else os.geteuid(), names)
        new_dir = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self.data_dir))
        if self._ids is not None:
            os.chown(new_dir, *self._ids)
        options = ["--auth=trust", "--encoding=UTF8", "--locale-provider=builtin"]
        options += ["--builtin-locale=C.UTF-8", "--locale=C", "--data-checksums"]
        options += ["--no-instructions", f"--username={DATABASE}", f"--pgdata={new_dir}"]
        if not self._durable:
            options.append("--no-sync")
        process = self._programs.run("initdb", *options, environment=environment)
        if process.returncode == 0:
            fsync = f"fsync={'on' if self._durable else 'off'}"
            single = ["--single", "-D", str(new_dir), "-c", fsync, "template1"]
            create = f"create database {DATABASE}\n".encode()
            process = self._programs.run("postgres", *single, stdin=create, environment=environment)
        shutil.rmtree(names, ignore_errors=True)
        if process.returncode != 0 or b"ERROR" in process.stderr:
            shutil.rmtree(new_dir, ignore_errors=True)
            message = f"the embedded database cannot be made: {last_problem(process.stderr)}"
            raise DataDirError(message)
        if self.path.exists():
            self.path.rmdir()
        new_dir.rename(self.path)

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
            settings["max_wal_size"] = "128MB"  # a small log: it is never used for recovery
        command = [str(self._programs.path("postgres")), "-D", str(self.path)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        deadline = time.monotonic() + ORPHANS_TIMEOUT_S
        while (problem := self._launch(command)) is not None:
            # Sessions of a killed server still use its shared memory, but end within moments.
            if "shared memory block" not in problem or time.monotonic() > deadline:
                message = f"the embedded PostgreSQL in {self.path} does not start: {problem}"
                raise DataDirError(message)
            time.sleep(0.2)

    def _launch(self, command: list[str]) -> str | None:
        """Start the server and wait until it is ready; return its last log line if it ended."""
        log_path = self.data_dir / "postgres.log"
        if log_path.exists() and log_path.stat().st_size > LOG_LIMIT_BYTES:
            log_path.replace(log_path.with_suffix(".log.1"))
        # The process id in a stale file may belong to another program now. PostgreSQL ignores the
        # id that is passed to it here, but still checks whether the file's shared memory is in use.
        old_pid = str(self._pid_file() or 0)
        with log_path.open("ab") as log:
            log_path.chmod(0o600)
            begin = log_path.stat().st_size
            self._child = self._programs.start(
                command, subprocess.DEVNULL, log, PG_GRANDPARENT_PID=old_pid
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (self._status() == "ready" and self._responds()):
            if self._child.poll() is not None:
                with log_path.open("rb") as log:
                    log.seek(begin)
                    return last_problem(log.read())
            if time.monotonic() > deadline:
                return f"not ready after {START_TIMEOUT_S:.0f} s, see {log_path}"
            time.sleep(POLL_S)
        return None

    def _responds(self) -> bool:
        """Whether a server responds on the socket.

        A connection alone is no proof, because the socket of a killed server accepts for a moment
        longer. The response to an SSLRequest is one byte.
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
            content = (self.path / "postmaster.pid").read_bytes()
        except OSError:
            return []
        return os.fsdecode(content).splitlines()

    def _pid_file(self) -> int | None:
        lines = self._pid_lines()
        return int(lines[0]) if lines and lines[0].isdigit() else None

    def _status(self) -> str:
        lines = self._pid_lines()
        return lines[7].strip() if len(lines) > 7 else ""  # noqa: PLR2004 - the file's eighth line

    def _find_running_pid(self) -> int | None:
        """Return the process id of a server of this cluster that another process started, if any.

        Its working directory is the directory of the cluster. If that is hidden (root in a
        container may not read other users' processes), a response on the cluster's socket suffices.
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
        except OSError:  # the process has ended meanwhile
            return None
        return pid if self._responds() else None

    def _runs(self, pid: int) -> bool:
        """Whether the server is still running after the signal to stop."""
        if self._child is not None and self._child.pid == pid:
            return self._child.poll() is None
        # Before the process ends, the server removes its file.
        return self._pid_file() == pid and _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _socket_dir(cluster: Path) -> Path:
    """Return the cluster's directory, or a private one in ``/tmp`` if it cannot hold the socket.

    The path may be too long for a socket; PostgreSQL and its clients treat a comma as a separator,
    and URLs are UTF-8.
    """
    path = os.fsencode(cluster / SOCKET)
    if len(path) <= SOCKET_PATH_LIMIT and b"," not in path and _is_utf8(path):
        return cluster
    digest = hashlib.sha256(os.fsencode(cluster)).hexdigest()[:16]
    return Path("/tmp") / f"opentill-{digest}"  # noqa: S108 - mode 0700 and a checked owner


def _is_utf8(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True


def last_problem(log: bytes) -> str:
    """Return the last error in the output of a server or of ``initdb``, else its last line."""
    lines = [line for line in log.decode(errors="replace").splitlines() if line.strip()]
    problems = [line for line in lines if re.search(r"FATAL|ERROR|\berror:", line)]
    return (problems or lines or ["no message"])[-1].strip()
