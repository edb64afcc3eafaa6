"""Commands as real processes on a database of the test's own, and what they answer.

Importing is most of what a short command costs, and much of what a server costs. So they are forked
off a process that has imported everything and done nothing: each still has an environment, a
directory and streams of its own.
"""

import contextlib
import json
import os
import pwd
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

import pytest

from support import command_here, pooler

REFUSED = 2
# Who runs commands that nobody has logged in for.
USER: Final = pwd.getpwuid(os.geteuid()).pw_name
SOURCE: Final = Path(__file__).parents[2] / "src"
# Path of the fork server that the workers of a run share, for which it is an environment variable.
SHARED: Final = "OPENTILL_TEST_FORK_SERVER"
_CLIENT: Final = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({path!r})
    order = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd(), False]).encode()
    socket.send_fds(server, [order], [0, 1, 2])
    sys.exit(int(server.recv(16) or 1))
"""


def clean(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without settings, and without the width of a terminal."""
    return {
        name: text
        for name, text in environ.items()
        if not name.startswith("OPENTILL_") and name != "COLUMNS"
    }


class Served:
    """A server that was forked, to be handled as if it were a child of ours."""

    def __init__(self, fork_server: socket.socket, stdout: TextIO | None) -> None:
        """``fork_server`` says how it ends."""
        self._fork_server = fork_server
        self.stdout = stdout
        self.pid = int(fork_server.recv(16))
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Return how it ended, if it did."""
        try:
            return self.wait(0)
        except TimeoutError:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; -9 if it was killed. Raises ``TimeoutError``."""
        if self.returncode is None:
            if not select.select([self._fork_server], [], [], timeout)[0]:
                message = f"{self.pid} runs on"
                raise TimeoutError(message)
            self.returncode = int(self._fork_server.recv(16) or -signal.SIGKILL)
            self._fork_server.close()
        return self.returncode


class ForkServer:
    """Where commands and servers are forked."""

    def __init__(self, path: str) -> None:
        """``path``: of its socket. Use ``forking`` or the fixture."""
        self._path = path

    def run(
        self, words: Sequence[str], environ: Mapping[str, str], directory: Path, stdin: bytes
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end."""
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(tempfile.TemporaryFile(buffering=0)) for _ in range(3)]
            streams[0].write(stdin)
            streams[0].seek(0)
            numbers = [stream.fileno() for stream in streams]
            result = self.run_on(numbers, words, environ, directory)
            for stream in streams:
                stream.seek(0)
            _, out, err = (stream.read() for stream in streams)
        assert result is not None, f"opentill {' '.join(words)} did not end: {err.decode()}"
        return subprocess.CompletedProcess(["opentill", *words], result, out, err)

    def run_on(
        self, streams: Sequence[int], words: Sequence[str], environ: Mapping[str, str],
        directory: Path,
    ) -> int | None:  # fmt: skip
        """Run a command on these three streams; its exit code, or None if a signal ended it."""
        with self._ask(streams, words, environ, directory) as fork_server:
            response = fork_server.recv(16)
        return int(response) if response else None

    def start(
        self, words: Sequence[str], environ: Mapping[str, str], directory: Path, stderr: int
    ) -> Served:
        """Start a command that lasts until it gets a signal; its output can be read."""
        ours, theirs = os.pipe()
        with Path(os.devnull).open() as nothing:
            streams = [nothing.fileno(), theirs, stderr]
            fork_server = self._ask(streams, words, environ, directory, lasts=True)
        os.close(theirs)
        return Served(fork_server, os.fdopen(ours))

    def start_logged(
        self, words: Sequence[str], environ: Mapping[str, str], directory: Path, log: int
    ) -> Served:
        """Start what lasts until it gets a signal; all its output goes to ``log``.

        The words are of a command or, if they begin with ``-c`` or a path, of Python.
        """
        with Path(os.devnull).open() as nothing:
            streams = [nothing.fileno(), log, log]
            return Served(self._ask(streams, words, environ, directory, lasts=True), None)

    def _ask(
        self, streams: Sequence[int], words: Sequence[str], environ: Mapping[str, str],
        directory: Path, *, lasts: bool = False,
    ) -> socket.socket:  # fmt: skip
        order = json.dumps([list(words), dict(environ), str(directory), lasts]).encode()
        fork_server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fork_server.connect(self._path)
        socket.send_fds(fork_server, [order], streams)
        return fork_server

    def command(self, folder: Path) -> Path:
        """Make a program ``opentill`` in a folder, for shells, and return it."""
        command = folder / "opentill"
        command.write_text(_CLIENT.format(python=sys.executable, path=self._path))
        command.chmod(0o755)
        return command


@contextlib.contextmanager
def forking(much: str = "everything") -> Iterator[str]:
    """Have a fork server, and give the path of its socket. For ``much`` see ``fork_server.py``."""
    with tempfile.TemporaryDirectory(prefix="opentill-fork-server-") as folder:
        path = str(Path(folder) / "socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(path)
            listener.listen(64)
            process = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).with_name("fork_server.py")),
                 str(listener.fileno()), much],
                stdin=subprocess.PIPE, pass_fds=[listener.fileno()],
                env=os.environ | {"PYTHONPATH": str(SOURCE)},
            )  # fmt: skip
        yield path
        process.communicate(timeout=30)


def _names(answer: Any) -> Iterator[str]:
    """Yield the names of all fields of an answer, beside those that a merchant has given."""
    if isinstance(answer, list):
        for each in answer:
            yield from _names(each)
    elif isinstance(answer, dict):
        for name, value in answer.items():
            yield name
            if name != "metadata":
                yield from _names(value)


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """One for all commands of a run."""
    with contextlib.ExitStack() as stack:
        yield ForkServer(os.environ.get(SHARED) or stack.enter_context(forking()))


class Commands:
    """Runs ``opentill …`` for one deployment."""

    def __init__(self, fork_server: ForkServer, database_url: str, directory: Path) -> None:
        """Use the fixture."""
        self._fork_server = fork_server
        self.here = False  # whether commands that need no process of their own have none
        self.directory = directory
        self.environ = {
            **clean(os.environ),
            "XDG_CONFIG_HOME": str(directory / "config"),
            "OPENTILL_DATABASE_URL": database_url,
            "OPENTILL_SANDBOX": "yes",
            "OPENTILL_DB_PREPARED": pooler.prepared_setting(database_url),
            "OPENTILL_SECRET_KEY": "test-secret-key-test-secret-key-0123",
            "OPENTILL_DATA_DIR": str(directory / "data"),
        }

    def run(
        self, *words: str, stdin: bytes = b"", **settings: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end; ``stdin`` is its standard input."""
        environ = self.environ | settings
        if self.here and command_here.is_fit(words):
            return command_here.run(words, environ, self.directory, stdin)
        return self._fork_server.run(words, environ, self.directory, stdin)

    def run_on(self, streams: Sequence[int], *words: str) -> int | None:
        """Run a command to its end on these three streams, and return its exit code."""
        return self._fork_server.run_on(streams, words, self.environ, self.directory)

    def json(self, *words: str, stdin: bytes = b"", **settings: str) -> Any:
        """Run a command that must succeed, and return its answer."""
        done = self.run(*words, "--json", stdin=stdin, **settings)
        assert done.returncode == 0, done.stderr.decode()
        answer = json.loads(done.stdout)
        assert not [name for name in _names(answer) if "_" in name], answer  # as the API's
        return answer

    def text(self, *words: str) -> str:
        """Run a command that must succeed, and return what people see."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def refusal(self, *words: str, stdin: bytes = b"") -> str:
        """Run a command that must be refused, and return its one line."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode == REFUSED, done
        assert done.stdout == b""
        (line,) = done.stderr.decode().splitlines()
        return line


@pytest.fixture
def opentill(fork_server: ForkServer, database_url: str, tmp_path: Path) -> Commands:
    """The command line of a fresh deployment."""
    commands = Commands(fork_server, database_url, tmp_path)
    commands.here = True
    return commands
