"""A data directory with ports and the processes of ``opentill`` that use them."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import IO

import psutil
import pytest

from support.commands import ForkedProcess, ForkServer, without_settings
from support.deployment import copy_directory
from support.ports import free_port

TIMEOUT_S = 180.0  # limit for operations that take some seconds on an idle machine


class Site:
    """A new data directory, free ports, and the processes that use them."""

    def __init__(self, directory: Path, fork_server: ForkServer) -> None:
        self._fork_server = fork_server
        self.data_dir = directory / "data"
        self.port, self.sandbox_port = free_port(), free_port()
        self.environ = {
            **without_settings(os.environ),
            "OPENTILL_DATA_DIR": str(self.data_dir),
            "OPENTILL_PORT": str(self.port),
            "OPENTILL_SANDBOX_PORT": str(self.sandbox_port),
        }
        self.started: list[subprocess.Popen[str] | ForkedProcess] = []

    def start(self, *words: str, stderr_to: Path | None = None) -> ForkedProcess:
        """Fork a command and wait until it is ready."""
        folder = self.data_dir.parent
        with (stderr_to or self._log_path()).open("a") as stderr:
            process = self._fork_server.start(words, self.environ, folder, stderr.fileno())
        self._wait_until_ready(process, process.stdout)
        return process

    def start_unforked(self, *words: str) -> subprocess.Popen[str]:
        """Start a command in a new interpreter and wait until it is ready."""
        with self._log_path().open("a") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "opentill", *words],
                env=self.environ,
                cwd=self.data_dir.parent,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self._wait_until_ready(process, process.stdout)
        return process

    def _wait_until_ready(
        self, process: subprocess.Popen[str] | ForkedProcess, stdout: IO[str] | None
    ) -> None:
        self.started.append(process)
        assert stdout is not None
        line = stdout.readline()
        assert "is ready: http://127.0.0.1" in line, self._log_path().read_text()[-2000:]

    def _log_path(self) -> Path:
        return self.data_dir.parent / "stderr.log"

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Fork a command and wait for its end."""
        process = self._fork_server.run(words, self.environ | environ, self.data_dir.parent, b"")
        return subprocess.CompletedProcess(
            process.args, process.returncode, process.stdout.decode(), process.stderr.decode()
        )

    def run_unforked(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a new interpreter and wait for its end."""
        return subprocess.run(
            [sys.executable, "-m", "opentill", *words],
            env=self.environ | environ,
            cwd=self.data_dir.parent,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )

    def get(self, path: str) -> tuple[int, bytes]:
        """Send a GET request; return status and body."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def postmaster(self) -> int | None:
        """The process id of the embedded database, if it runs."""
        path = self.data_dir / "postgres" / "postmaster.pid"
        return int(path.read_text().splitlines()[0]) if path.exists() else None


@pytest.fixture
def site(fork_server: ForkServer) -> Iterator[Site]:
    """A `Site`, whose processes are killed after the test."""
    with tempfile.TemporaryDirectory(prefix="opentill-test-") as directory:
        site = Site(Path(directory), fork_server)
        yield site
        for process in site.started:
            if process.poll() is None:
                kill_tree(process.pid)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if (pid := site.postmaster()) and psutil.pid_exists(pid):
            kill_tree(pid)


@pytest.fixture
def with_database(site: Site, migrated: Path) -> None:
    """Give the test's site a copy of a migrated database; creating one would take seconds."""
    copy_directory(migrated, site.data_dir)


def without_log(stderr: str) -> list[str]:
    """Return the lines without log entries, which a child stopped during its start may write."""
    return [line for line in stderr.splitlines() if not line.startswith("{")]


def kill_tree(pid: int) -> None:
    """Kill a process and its descendants, and wait until their ports are free."""
    with contextlib.suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        processes = (top, *top.children(recursive=True))
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        wait_until(lambda: all(has_ended(process) for process in processes))


def has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
