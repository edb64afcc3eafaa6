"""A pytest plugin that applies each mutant in this process, runs its tests and reverts it.

``pytest -p mutants.session`` reads the plan that ``OPENTILL_MUTANTS`` names. A failed test is run
again without the mutant. If it passes then, it has killed the mutant. Otherwise it is flaky, or an
earlier mutant left state behind: it does not count, and a new process runs the remaining mutants.
"""

import ast
import importlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import msgspec
import pytest
from _pytest.runner import runtestprotocol

from mutants import python
from mutants.model import Mutant, Result

# If this many tests have failed although the mutant was not active, no more tests are run.
_MAX_FALSE_FAILURES: Final = 3


class Job(msgspec.Struct):
    """A mutant and the tests that may kill it, the most promising first."""

    mutant: Mutant
    tests: list[str]


class Session:
    """Runs jobs in place of the collected tests."""

    def __init__(self, jobs: list[Job], results: Path) -> None:
        """Write each result as a line of ``results``."""
        self._jobs = jobs
        self._results = results

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the jobs."""
        items = {item.nodeid: item for item in session.items}
        with self._results.open("ab", buffering=0) as file:
            for job in self._jobs:
                result, has_false_failures = self._judge(job, items)
                file.write(msgspec.json.encode(result) + b"\n")
                if has_false_failures:
                    break
        session._setupstate.teardown_exact(None)  # noqa: SLF001 - shared fixtures
        return True

    def _judge(self, job: Job, items: dict[str, pytest.Item]) -> tuple[Result, bool]:
        started = time.monotonic()
        tests = [items[name] for name in job.tests if name in items]
        killer, false_failures = "", 0
        next_items = [*tests[1:], *items.values()]
        for item, next_item in zip(tests, next_items, strict=False):
            if next_item is item:
                continue
            with applied(job.mutant):
                passes_with_mutant = _passes(item, next_item)
            if passes_with_mutant:
                continue
            if _passes(item, next_item):
                killer = item.nodeid
                break
            false_failures += 1
            if false_failures == _MAX_FALSE_FAILURES:
                break
        result = Result(
            name=job.mutant.name,
            kind=job.mutant.kind,
            status="killed" if killer else "survived",
            detail=killer,
            seconds=round(time.monotonic() - started, 1),
            tests=len(tests),
        )
        return result, false_failures > 0


def _passes(item: pytest.Item, next_item: pytest.Item) -> bool:
    try:
        # With ``nextitem``, pytest keeps the shared fixtures that the next test needs.
        reports = runtestprotocol(item, log=False, nextitem=next_item)
    except Exception:  # noqa: BLE001 - a plugin may raise for a failed test
        return False
    return all(report.passed for report in reports)


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Apply a mutant to the code of this process while the block runs."""
    module = importlib.import_module(mutant.module)
    if not mutant.digest:
        original_codes = _replace_code(module, mutant)
        try:
            yield
        finally:
            for function, code in original_codes:
                function.__code__ = code
        return
    name, _, index = mutant.location.partition("[")
    statement = vars(module)[name]
    if index:
        statement = statement[int(index.rstrip("]"))]
    original_sql = statement.sql
    statement.sql = mutant.replacement
    try:
        yield
    finally:
        statement.sql = original_sql


def _replace_code(module: ModuleType, mutant: Mutant) -> list[tuple[FunctionType, CodeType]]:
    """Give functions of the module the mutant's code; return them with their original code."""
    file = Path(str(module.__file__))
    source = file.read_text()
    mutated = dict(_codes(compile(python.apply_mutant(mutant, source), str(file), "exec")))
    # Unparse the original too, so that its line numbers equal those of the mutant's source.
    unchanged = dict(_codes(compile(ast.unparse(ast.parse(source)), str(file), "exec")))
    original_codes = []
    for function in _functions(vars(module).values(), module.__name__, set()):
        code = mutated.get(function.__code__.co_qualname)
        if code is not None and code != unchanged.get(function.__code__.co_qualname):
            original_codes.append((function, function.__code__))
            function.__code__ = code
    return original_codes


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant.co_qualname, constant
            # The code of a class: its constants include its methods.
            if not constant.co_flags & 0x3:
                yield from _codes(constant)


def _functions(values: Any, module: str, visited: set[int]) -> Iterator[FunctionType]:
    """Yield the functions of a module and its classes, without their decorators."""
    for value in values:
        unwrapped = getattr(value, "__wrapped__", None) or getattr(value, "__func__", None)
        unwrapped = unwrapped or getattr(value, "fget", None) or value
        if id(unwrapped) in visited or getattr(unwrapped, "__module__", None) != module:
            continue
        visited.add(id(unwrapped))
        if isinstance(unwrapped, FunctionType):
            yield unwrapped
        elif isinstance(unwrapped, type):
            yield from _functions(vars(unwrapped).values(), module, visited)


def pytest_configure(config: pytest.Config) -> None:
    """Run the plan instead of the collected tests."""
    plan = Path(os.environ["OPENTILL_MUTANTS"])
    jobs = msgspec.json.decode(plan.read_bytes(), type=list[Job])
    config.pluginmanager.register(Session(jobs, plan.with_suffix(".results")))
