"""Choose the tests that cover a mutant, and run them in processes that may hang or fail."""

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from mutants.model import Mutant, Recording, Result
from mutants.session import Job

TOP: Final = Path(__file__).parents[1]
_MOST_TESTS: Final = 150
_STARTING_S: Final = 180.0  # of pytest and PostgreSQL, on a busy machine


def covering(mutant: Mutant, recording: Recording, seconds: float) -> list[str]:
    """Return tests that run a mutant, in turns from every file, up to ``seconds`` in all."""
    by_file: dict[str, list[tuple[int, float, str]]] = defaultdict(list)
    for name, coverage in recording.tests.items():
        if not coverage.passed:
            continue
        if mutant.digest:
            covers = mutant.digest in coverage.statements
        else:
            covers = int(mutant.place) in coverage.lines.get(mutant.module, ())
        if covers:
            # The fewer statements a test runs, the more it is about each of them.
            rank = len(coverage.statements), coverage.seconds, name
            by_file[name.split("::")[0]].append(rank)
    rows = [sorted(tests) for tests in by_file.values()]
    rows.sort()
    chosen: list[str] = []
    spent = 0.0
    for turn in range(max(map(len, rows), default=0)):
        for row in rows:
            if turn < len(row) and spent + row[turn][1] <= seconds and len(chosen) < _MOST_TESTS:
                chosen.append(row[turn][2])
                spent += row[turn][1]
    return chosen


def pytest(arguments: list[str], **environment: str) -> "subprocess.Popen[bytes]":
    """Start pytest on the project."""
    path = os.pathsep.join([str(TOP / "src"), str(TOP)])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    env = os.environ | environment | {"PYTHONPATH": path}
    return subprocess.Popen(command, cwd=TOP, env=env)  # noqa: S603 - our own tests


def run(jobs: list[Job], folder: Path) -> Iterator[Result]:
    """Run mutants and yield their results; a process that hangs is replaced."""
    waiting = list(jobs)
    number = 0
    while waiting:
        number += 1
        plan = folder / f"{number}.plan"
        plan.write_bytes(msgspec.json.encode(waiting))
        results = plan.with_suffix(".results")
        results.touch()
        files = sorted({name.split("::")[0] for job in waiting for name in job.tests})
        with pytest(
            ["-p", "mutants.session", "--tb=native", "--no-header", *files],
            OPENTILL_MUTANTS=str(plan),
        ) as process:
            fresh, hangs = 0, False
            end = time.monotonic() + _STARTING_S
            try:
                while True:
                    over = process.poll() is not None
                    for line in results.read_bytes().splitlines()[fresh:]:
                        fresh += 1
                        end = time.monotonic() + _STARTING_S
                        yield msgspec.json.decode(line, type=Result)
                    if over:
                        break
                    if time.monotonic() > end:
                        hangs = True
                        break
                    time.sleep(0.1)
            finally:
                _end(process)
        waiting = waiting[fresh:]
        if waiting and (hangs or not fresh):
            mutant = waiting.pop(0).mutant
            yield Result(name=mutant.name, kind=mutant.kind, fate="timeout", by="it hangs")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Interrupt pytest, so that it stops PostgreSQL too; kill it if it does not end."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
