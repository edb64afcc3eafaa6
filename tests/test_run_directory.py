"""A run of the tests frees the memory that runs before it left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from support.run_directory import run_directory

HELD = """
import signal, sys
from pathlib import Path
from support.run_directory import run_directory
with run_directory(Path(sys.argv[1])) as path:
    (path / "postgres").write_bytes(b"x")
    print(path, flush=True)
    signal.pause()
"""


def _start_run(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a process that holds a run's directory, and return the directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", HELD, str(parent)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": "tests"},
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def _kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_directories_of_killed_runs_are_removed_but_the_newest(tmp_path: Path) -> None:
    """A run that still lives keeps its files, and so does the last one that was killed."""
    living, living_path = _start_run(tmp_path)
    killed = []
    for age_s in (30, 20, 10):
        process, path = _start_run(tmp_path)
        _kill(process)
        changed = path.stat().st_mtime - age_s
        os.utime(path, (changed, changed))
        killed.append(path)
    try:
        with run_directory(tmp_path) as own:
            assert set(tmp_path.iterdir()) == {living_path, killed[-1], own}
            assert (living_path / "postgres").exists()
    finally:
        _kill(living)
    with run_directory(tmp_path) as next_run:
        assert set(tmp_path.iterdir()) == {own, next_run}
