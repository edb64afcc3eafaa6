"""The JavaScript client, built with the packages of its lock file once for all pytest workers."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from support.once import once

TOP: Final = Path(__file__).parents[2]
SOURCE: Final = TOP / "clients" / "javascript"
_NPM_OPTIONS: Final = ("--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline")


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test, or fail it in CI, where all programs must be installed."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


def require_programs(*programs: str) -> None:
    """Skip the test unless these programs are installed."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        skip_or_fail(f"not installed: {', '.join(missing)}")


def run(
    words: Sequence[str | Path], cwd: Path, *, statuses: tuple[int, ...] = (0,), **environ: str
) -> str:
    """Run a program and return its output; assert that its exit status is one of ``statuses``."""
    process = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=os.environ | {"no_proxy": "*"} | environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    output = f"{process.stdout[-8000:]}\n{process.stderr[-4000:]}"
    assert process.returncode in statuses, f"{words}\n{output}"
    return process.stdout


@pytest.fixture(scope="session")
def javascript_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package; a program in the folder can import ``@opentill/client``."""
    require_programs("node", "npm")
    return once(tmp_path_factory, "javascript", _build)


def npm_ci(folder: Path) -> None:
    """Install the packages of a folder's lock file."""
    run(["npm", "ci", *_NPM_OPTIONS], folder)


def _build(folder: Path) -> None:
    ignore = shutil.ignore_patterns("node_modules", "dist")
    shutil.copytree(SOURCE, folder, ignore=ignore, dirs_exist_ok=True)
    npm_ci(folder)
    run([folder / "node_modules/.bin/tsc", "-p", "."], folder)
    (folder / "node_modules" / "@opentill").mkdir()
    (folder / "node_modules" / "@opentill" / "client").symlink_to("../..")


def node_tests(folder: Path, file: str, **environ: str) -> str:
    """Run a file of tests with Node.js, and return its report (TAP)."""
    words: list[Any] = ["node", "--test", "--test-reporter=tap", f"test/{file}"]
    return run(words, folder, statuses=(0, 1), **environ)
