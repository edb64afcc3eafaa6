"""Runs ``opentill …`` on a test's database, in a forked process or in the test's own process.

``fork_server.py`` says why processes are forked, and ``in_process_command.py`` why most commands
need none.
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

from support import in_process_command, pooler

REFUSED = 2
# The name of the actor when a command runs without a login.
USER: Final = pwd.getpwuid(os.geteuid()).pw_name
SOURCE: Final = Path(__file__).parents[2] / "src"
# This environment variable has the socket of the fork server that all pytest workers of a run
# share.
SHARED: Final = "OPENTILL_TEST_FORK_SERVER"
_CLIENT: Final = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({path!r})
    request = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd(), False]).encode()
    socket.send_fds(server, [request], [0, 1, 2])
    sys.exit(int(server.recv(16) or 1))
"""


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without OpenTill's settings and the terminal's width."""
    return {
        name: text
        for name, text in environ.items()
        if not name.startswith("OPENTILL_") and name != "COLUMNS"
    }


class ForkedProcess:
    """A forked process with the methods of ``subprocess.Popen``."""

    def __init__(self, fork_server: socket.socket, stdout: TextIO | None) -> None:
        """``fork_server`` sends the process id, and later the exit code."""
        self._fork_server = fork_server
        self.stdout = stdout
        self.pid = int(fork_server.recv(16))
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        """Send a signal if the process still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        try:
            return self.wait(0)
        except TimeoutError:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code, -9 after SIGKILL. Raises ``TimeoutError``."""
        if self.returncode is None:
            if not select.select([self._fork_server], [], [], timeout)[0]:
                message = f"process {self.pid} still runs"
                raise TimeoutError(message)
            self.returncode = int(self._fork_server.recv(16) or -signal.SIGKILL)
            self._fork_server.close()
        return self.returncode


class ForkServer:
    """A client of the fork server."""

    def __init__(self, path: str) -> None:
        """``path``: the server's socket. Use ``running_fork_server`` or the fixture."""
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
        """Run a command with these standard streams; return its exit code, None after a signal."""
        with self._send_request(streams, words, environ, directory) as fork_server:
            response = fork_server.recv(16)
        return int(response) if response else None

    def start(
        self, words: Sequence[str], environ: Mapping[str, str], directory: Path, stderr: int
    ) -> ForkedProcess:
        """Start a long-running command whose standard output can be read."""
        reader, writer = os.pipe()
        with Path(os.devnull).open() as devnull:
            streams = [devnull.fileno(), writer, stderr]
            fork_server = self._send_request(
                streams, words, environ, directory, is_long_running=True
            )
        os.close(writer)
        return ForkedProcess(fork_server, os.fdopen(reader))

    def start_logged(
        self, words: Sequence[str], environ: Mapping[str, str], directory: Path, log: int
    ) -> ForkedProcess:
        """Start a long-running process whose output goes to the file descriptor ``log``.

        ``words`` are arguments of ``opentill``, or of Python if they begin with ``-c`` or a path.
        """
        with Path(os.devnull).open() as devnull:
            streams = [devnull.fileno(), log, log]
            return ForkedProcess(
                self._send_request(streams, words, environ, directory, is_long_running=True), None
            )

    def _send_request(
        self, streams: Sequence[int], words: Sequence[str], environ: Mapping[str, str],
        directory: Path, *, is_long_running: bool = False,
    ) -> socket.socket:  # fmt: skip
        request = json.dumps([list(words), dict(environ), str(directory), is_long_running])
        fork_server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fork_server.connect(self._path)
        socket.send_fds(fork_server, [request.encode()], streams)
        return fork_server

    def command(self, folder: Path) -> Path:
        """Write a program ``opentill`` to a folder, for shell scripts, and return its path."""
        command = folder / "opentill"
        command.write_text(_CLIENT.format(python=sys.executable, path=self._path))
        command.chmod(0o755)
        return command


@contextlib.contextmanager
def running_fork_server(imports: str = "everything") -> Iterator[str]:
    """Run a fork server and yield the path of its socket; ``imports``: see ``fork_server.py``."""
    with tempfile.TemporaryDirectory(prefix="opentill-fork-server-") as folder:
        path = str(Path(folder) / "socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(path)
            listener.listen(64)
            process = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__).with_name("fork_server.py")),
                 str(listener.fileno()), imports],
                stdin=subprocess.PIPE, pass_fds=[listener.fileno()],
                env=os.environ | {"PYTHONPATH": str(SOURCE)},
            )  # fmt: skip
        yield path
        process.communicate(timeout=30)


def _field_names(value: Any) -> Iterator[str]:
    """Yield the names of all fields of a JSON value, except for those of a merchant's metadata."""
    if isinstance(value, list):
        for item in value:
            yield from _field_names(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            if name != "metadata":
                yield from _field_names(item)


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """The fork server of the run."""
    with contextlib.ExitStack() as stack:
        yield ForkServer(os.environ.get(SHARED) or stack.enter_context(running_fork_server()))


class Commands:
    """Runs ``opentill …`` for one deployment."""

    def __init__(self, fork_server: ForkServer, database_url: str, directory: Path) -> None:
        """Tests get an instance from the fixture ``opentill``."""
        self._fork_server = fork_server
        self.runs_in_process = False  # whether commands run in the test's own process if possible
        self.directory = directory
        self.environ = {
            **without_settings(os.environ),
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
        if self.runs_in_process and in_process_command.can_run(words):
            return in_process_command.run(words, environ, self.directory, stdin)
        return self._fork_server.run(words, environ, self.directory, stdin)

    def run_on(self, streams: Sequence[int], *words: str) -> int | None:
        """Run a command with these standard streams; return its exit code, None after a signal."""
        return self._fork_server.run_on(streams, words, self.environ, self.directory)

    def json(self, *words: str, stdin: bytes = b"", **settings: str) -> Any:
        """Run a command that must succeed, and return its JSON output."""
        process = self.run(*words, "--json", stdin=stdin, **settings)
        assert process.returncode == 0, process.stderr.decode()
        output = json.loads(process.stdout)
        # Names are in camel case, as in the API.
        names = list(_field_names(output))
        assert not [name for name in names if "_" in name], output
        # Amounts are decimal text, not minor units.
        assert not [name for name in names if name.endswith("Minor")], output
        return output

    def text(self, *words: str) -> str:
        """Run a command that must succeed, and return its output for people."""
        process = self.run(*words)
        assert process.returncode == 0, process.stderr.decode()
        return process.stdout.decode()

    def refusal(self, *words: str, stdin: bytes = b"") -> str:
        """Run a command that must fail with one line, and return the line."""
        process = self.run(*words, stdin=stdin)
        assert process.returncode == REFUSED, process
        assert process.stdout == b""
        (line,) = process.stderr.decode().splitlines()
        return line


@pytest.fixture
def opentill(fork_server: ForkServer, database_url: str, tmp_path: Path) -> Commands:
    """The command line of a fresh deployment."""
    commands = Commands(fork_server, database_url, tmp_path)
    commands.runs_in_process = True
    return commands
