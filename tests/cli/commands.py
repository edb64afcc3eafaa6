"""Commands as real processes on a database of the test's own, and what they answer."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REFUSED = 2


class Commands:
    """Runs ``opentill …`` for one deployment."""

    def __init__(self, database_url: str, directory: Path) -> None:
        """Use the fixture."""
        self.directory = directory
        self.environ = {
            **{name: text for name, text in os.environ.items() if not name.startswith("OPENTILL_")},
            "OPENTILL_DATABASE_URL": database_url,
            "OPENTILL_SECRET_KEY": "test-secret-key-test-secret-key-0123",
            "OPENTILL_DATA_DIR": str(directory / "data"),
        }

    def run(
        self, *words: str, given: bytes = b"", **settings: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end; ``given`` is its standard input."""
        return subprocess.run(
            [sys.executable, "-m", "opentill", *words],
            env=self.environ | settings,
            cwd=self.directory,
            input=given,
            capture_output=True,
            check=False,
            timeout=60,
        )

    def json(self, *words: str, given: bytes = b"", **settings: str) -> Any:
        """Run a command that must succeed, and return its answer."""
        done = self.run(*words, "--json", given=given, **settings)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

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
def opentill(database_url: str, tmp_path: Path) -> Commands:
    """The command line of a fresh deployment."""
    return Commands(database_url, tmp_path)
