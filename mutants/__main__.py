"""``python -m mutants``: break one thing at a time, and see whether a test notices.

It first records which tests run which statements and lines of money (``--record``, or when there
is no recording), then takes a sample of mutants and runs, for each, the tests that cover it. Files
stay as they are. What survives is a rule that no test looks at.
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
# Folders of tests/ that run nothing of what is mutated, or run it too slowly.
_LEFT_OUT: Final = frozenset({
    "browser", "generated", "image", "outgoing", "sandbox", "stress", "support",
})  # fmt: skip


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--sql", type=int, default=60, metavar="N", help="mutants of SQL")
    parser.add_argument("--python", type=int, default=60, metavar="N", help="mutants of Python")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--only", default="", metavar="TEXT", help="those with this in their name")
    parser.add_argument("--minutes", type=float, default=60, help="after which no more is begun")
    parser.add_argument(
        "--seconds", type=float, default=40, help="of tests for each mutant, as they were recorded"
    )
    parser.add_argument("--record", action="store_true", help="record anew what tests cover")
    parser.add_argument(
        "--tests", nargs="+", metavar="PATH", help="record these, and keep what is known of others"
    )
    parser.add_argument(
        "--again", action="store_true", help="instead of a sample those that survived last time"
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
            say(mutant.name)
        return 0
    with tempfile.TemporaryDirectory(prefix="opentill-mutants-") as folder:
        recording = load_or_record(options, Path(folder))
        results: list[Result] = []
        end = time.monotonic() + options.minutes * 60
        for result in judge(chosen, recording, options.seconds, Path(folder)):
            results.append(result)
            by = f"  by {result.by}" if result.by else ""
            say(f"{len(results):4}/{len(chosen)} {result.fate:10} {result.name}{by[:160]}")
            last.write_bytes(msgspec.json.encode(results))
            if time.monotonic() > end:
                say(f"The time is over: {len(chosen) - len(results)} were not run.")
                break
    return summary(results)


def judge(
    mutants: list[Mutant], recording: Recording, seconds: float, folder: Path
) -> Iterator[Result]:
    """Yield what becomes of mutants."""
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
    """Return what tests cover: as it was recorded, or recorded now."""
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
    say(f"Recording what {' '.join(where)} cover …")
    ways = ["-p", "mutants.recording", "-n", "2", "-m", "not stress and not browser"]
    with pytest([*ways, *where], OPENTILL_RECORDING=str(folder / "recorded")):
        pass
    for file in (folder / "recorded").glob("*.json"):
        recording.tests |= msgspec.json.decode(file.read_bytes(), type=Recording).tests
    file_of_recording.write_bytes(msgspec.json.encode(recording))
    return recording


def sample(options: argparse.Namespace) -> list[Mutant]:
    """Choose mutants: by chance, in turns from every module."""
    rng = random.Random(options.seed)  # noqa: S311 - no secret
    some = _spread(sql.mutants(), options.sql, options.only, rng)
    return some + _spread(python.mutants(), options.python, options.only, rng)


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
    """Return those that survived last time."""
    results = msgspec.json.decode(last.read_bytes(), type=list[Result])
    names = {result.name for result in results if result.fate in {"survived", "uncovered"}}
    everything = [*sql.mutants(), *python.mutants()]
    return [mutant for mutant in everything if mutant.name in names]


def summary(results: list[Result]) -> int:
    """Say how many were noticed, by kind, and name those that were not."""
    say("")
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        kinds[result.kind][result.fate] += 1
        kinds["all"][result.fate] += 1
    for kind, fates in kinds.items():
        noticed = fates["killed"] + fates["timeout"]
        total = fates.total() - fates["equivalent"]
        say(f"{kind:12} {noticed:4} of {total:4} noticed  {100 * noticed / max(total, 1):5.1f} %")
    missed = [result for result in results if result.fate in {"survived", "uncovered"}]
    for result in missed:
        say(f"{result.fate:10} {result.name}")
    return 1 if missed else 0


def say(line: str) -> None:
    """Write a line at once."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
