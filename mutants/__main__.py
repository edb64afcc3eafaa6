"""``python -m mutants``: mutation tests. Change one thing at a time and check that a test fails.

It first records which tests run which statements of SQL and lines of money code (``--record``, or
if there is no recording), then takes a sample of mutants and runs the tests that cover each. Files
are not changed. A mutant that survives shows a rule that no test checks.
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
from mutants.equivalent import reason
from mutants.model import Mutant, Recording, Result
from mutants.running import TOP, covering, pytest, run
from mutants.session import Job

FOLDER: Final = TOP / ".mutants"
# Folders of tests/ that do not run the mutated code, or run it too slowly.
_LEFT_OUT: Final = frozenset({
    "browser", "generated", "image", "outgoing", "sandbox", "stress", "support",
})  # fmt: skip


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--sql", type=int, default=60, metavar="N", help="mutants of SQL")
    parser.add_argument("--python", type=int, default=60, metavar="N", help="mutants of Python")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--only", default="", metavar="TEXT", help="part of the names of mutants")
    parser.add_argument("--minutes", type=float, default=60, help="of running mutants, at most")
    parser.add_argument(
        "--seconds", type=float, default=40, help="recorded duration of the tests of a mutant"
    )
    parser.add_argument("--record", action="store_true", help="record all tests again")
    parser.add_argument(
        "--tests", nargs="+", metavar="PATH", help="record these, and keep the coverage of others"
    )
    parser.add_argument(
        "--again", action="store_true", help="run the survivors of the last run, not a sample"
    )
    parser.add_argument("--list", action="store_true", help="show the sample, run nothing")
    return parser.parse_args()


def main() -> int:
    """Run a sample; 0 if nothing survived."""
    options = arguments()
    FOLDER.mkdir(exist_ok=True)
    last = FOLDER / "last.json"
    chosen = survivors_of(last) if options.again else sample(options)
    if options.list:
        for mutant in chosen:
            print_line(mutant.name)
        return 0
    with tempfile.TemporaryDirectory(prefix="opentill-mutants-") as folder:
        recording = load_or_record(options, Path(folder))
        results: list[Result] = []
        end = time.monotonic() + options.minutes * 60
        for result in judge(chosen, recording, options.seconds, Path(folder)):
            results.append(result)
            by = f"  by {result.by}" if result.by else ""
            print_line(f"{len(results):4}/{len(chosen)} {result.fate:10} {result.name}{by[:160]}")
            last.write_bytes(msgspec.json.encode(results))
            if time.monotonic() > end:
                print_line(f"Out of time: {len(chosen) - len(results)} were not run.")
                break
    return print_summary(results)


def judge(
    mutants: list[Mutant], recording: Recording, seconds: float, folder: Path
) -> Iterator[Result]:
    """Yield the result of each mutant."""
    jobs = []
    for mutant in mutants:
        why = reason(mutant)
        tests = covering(mutant, recording, seconds)
        if why is not None:
            yield Result(name=mutant.name, kind=mutant.kind, fate="equivalent", by=why)
        elif tests:
            jobs.append(Job(mutant, tests))
        else:
            yield Result(name=mutant.name, kind=mutant.kind, fate="uncovered")
    yield from run(jobs, folder)


def load_or_record(options: argparse.Namespace, folder: Path) -> Recording:
    """Load the coverage of the tests, or record it."""
    file_of_recording = FOLDER / "recording.json"
    recording = Recording()
    if file_of_recording.exists() and not options.record:
        recording = msgspec.json.decode(file_of_recording.read_bytes(), type=Recording)
        if not options.tests:
            return recording
    where = options.tests or sorted(
        str(path)
        for path in Path("tests").iterdir()
        if (path.is_dir() and path.name not in _LEFT_OUT and any(path.glob("test_*.py")))
        or path.match("test_*.py")
    )
    print_line(f"Recording what {' '.join(where)} cover …")
    ways = ["-p", "mutants.recording", "-n", "2", "-m", "not stress and not browser"]
    with pytest([*ways, *where], OPENTILL_RECORDING=str(folder / "recorded")):
        pass
    for file in (folder / "recorded").glob("*.json"):
        recording.tests |= msgspec.json.decode(file.read_bytes(), type=Recording).tests
    file_of_recording.write_bytes(msgspec.json.encode(recording))
    return recording


def sample(options: argparse.Namespace) -> list[Mutant]:
    """Choose mutants at random, in turns from every module."""
    rng = random.Random(options.seed)  # noqa: S311 - no secret
    of_sql = _spread(sql.mutants(), options.sql, options.only, rng)
    return of_sql + _spread(python.mutants(), options.python, options.only, rng)


def _spread(mutants: Iterable[Mutant], count: int, only: str, rng: random.Random) -> list[Mutant]:
    rows: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants if count else ():
        if only in mutant.name:
            rows[mutant.module].append(mutant)
    for row in rows.values():
        rng.shuffle(row)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(rows.values()):
        waiting = [row for row in rows.values() if row]
        rng.shuffle(waiting)
        chosen += [row.pop() for row in waiting][: count - len(chosen)]
    return chosen


def survivors_of(last: Path) -> list[Mutant]:
    """Return the mutants that survived the last run."""
    results = msgspec.json.decode(last.read_bytes(), type=list[Result])
    names = {result.name for result in results if result.fate in {"survived", "uncovered"}}
    everything = [*sql.mutants(), *python.mutants()]
    return [mutant for mutant in everything if mutant.name in names]


def print_summary(results: list[Result]) -> int:
    """Print how many mutants were killed, by kind, and the others; return 1 if any was missed."""
    print_line("")
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        kinds[result.kind][result.fate] += 1
        kinds["all"][result.fate] += 1
    for kind, fates in kinds.items():
        killed = fates["killed"] + fates["timeout"]
        total = fates.total() - fates["equivalent"]
        print_line(
            f"{kind:12} {killed:4} of {total:4} killed  {100 * killed / max(total, 1):5.1f} %"
        )
    missed = [result for result in results if result.fate in {"survived", "uncovered"}]
    for result in missed:
        print_line(f"{result.fate:10} {result.name}")
    return 1 if missed else 0


def print_line(line: str) -> None:
    """Print a line and flush it."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
