"""Commands as real processes on a database of the test's own, and what they answer.

Importing is most of what a short command costs. So they are forked off a process that has imported
everything and done nothing: each still has an environment, a directory and streams of its own.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

import pooler

REFUSED = 2
_NURSERY: Final = """
import json, os, signal, sys
from opentill import app, checks, worker
from opentill.__main__ import main
from opentill.cli import build

build()
for line in sys.stdin:
    words, environ, directory, streams = json.loads(line)
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # no command of a test takes longer
        for number, path in enumerate(streams):
            stream = os.open(path, os.O_RDWR)
            os.dup2(stream, number)
            os.close(stream)
        sys.stdin = os.fdopen(0, "r", closefd=False)
        os.environ.clear()
        os.environ.update(environ)
        os.chdir(directory)
        sys.argv = ["opentill", *words]
        code = 1
        try:
            main()
            code = 0
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.stdout.write(f"{code}\\n")
    sys.stdout.flush()
"""


class Nursery:
    """Where commands are forked."""

    def __init__(self) -> None:
        """Start it; it ends with its standard input."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", _NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, words: Sequence[str], environ: Mapping[str, str], directory: Path, given: bytes
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            streams = [Path(folder) / name for name in ("stdin", "stdout", "stderr")]
            for path in streams:
                path.write_bytes(given if path.name == "stdin" else b"")
            order = [list(words), dict(environ), str(directory), [str(path) for path in streams]]
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            _, out, err = (path.read_bytes() for path in streams)
        return subprocess.CompletedProcess(["opentill", *words], code, out, err)

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=30)


def _names(answer: Any) -> Iterator[str]:
    """Yield the names of all fields of an answer, beside those that a merchant has given."""
    if isinstance(answer, list):
        for one in answer:
            yield from _names(one)
    elif isinstance(answer, dict):
        for name, value in answer.items():
            yield name
            if name != "metadata":
                yield from _names(value)


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """One for all commands of a worker."""
    nursery = Nursery()
    yield nursery
    nursery.close()


class Commands:
    """Runs ``opentill …`` for one deployment."""

    def __init__(self, nursery: Nursery, database_url: str, directory: Path) -> None:
        """Use the fixture."""
        self._nursery = nursery
        self.directory = directory
        self.environ = {
            **{name: text for name, text in os.environ.items() if not name.startswith("OPENTILL_")},
            "OPENTILL_DATABASE_URL": database_url,
            "OPENTILL_SANDBOX": "yes",
            "OPENTILL_DB_PREPARED": pooler.prepared_setting(database_url),
            "OPENTILL_SECRET_KEY": "test-secret-key-test-secret-key-0123",
            "OPENTILL_DATA_DIR": str(directory / "data"),
        }

    def run(
        self, *words: str, given: bytes = b"", **settings: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end; ``given`` is its standard input."""
        return self._nursery.run(words, self.environ | settings, self.directory, given)

    def json(self, *words: str, given: bytes = b"", **settings: str) -> Any:
        """Run a command that must succeed, and return its answer."""
        done = self.run(*words, "--json", given=given, **settings)
        assert done.returncode == 0, done.stderr.decode()
        answer = json.loads(done.stdout)
        assert not [name for name in _names(answer) if "_" in name], answer  # as the API's
        return answer

    def text(self, *words: str) -> str:
        """Run a command that must succeed, and return what people see."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def refusal(self, *words: str, given: bytes = b"") -> str:
        """Run a command that must be refused, and return its one line."""
        done = self.run(*words, given=given)
        assert done.returncode == REFUSED, done
        assert done.stdout == b""
        (line,) = done.stderr.decode().splitlines()
        return line


@pytest.fixture
def opentill(nursery: Nursery, database_url: str, tmp_path: Path) -> Commands:
    """The command line of a fresh deployment."""
    return Commands(nursery, database_url, tmp_path)
