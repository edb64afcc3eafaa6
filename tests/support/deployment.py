"""A deployment with default settings: embedded database and sandbox bank."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.commands import ForkedProcess, ForkServer, without_settings
from support.once import once
from support.ports import free_port

TIMEOUT_S = 180.0


class Deployment:
    """``opentill serve`` with its own data directory and ports."""

    def __init__(self, directory: Path, fork_server: ForkServer | None = None) -> None:
        """Use ``running_deployment``.

        With a fork server, the server, commands and the program ``opentill`` in the path of scripts
        are forked from it.
        """
        self.directory = directory
        self._fork_server = fork_server
        self.port, self.sandbox_port = free_port(), free_port()
        source = Path(__file__).parents[2] / "src"
        self.environ = {
            **without_settings(os.environ),
            "OPENTILL_DATA_DIR": str(directory / "data"),
            "OPENTILL_PORT": str(self.port),
            "OPENTILL_SANDBOX_PORT": str(self.sandbox_port),
            "OPENTILL_LIMIT_IP_PER_MINUTE": "0",
            "PYTHONPATH": str(source),
            "PATH": f"{self._command(directory)}:{os.environ['PATH']}",
        }

    def _command(self, directory: Path) -> Path:
        """Write a program ``opentill`` for scripts and return its folder."""
        folder = directory / "bin"
        folder.mkdir()
        if self._fork_server is not None:
            self._fork_server.command(folder)
            return folder
        command = folder / "opentill"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m opentill "$@"\n')
        command.chmod(0o755)
        return folder

    def start(self) -> subprocess.Popen[str] | ForkedProcess:
        """Start the server and wait until it is ready."""
        log = self.directory / "stderr.log"
        process: subprocess.Popen[str] | ForkedProcess
        with log.open("a") as stderr:
            if self._fork_server is not None:
                process = self._fork_server.start(
                    ["serve"], self.environ, self.directory, stderr.fileno()
                )
            else:
                process = subprocess.Popen(
                    [sys.executable, "-m", "opentill", "serve"],
                    env=self.environ, cwd=self.directory, stdout=subprocess.PIPE, stderr=stderr,
                    text=True,
                )  # fmt: skip
        assert process.stdout is not None
        if "is ready" not in process.stdout.readline():
            process.kill()
            process.wait()
            process.stdout.close()
            raise AssertionError(log.read_text()[-2000:])
        return process

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        if self._fork_server is None:
            return self.run_unforked(*words, **environ)
        process = self._fork_server.run(words, self.environ | environ, self.directory, b"")
        return subprocess.CompletedProcess(
            process.args, process.returncode, process.stdout.decode(), process.stderr.decode()
        )

    def run_unforked(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end in a new interpreter."""
        return subprocess.run(
            [sys.executable, "-m", "opentill", *words], env=self.environ | environ,
            cwd=self.directory, capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
        )  # fmt: skip

    def run_checked(self, *words: str) -> str:
        """Run a command that must succeed, and return its output."""
        process = self.run(*words)
        assert process.returncode == 0, process.stderr
        return process.stdout


@pytest.fixture(scope="session")
def migrated(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory after ``opentill migrate``, to be copied."""

    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="opentill-test-") as directory:
            Deployment(Path(directory), fork_server).run_checked("migrate")
            copy_directory(Path(directory) / "data", folder / "data")

    return once(tmp_path_factory, "migrated", make) / "data"


@pytest.fixture(scope="session")
def deployment(fork_server: ForkServer, migrated: Path) -> Iterator[Deployment]:
    """The deployment of all tests that create their own merchants and do not move the clock."""
    with checked_deployment(fork_server, migrated) as deployment:
        yield deployment


def copy_directory(source: Path, target: Path) -> None:
    """Copy a stopped database, or a data directory with one."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


@contextmanager
def checked_deployment(
    fork_server: ForkServer, migrated: Path, **environ: str
) -> Iterator[Deployment]:
    """Serve while the block runs, and check the books at its end."""
    with running_deployment(fork_server, migrated, **environ) as deployment:
        yield deployment
        assert '"violations":[]' in deployment.run_checked("ledger", "check", "--json")


@contextmanager
def running_deployment(
    fork_server: ForkServer, migrated: Path, **environ: str
) -> Iterator[Deployment]:
    """Serve a copy of a data directory while the block runs, with forked processes."""
    # The files are not in pytest's directory, because PostgreSQL may run as another user, who
    # cannot search it.
    with tempfile.TemporaryDirectory(prefix="opentill-test-") as directory:
        deployment = Deployment(Path(directory), fork_server)
        deployment.environ |= environ
        copy_directory(migrated, Path(directory) / "data")
        process = deployment.start()
        try:
            yield deployment
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(TIMEOUT_S)
            if process.stdout is not None:
                process.stdout.close()
