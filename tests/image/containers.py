"""How the tests here run an engine and a compose command.

What these need on a machine comes from the environment, as words of a command line:

- ``OPENTILL_TEST_ENGINE``: the engine, if it is not ``docker`` or ``podman`` as they are
- ``OPENTILL_TEST_BUILD``, ``OPENTILL_TEST_RUN``: what its ``build`` and ``run`` take besides
- ``OPENTILL_TEST_COMPOSE``: a compose command, if it is not the engine's own
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
QUICKLY_S: Final = 10.0  # an engine's patience before it kills; well under 2 s on an idle machine

Call = Callable[..., str]
Start = Callable[..., str]


def words(variable: str) -> list[str]:
    """Return what a variable of the environment holds, as words of a command line."""
    return shlex.split(os.environ.get(variable, ""))


def run(
    *command: str, check: bool = True, timeout_s: float = TIMEOUT_S, cwd: Path | None = None
) -> str:
    """Run a program and return what it printed, both streams."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=timeout_s, cwd=cwd
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
