"""``python -m mutants`` runs mutation tests: it changes one thing at a time and runs the tests.

First it records which tests run which SQL statements and lines of money code (with ``--record``, or
if there is no recording). Then it draws a sample of mutants and runs the tests that cover each of
them. Files are not changed. A surviving mutant shows a rule that no test checks.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from mutants import python, sql
from mutants.equivalent import find_equivalence
from mutants.model import Mutant, Recording, Result
from mutants.running import TOP, run_jobs, select_tests, start_pytest
from mutants.session import Job

FOLDER: Final = TOP / ".mutants"
# Folders in tests/ that are left out, because they do not run the mutated code or take too long.
_EXCLUDED: Final = frozenset({
    "browser", "generated", "image", "outgoing", "sandbox", "stress", "support",
})  # fmt: skip


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--sql", type=int, default=60, metavar="N", help="mutants of SQL")
    parser.add_argument("--python", type=int, default=60, metavar="N", help="mutants of Python")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="mutants whose names contain TEXT"
    )
    parser.add_argument("--minutes", type=float, default=60, help="stop after this time")
    parser.add_argument(
        "--seconds", type=float, default=40, help="longest total duration of a mutant's tests"
    )
    parser.add_argument("--record", action="store_true", help="record the coverage of all tests")
    parser.add_argument(
        "--tests", nargs="+", metavar="PATH", help="record the coverage of these tests only"
    )
    parser.add_argument(
        "--again", action="store_true", help="run the survivors of the last run, not a sample"
    )
    parser.add_argument("--list", action="store_true", help="show the sample and run nothing")
    return parser.parse_args()


def main() -> int:
    """Run a sample of mutants; return 0 if all were killed."""
    options = parse_arguments()
    FOLDER.mkdir(exist_ok=True)
    last_results = FOLDER / "last.json"
    mutants = load_survivors(last_results) if options.again else draw_sample(options)
    if options.list:
        for mutant in mutants:
            print_line(mutant.name)
        return 0
    with tempfile.TemporaryDirectory(prefix="opentill-mutants-") as folder:
        recording = load_or_record(options, Path(folder))
        results: list[Result] = []
        deadline = time.monotonic() + options.minutes * 60
        for result in judge_mutants(mutants, recording, options.seconds, Path(folder)):
            results.append(result)
            detail = f"  by {result.detail}" if result.detail else ""
            number = f"{len(results):4}/{len(mutants)}"
            print_line(f"{number} {result.status:10} {result.name}{detail[:160]}")
            last_results.write_bytes(msgspec.json.encode(results))
            if time.monotonic() > deadline:
                print_line(f"Out of time: {len(mutants) - len(results)} were not run.")
                break
    return print_summary(results)


def judge_mutants(
    mutants: list[Mutant], recording: Recording, seconds: float, folder: Path
) -> Iterator[Result]:
    """Yield the result of each mutant."""
    jobs = []
    for mutant in mutants:
        reason = find_equivalence(mutant)
        tests = select_tests(mutant, recording, seconds)
        if reason is not None:
            yield Result(name=mutant.name, kind=mutant.kind, status="equivalent", detail=reason)
        elif tests:
            jobs.append(Job(mutant, tests))
        else:
            yield Result(name=mutant.name, kind=mutant.kind, status="uncovered")
    yield from run_jobs(jobs, folder)


def load_or_record(options: argparse.Namespace, folder: Path) -> Recording:
    """Load the coverage of the tests, or record it."""
    path_of_recording = FOLDER / "recording.json"
    recording = Recording()
    if path_of_recording.exists() and not options.record:
        recording = msgspec.json.decode(path_of_recording.read_bytes(), type=Recording)
        if not options.tests:
            return recording
    paths = options.tests or sorted(
        str(path)
        for path in Path("tests").iterdir()
        if (path.is_dir() and path.name not in _EXCLUDED and any(path.glob("test_*.py")))
        or path.match("test_*.py")
    )
    print_line(f"Recording what {' '.join(paths)} cover …")
    arguments = ["-p", "mutants.recording", "-n", "2", "-m", "not stress and not browser"]
    with start_pytest([*arguments, *paths], OPENTILL_RECORDING=str(folder / "recorded")):
        pass
    for file in (folder / "recorded").glob("*.json"):
        recording.tests |= msgspec.json.decode(file.read_bytes(), type=Recording).tests
    path_of_recording.write_bytes(msgspec.json.encode(recording))
    return recording


def draw_sample(options: argparse.Namespace) -> list[Mutant]:
    """Draw mutants at random, in turns from every module."""
    rng = random.Random(options.seed)  # noqa: S311 - no secret
    sql_sample = _draw(sql.mutants(), options.sql, options.only, rng)
    return sql_sample + _draw(python.mutants(), options.python, options.only, rng)


def _draw(mutants: Iterable[Mutant], count: int, only: str, rng: random.Random) -> list[Mutant]:
    by_module: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants if count else ():
        if only in mutant.name:
            by_module[mutant.module].append(mutant)
    for module_mutants in by_module.values():
        rng.shuffle(module_mutants)
    sample: list[Mutant] = []
    while len(sample) < count and any(by_module.values()):
        remaining = [module_mutants for module_mutants in by_module.values() if module_mutants]
        rng.shuffle(remaining)
        sample += [module_mutants.pop() for module_mutants in remaining][: count - len(sample)]
    return sample


def load_survivors(last_results: Path) -> list[Mutant]:
    """Return the mutants that survived the last run."""
    results = msgspec.json.decode(last_results.read_bytes(), type=list[Result])
    names = {result.name for result in results if result.status in {"survived", "uncovered"}}
    return [mutant for mutant in (*sql.mutants(), *python.mutants()) if mutant.name in names]


def print_summary(results: list[Result]) -> int:
    """Print how many mutants were killed, by kind, and the survivors; return 1 if there are any."""
    print_line("")
    counts_by_kind: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        counts_by_kind[result.kind][result.status] += 1
        counts_by_kind["all"][result.status] += 1
    for kind, counts in counts_by_kind.items():
        killed = counts["killed"] + counts["timeout"]
        total = counts.total() - counts["equivalent"]
        print_line(
            f"{kind:12} {killed:4} of {total:4} killed  {100 * killed / max(total, 1):5.1f} %"
        )
    survivors = [result for result in results if result.status in {"survived", "uncovered"}]
    for result in survivors:
        print_line(f"{result.status:10} {result.name}")
    return 1 if survivors else 0


def print_line(line: str) -> None:
    """Print a line and flush it."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
