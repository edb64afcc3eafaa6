"""A PostgreSQL standby of an embedded server, for reads or to be promoted."""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qs, urlsplit

from opentill.server.embedded import cluster, sysuser
from opentill.server.embedded.programs import find_programs

NAME: Final = "standby"


class Standby:
    """A standby whose files ``pg_basebackup`` copies from the running primary."""

    def __init__(self, primary_url: str, folder: Path) -> None:
        """Use ``running_standby``. ``folder`` must be empty."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(primary_url).query).items()}
        self._primary = Path(query["host"])
        self._primary_url = primary_url
        self.path = folder / "standby"
        self._log = folder / "standby.log"
        _, self._programs = find_programs()
        self._ids = sysuser.user_ids(self._primary)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address of the standby."""
        return f"postgresql://opentill@/opentill?host={self.path}&port=5432"

    @property
    def failover_url(self) -> str:
        """An address of both servers that connects to the primary."""
        hosts = f"host={self._primary},{self.path}&port=5432,5432"
        return f"postgresql://opentill@/opentill?{hosts}&target_session_attrs=read-write"

    def start(self) -> Self:
        """Copy the primary at the first call, and start the standby."""
        if not self.path.exists():
            self.path.mkdir(mode=0o700)
            if self._ids is not None:
                os.chown(self.path, *self._ids)
                sysuser.allow_path(self.path, self._ids[0])
            source = f"host={self._primary} port=5432 user=opentill application_name={NAME}"
            self._run("pg_basebackup", "-D", str(self.path), "-d", source, "-R", "-c", "fast")
            for primary_socket in self.path.glob(".s.PGSQL.*"):
                primary_socket.unlink()
        settings = dict(cluster.SETTINGS, unix_socket_directories=str(self.path))
        settings.update(hot_standby="on", wal_receiver_status_interval="1s")
        settings.update(default_transaction_isolation="read committed")
        words = [word for pair in settings.items() for word in ("-c", "=".join(pair))]
        with self._log.open("ab") as log:
            self._process = self._popen("postgres", ["-D", str(self.path), *words], log.fileno())
        self._run("pg_ctl", "-D", str(self.path), "-w", "-t", "60", "status", retry=True)
        self._run("pg_isready", "-h", str(self.path), "-p", "5432", retry=True)
        return self

    def require_synchronous_commits(self) -> None:
        """Make the primary wait for the standby at every commit."""
        self.sql(self._primary_url, f"alter system set synchronous_standby_names = '{NAME}'")
        self.sql(self._primary_url, "select pg_reload_conf()")

    def promote(self) -> None:
        """Make the standby the primary, and wait until it is."""
        self._run("pg_ctl", "-D", str(self.path), "-w", "-t", "60", "promote")

    def sql(self, url: str, statement: str) -> str:
        """Run a statement with psql."""
        return self._run("psql", "-X", "-q", "-At", "-d", url, "-c", statement)

    def stop(self) -> None:
        """Stop the standby immediately; it can be started again."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)
                self._process.wait()
            self._process = None

    def _run(self, program: str, *words: str, retry: bool = False) -> str:
        for _ in range(300):
            process = self._popen(program, list(words), subprocess.PIPE)
            output, _ = process.communicate()
            if process.returncode == 0:
                return output.decode()
            assert retry, output.decode()
            assert self._process is None or self._process.poll() is None, self._log.read_text()
            with contextlib.suppress(subprocess.TimeoutExpired):
                (self._process or process).wait(0.1)
        raise AssertionError(output.decode())

    def _popen(self, program: str, words: list[str], out: int) -> subprocess.Popen[bytes]:
        user, group = self._ids or (None, None)
        return subprocess.Popen(
            [str(self._programs / program), *words], user=user, group=group, stdout=out,
            extra_groups=None if user is None else [], start_new_session=True, cwd="/",
            stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        )  # fmt: skip


@contextlib.contextmanager
def running_standby(primary_url: str) -> Iterator[Standby]:
    """Run a standby while the block runs."""
    with tempfile.TemporaryDirectory(prefix="opentill-standby-") as name:
        standby = Standby(primary_url, Path(name))
        try:
            yield standby.start()
        finally:
            standby.stop()
