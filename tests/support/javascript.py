"""The JavaScript client, built as its lock file says: once for all workers of a run."""

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


def lack(reason: str) -> NoReturn:
    """Skip for a reason; fail where everything has to be there, in a pipeline."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


def need(*programs: str) -> None:
    """See that programs are installed."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        lack(f"not installed: {', '.join(missing)}")


def run(
    words: Sequence[str | Path], cwd: Path, *, taken: tuple[int, ...] = (0,), **environ: str
) -> str:
    """Run a program and return what it printed; an exit status that is not taken is a failure."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=os.environ | {"no_proxy": "*"} | environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in taken, f"{words}\n{done.stdout[-8000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def javascript_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the package; a program in the folder can import ``@opentill/client``."""
    need("node", "npm")
    return once(tmp_path_factory, "javascript", _build)


def npm_ci(place: Path) -> None:
    """Install what the lock file of a folder names."""
    run(["npm", "ci", *_NPM_OPTIONS], place)


def _build(place: Path) -> None:
    unwanted = shutil.ignore_patterns("node_modules", "dist")
    shutil.copytree(SOURCE, place, ignore=unwanted, dirs_exist_ok=True)
    npm_ci(place)
    run([place / "node_modules/.bin/tsc", "-p", "."], place)
    (place / "node_modules" / "@opentill").mkdir()
    (place / "node_modules" / "@opentill" / "client").symlink_to("../..")


def node_tests(place: Path, file: str, **environ: str) -> str:
    """Run a file of tests with Node.js, and return its report (TAP)."""
    words: list[Any] = ["node", "--test", "--test-reporter=tap", f"test/{file}"]
    return run(words, place, taken=(0, 1), **environ)
