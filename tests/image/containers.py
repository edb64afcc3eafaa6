"""Runs a container engine and a compose command.

Environment variables adapt the commands to a machine:

- ``OPENTILL_TEST_ENGINE``: the engine, if it is not ``docker`` or ``podman`` without options
- ``OPENTILL_TEST_BUILD``, ``OPENTILL_TEST_RUN``: more options of its ``build`` and ``run``
- ``OPENTILL_TEST_COMPOSE``: a compose command other than the engine's own
"""

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

TOP: Final = Path(__file__).parents[2]
BUILD_S: Final = 1800.0
TIMEOUT_S: Final = 120.0
# Engines kill a container after this many seconds; on an idle machine it stops within 2 s.
QUICKLY_S: Final = 10.0

Call = Callable[..., str]
Start = Callable[..., str]


def split_variable(variable: str) -> list[str]:
    """Split the value of an environment variable as a shell does."""
    return shlex.split(os.environ.get(variable, ""))


def run(
    *command: str, check: bool = True, timeout_s: float = TIMEOUT_S, cwd: Path | None = None
) -> str:
    """Run a program; return its standard output and standard error together."""
    process = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=timeout_s, cwd=cwd
    )
    assert not check or process.returncode == 0, process.stdout + process.stderr
    return process.stdout + process.stderr
