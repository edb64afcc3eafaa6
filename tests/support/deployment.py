"""A deployment without settings, as a newcomer starts it: embedded database, sandbox bank."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.commands import ForkServer, Served, clean
from support.once import once
from support.ports import free_port

TIMEOUT_S = 180.0


class Deployment:
    """A running ``opentill serve`` with a data directory and ports of its own."""

    def __init__(self, directory: Path, fork_server: ForkServer | None = None) -> None:
        """Use ``running``. Server and commands are forked off the fork server, if one is given.

        So is what scripts call as ``opentill``.
        """
        self.directory = directory
        self._fork_server = fork_server
        self.port, self.sandbox_port = free_port(), free_port()
        source = Path(__file__).parents[2] / "src"
        self.environ = {
            **clean(os.environ),
            "OPENTILL_DATA_DIR": str(directory / "data"),
            "OPENTILL_PORT": str(self.port),
            "OPENTILL_SANDBOX_PORT": str(self.sandbox_port),
            "OPENTILL_LIMIT_IP_PER_MINUTE": "0",
            "PYTHONPATH": str(source),
            "PATH": f"{self._command(directory)}:{os.environ['PATH']}",
        }

    def _command(self, directory: Path) -> Path:
        """Make the command ``opentill`` of this source, so that scripts can call it by its name."""
        folder = directory / "bin"
        folder.mkdir()
        if self._fork_server is not None:
            self._fork_server.command(folder)
            return folder
        command = folder / "opentill"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m opentill "$@"\n')
        command.chmod(0o755)
        return folder

    def start(self) -> subprocess.Popen[str] | Served:
        """Start the server and wait until it is ready."""
        log = self.directory / "stderr.log"
        process: subprocess.Popen[str] | Served
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
            return self.run_really(*words, **environ)
        ran = self._fork_server.run(words, self.environ | environ, self.directory, b"")
        return subprocess.CompletedProcess(
            ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode()
        )

    def run_really(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end in an interpreter of its own."""
        return subprocess.run(
            [sys.executable, "-m", "opentill", *words], env=self.environ | environ,
            cwd=self.directory, capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
        )  # fmt: skip

    def done(self, *words: str) -> str:
        """Run a command that must go well and return what it says."""
        ran = self.run(*words)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


@pytest.fixture(scope="session")
def migrated(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory as ``opentill migrate`` makes it, to be copied."""

    def make(place: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="opentill-test-") as directory:
            Deployment(Path(directory), fork_server).done("migrate")
            copy(Path(directory) / "data", place / "data")

    return once(tmp_path_factory, "migrated", make) / "data"


@pytest.fixture(scope="session")
def deployment(fork_server: ForkServer, migrated: Path) -> Iterator[Deployment]:
    """Serve for tests that only need merchants of their own, and leave the time as it was."""
    with checked(fork_server, migrated) as deployment:
        yield deployment


def copy(files: Path, place: Path) -> None:
    """Copy the files of a database that does not run, or a data directory with one."""
    subprocess.run(["cp", "-a", str(files), str(place)], check=True)


@contextmanager
def checked(fork_server: ForkServer, migrated: Path, **environ: str) -> Iterator[Deployment]:
    """Serve as long as the block runs; the books are right at the end."""
    with running(fork_server, migrated, **environ) as deployment:
        yield deployment
        assert '"violations":[]' in deployment.done("ledger", "check", "--json")


@contextmanager
def running(fork_server: ForkServer, migrated: Path, **environ: str) -> Iterator[Deployment]:
    """Serve as long as the block runs, on a copy of a data directory; all is forked."""
    # Not in pytest's own directory: every pytest that starts closes that to PostgreSQL's user.
    with tempfile.TemporaryDirectory(prefix="opentill-test-") as directory:
        deployment = Deployment(Path(directory), fork_server)
        deployment.environ |= environ
        copy(migrated, Path(directory) / "data")
        process = deployment.start()
        try:
            yield deployment
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(TIMEOUT_S)
            if process.stdout is not None:
                process.stdout.close()
