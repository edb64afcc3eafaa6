"""``make`` keeps its Python environment whole: interrupted, moved, copied.

The project of these tests is small and builds itself, so that nothing is fetched; the Makefile is
the real one.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

TOP: Final = Path(__file__).parents[1]
PROJECT: Final = """
[project]
name = "opentill"
version = "1"
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
# What hatchling does for the real project: a path to the source, and a program.
BACKEND: Final = """
import os, zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    files = {
        "opentill.pth": os.path.abspath("src"),
        "opentill-1.dist-info/METADATA": "Metadata-Version: 2.1\\nName: opentill\\nVersion: 1\\n",
        "opentill-1.dist-info/WHEEL": "Wheel-Version: 1.0\\nTag: py3-none-any\\n",
        "opentill-1.dist-info/entry_points.txt": "[console_scripts]\\nopentill = opentill:main\\n",
        "opentill-1.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(os.path.join(folder, "opentill-1-py3-none-any.whl"), "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return "opentill-1-py3-none-any.whl"
"""
TIMEOUT_S: Final = 300.0


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a small project and the real Makefile."""
    folder = tmp_path / "a checkout"
    (folder / "src" / "opentill").mkdir(parents=True)
    shutil.copy(TOP / "Makefile", folder)
    (folder / "src" / "opentill" / "__init__.py").write_text("def main():\n    print(__file__)\n")
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "backend.py").write_text(BACKEND)
    for name in ("requirements.lock", "requirements-dev.lock"):
        (folder / name).write_text("# nothing\n")
    return folder


def _environ() -> dict[str, str]:
    left = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    return left | {"PYTHON": sys.executable, "PIP_NO_INDEX": "1"}


def _make(folder: Path, *words: str) -> str:
    ran = subprocess.run(
        ["make", f"PYTHON={sys.executable}", *words], cwd=folder, env=_environ(),
        capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def _code_that_runs(folder: Path) -> str:
    ran = subprocess.run(
        [folder / ".venv" / "bin" / "opentill"], capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


def _source(folder: Path) -> str:
    return str(folder / "src" / "opentill" / "__init__.py")


def _exists(pattern: str) -> Callable[[Path], bool]:
    return lambda folder: any(folder.glob(pattern))


MOMENTS: Final = {
    "the environment has begun": _exists(".venv/bin"),
    "pip is being installed": _exists(".venv/lib/*/site-packages/pip"),
    "pip is there": _exists(".venv/bin/pip"),
    "the project is being installed": _exists(".venv/lib/*/site-packages/opentill.pth"),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupted_make_is_made_good_by_the_next(checkout: Path, moment: str) -> None:
    process = subprocess.Popen(
        ["make", f"PYTHON={sys.executable}", ".venv/stamp"], cwd=checkout, env=_environ(),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    end = time.monotonic() + TIMEOUT_S
    while not MOMENTS[moment](checkout):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    process.wait(TIMEOUT_S)
    _make(checkout, ".venv/stamp")
    assert _code_that_runs(checkout) == _source(checkout)
    assert "Making" not in _make(checkout, ".venv/stamp")


def test_an_update_that_was_interrupted_is_begun_anew(checkout: Path) -> None:
    _make(checkout, ".venv/stamp-dev")
    (checkout / "requirements.lock").write_text("no-such-package==1 --hash=sha256:" + "0" * 64)
    failed = subprocess.run(
        ["make", f"PYTHON={sys.executable}", ".venv/stamp"], cwd=checkout, env=_environ(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert failed.returncode != 0
    (checkout / "requirements.lock").write_text("# nothing\n")
    assert "Making a Python environment" in _make(checkout, ".venv/stamp-dev")
    assert _code_that_runs(checkout) == _source(checkout)


def test_a_checkout_that_was_moved_or_copied_says_so_and_runs_its_own_code(
    checkout: Path,
) -> None:
    _make(checkout, ".venv/stamp-dev")
    copy = checkout.with_name("copy")
    shutil.copytree(checkout, copy, symlinks=True)
    assert _code_that_runs(copy) == _source(checkout)  # which `make` must not leave so
    output = _make(copy, ".venv/stamp-dev")
    assert "was moved or copied" in output
    assert _code_that_runs(copy) == _source(copy)
    moved = checkout.with_name("moved")
    checkout.rename(moved)
    assert "was moved or copied" in _make(moved, ".venv/stamp")
    assert _code_that_runs(moved) == _source(moved)
    assert _make(copy, ".venv/stamp-dev").strip().endswith("up to date.")
