"""Select the tests that cover a mutant, and run them in processes that may hang or fail."""

import itertools
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
_MAX_TESTS: Final = 150
_START_TIMEOUT_S: Final = 180.0  # pytest and PostgreSQL start in this time, even on a busy machine


def select_tests(mutant: Mutant, recording: Recording, seconds: float) -> list[str]:
    """Return tests that cover a mutant, in turns from every file, of ``seconds`` in total."""
    by_file: dict[str, list[tuple[int, float, str]]] = defaultdict(list)
    for name, coverage in recording.tests.items():
        if not coverage.passed:
            continue
        if mutant.digest:
            covers = mutant.digest in coverage.statements
        else:
            covers = int(mutant.location) in coverage.lines.get(mutant.module, ())
        if covers:
            # Prefer tests that run few statements, because these probably check each of them.
            rank = len(coverage.statements), coverage.seconds, name
            by_file[name.split("::")[0]].append(rank)
    ranked_files = sorted(sorted(ranks) for ranks in by_file.values())
    selected: list[str] = []
    total_s = 0.0
    for turn in itertools.zip_longest(*ranked_files):
        for _, duration, name in filter(None, turn):
            if total_s + duration <= seconds and len(selected) < _MAX_TESTS:
                selected.append(name)
                total_s += duration
    return selected


def start_pytest(arguments: list[str], **environment: str) -> "subprocess.Popen[bytes]":
    """Start pytest in the project's folder."""
    path = os.pathsep.join([str(TOP / "src"), str(TOP)])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    env = os.environ | environment | {"PYTHONPATH": path}
    return subprocess.Popen(command, cwd=TOP, env=env)  # noqa: S603 - our own tests


def run_jobs(jobs: list[Job], folder: Path) -> Iterator[Result]:
    """Run mutants and yield their results. A process that hangs is replaced by a new one."""
    remaining = list(jobs)
    number = 0
    while remaining:
        number += 1
        plan = folder / f"{number}.plan"
        plan.write_bytes(msgspec.json.encode(remaining))
        results = plan.with_suffix(".results")
        results.touch()
        files = sorted({name.split("::")[0] for job in remaining for name in job.tests})
        with start_pytest(
            ["-p", "mutants.session", "--tb=native", "--no-header", *files],
            OPENTILL_MUTANTS=str(plan),
        ) as process:
            result_count, hangs = 0, False
            deadline = time.monotonic() + _START_TIMEOUT_S
            try:
                while True:
                    has_ended = process.poll() is not None
                    for line in results.read_bytes().splitlines()[result_count:]:
                        result_count += 1
                        deadline = time.monotonic() + _START_TIMEOUT_S
                        yield msgspec.json.decode(line, type=Result)
                    if has_ended:
                        break
                    if time.monotonic() > deadline:
                        hangs = True
                        break
                    time.sleep(0.1)
            finally:
                _stop(process)
        remaining = remaining[result_count:]
        if remaining and (hangs or not result_count):
            mutant = remaining.pop(0).mutant
            detail = "the process hung or ended without a result"
            yield Result(name=mutant.name, kind=mutant.kind, status="timeout", detail=detail)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Interrupt pytest, so that it stops PostgreSQL too, and kill it if it does not end."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
