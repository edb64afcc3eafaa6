"""``make`` repairs a Python environment that was interrupted, moved or copied.

The tests use the real Makefile with a small project that builds itself, so that nothing is
downloaded.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pip
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
# Like hatchling for the real project, this backend installs a path to the source, and a program.
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
# This program creates environments like `python -m venv`, but links pip instead of installing it,
# which takes four seconds of processor time. The test of interruptions installs pip.
LINKING_PYTHON: Final = f"""#!/bin/sh
if [ "$1 $2" = "-m venv" ]; then
    {sys.executable} -m venv --without-pip "$3" &&
    sed -i 's/ --without-pip / /' "$3/pyvenv.cfg" &&
    for packages in "$3"/lib/python3*/site-packages; do
        ln -s {Path(pip.__file__).parent} "$packages/pip"
    done
else
    exec {sys.executable} "$@"
fi
"""
TIMEOUT_S: Final = 300.0


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of the small project with the real Makefile."""
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
    environ = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    return environ | {"PYTHON": sys.executable, "PIP_NO_INDEX": "1"}


@pytest.fixture
def python(tmp_path: Path) -> str:
    """The path of a Python whose environments link pip."""
    program = tmp_path / "python"
    program.write_text(LINKING_PYTHON)
    program.chmod(0o755)
    return str(program)


def _run_make(folder: Path, target: str, python: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", f"PYTHON={python}", target], cwd=folder, env=_environ(),
        capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
    )  # fmt: skip


def _make(folder: Path, target: str, python: str = sys.executable) -> str:
    process = _run_make(folder, target, python)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def _assert_runs(checkout: Path, source: Path | None = None) -> None:
    """Assert that the program of a Git checkout runs the code of the checkout ``source``.

    ``source`` is None for the code of the program's own checkout.
    """
    process = subprocess.run(
        [checkout / ".venv" / "bin" / "opentill"], capture_output=True, text=True, check=True
    )
    expected = (source or checkout) / "src" / "opentill" / "__init__.py"
    assert process.stdout.strip() == str(expected)


# For each stage of an installation, the first file that it creates.
STAGES: Final = {
    "the environment is being created": ".venv/bin",
    "pip is being installed": ".venv/lib/*/site-packages/pip",
    "pip is installed": ".venv/bin/pip",
    "the project is being installed": ".venv/lib/*/site-packages/opentill.pth",
}
# Every run tries the middle of the installation of pip, `make stress` tries all stages.
USUAL_STAGE: Final = "pip is being installed"


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(stage, marks=() if stage == USUAL_STAGE else pytest.mark.stress)
        for stage in STAGES
    ],
)
def test_the_next_make_repairs_an_interrupted_one(checkout: Path, stage: str) -> None:
    process = subprocess.Popen(
        ["make", f"PYTHON={sys.executable}", ".venv/stamp"], cwd=checkout, env=_environ(),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    end = time.monotonic() + TIMEOUT_S
    while not any(checkout.glob(STAGES[stage])):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)  # Ctrl-C in a terminal sends this signal
    process.wait(TIMEOUT_S)
    _make(checkout, ".venv/stamp")
    _assert_runs(checkout)
    assert "Making" not in _make(checkout, ".venv/stamp")


def test_a_failed_update_is_started_again(checkout: Path, python: str) -> None:
    _make(checkout, ".venv/stamp-dev", python)
    (checkout / "requirements.lock").write_text("no-such-package==1 --hash=sha256:" + "0" * 64)
    assert _run_make(checkout, ".venv/stamp", python).returncode != 0
    (checkout / "requirements.lock").write_text("# nothing\n")
    assert "Making a Python environment" in _make(checkout, ".venv/stamp-dev", python)
    _assert_runs(checkout)


def test_make_in_a_moved_or_copied_checkout_installs_its_own_code(
    checkout: Path, python: str
) -> None:
    _make(checkout, ".venv/stamp-dev", python)
    copy = checkout.with_name("copy")
    shutil.copytree(checkout, copy, symlinks=True)
    # Until `make` repairs it, the copy runs the original's source.
    _assert_runs(copy, checkout)
    output = _make(copy, ".venv/stamp-dev", python)
    assert "was moved or copied" in output
    _assert_runs(copy)
    moved = checkout.with_name("moved")
    checkout.rename(moved)
    assert "was moved or copied" in _make(moved, ".venv/stamp", python)
    _assert_runs(moved)
    assert _make(copy, ".venv/stamp-dev", python).strip().endswith("up to date.")
