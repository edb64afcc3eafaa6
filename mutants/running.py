"""Running the tests that cover a mutant, in a copy of the project in which it lives."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Final

from mutants import python
from mutants.model import Mutant, Recording, Result

TOP: Final = Path(__file__).parents[1]
_COPIED: Final = ("src", "tests", "migrations", "docs", "benchmarks", "mutants")
_MOST_TESTS: Final = 150
_STARTING_S: Final = 60.0  # of pytest and PostgreSQL, on a busy machine


class Scratch:
    """A copy of the project in which one file at a time is changed."""

    def __init__(self, folder: Path) -> None:
        """Copy the project to ``folder``."""
        self.folder = folder
        for name in _COPIED:
            ignored = shutil.ignore_patterns("__pycache__", "screenshots", "*.egg-info")
            shutil.copytree(TOP / name, folder / name, ignore=ignored)
        for file in TOP.iterdir():
            if file.is_file():
                shutil.copy(file, folder)

    def pytest(self, arguments: list[str], within_s: float, **environment: str) -> tuple[int, str]:
        """Run pytest there; return how it ended (-1: it had to be ended) and what it wrote."""
        path = os.pathsep.join([str(self.folder / "src"), str(self.folder)])
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        with subprocess.Popen(  # noqa: S603 - our own tests
            command,
            cwd=self.folder,
            env=os.environ | environment | {"PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                written, _ = process.communicate(timeout=within_s)
            except subprocess.TimeoutExpired:
                process.terminate()  # an orderly end stops PostgreSQL too
                try:
                    written, _ = process.communicate(timeout=30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    written, _ = process.communicate()
                return -1, written
        return process.returncode, written

    def run(self, mutant: Mutant, tests: list[str], within_s: float) -> Result:
        """See whether any of the tests notices a mutant."""
        started = time.monotonic()
        file = self._file(mutant.module)
        healthy = file.read_text()
        try:
            file.write_text(_changed(mutant, healthy))
            _forget(file)
            code, written = self.pytest(["-x", *tests], within_s)
        finally:
            file.write_text(healthy)
            _forget(file)
        noticed = [line for line in written.splitlines() if line.startswith(("FAILED", "ERROR"))]
        fate = "timeout" if code == -1 else "survived" if code == 0 else "killed"
        by = noticed[0] if noticed else "" if code == 0 else written.strip()[-200:]
        seconds = round(time.monotonic() - started, 1)
        return Result(
            name=mutant.name, kind=mutant.kind, fate=fate, by=by, seconds=seconds, tests=len(tests)
        )

    def _file(self, module: str) -> Path:
        found = importlib.util.find_spec(module)
        if found is None or found.origin is None:
            raise ModuleNotFoundError(module)
        return self.folder / Path(found.origin).relative_to(TOP)


def _changed(mutant: Mutant, text: str) -> str:
    if mutant.digest:
        return f"{text}\n\n{mutant.place}.sql = {mutant.changed!r}\n"
    return python.source(mutant, text)


def _forget(file: Path) -> None:
    """Remove what Python compiled of a file: it would not see a change within a second."""
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()


def covering(mutant: Mutant, recording: Recording, seconds: float) -> list[str]:
    """Return tests that run a mutant, in turns from every file, as long as the time lasts."""
    by_file: dict[str, list[tuple[int, float, str]]] = defaultdict(list)
    for name, seen in recording.tests.items():
        if not seen.passed:
            continue
        if mutant.digest:
            here = mutant.digest in seen.statements
        else:
            here = int(mutant.place) in seen.lines.get(mutant.module, ())
        if here:
            # The fewer statements a test runs, the more it is about each of them.
            by_file[name.split("::")[0]].append((len(seen.statements), seen.seconds, name))
    rows = [sorted(tests) for tests in by_file.values()]
    chosen: list[str] = []
    spent = 0.0
    for turn in range(max(map(len, rows), default=0)):
        for row in rows:
            if turn < len(row) and spent + row[turn][1] <= seconds and len(chosen) < _MOST_TESTS:
                chosen.append(row[turn][2])
                spent += row[turn][1]
    return chosen


def patience(tests: list[str], recording: Recording) -> float:
    """Return how long the tests may take before a mutant counts as one that hangs."""
    return _STARTING_S + 5 * sum(recording.tests[name].seconds for name in tests)
