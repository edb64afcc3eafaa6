"""A pytest plugin that runs mutants in one process: change, test, change back.

``pytest -p mutants.session`` reads the plan that ``OPENTILL_MUTANTS`` names. A test that fails is
run again without the mutant: only if it then passes has it killed the mutant. Otherwise it is flaky
or suffers from state of an earlier mutant; it is not counted, and a new process continues.
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

_STALE: Final = 3  # this many failures without the mutant too: start a new process


class Job(msgspec.Struct):
    """A mutant and the tests that may kill it, the likeliest first."""

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
                result, stale = self._judge(job, items)
                file.write(msgspec.json.encode(result) + b"\n")
                if stale:
                    break
        session._setupstate.teardown_exact(None)  # noqa: SLF001 - shared fixtures
        return True

    def _judge(self, job: Job, items: dict[str, pytest.Item]) -> tuple[Result, bool]:
        started = time.monotonic()
        tests = [items[name] for name in job.tests if name in items]
        by, unlucky = "", 0
        others = [*tests[1:], *items.values()]
        for item, following in zip(tests, others, strict=False):
            if following is item:
                continue
            with changed(job.mutant):
                good = _passes(item, following)
            if good:
                continue
            if _passes(item, following):
                by = item.nodeid
                break
            unlucky += 1
            if unlucky == _STALE:
                break
        result = Result(
            name=job.mutant.name,
            kind=job.mutant.kind,
            fate="killed" if by else "survived",
            by=by,
            seconds=round(time.monotonic() - started, 1),
            tests=len(tests),
        )
        return result, unlucky > 0


def _passes(item: pytest.Item, following: pytest.Item) -> bool:
    try:
        # Shared fixtures are kept as long as there is a next item.
        reports = runtestprotocol(item, log=False, nextitem=following)
    except Exception:  # noqa: BLE001 - a plugin may raise for a failed test
        return False
    return all(report.passed for report in reports)


@contextmanager
def changed(mutant: Mutant) -> Iterator[None]:
    """Change the product in this process while the block runs."""
    module = importlib.import_module(mutant.module)
    if not mutant.digest:
        undo = _put(module, mutant)
        try:
            yield
        finally:
            for function, code in undo:
                function.__code__ = code
        return
    name, _, index = mutant.place.partition("[")
    statement = vars(module)[name]
    if index:
        statement = statement[int(index.rstrip("]"))]
    healthy = statement.sql
    statement.sql = mutant.changed
    try:
        yield
    finally:
        statement.sql = healthy


def _put(module: ModuleType, mutant: Mutant) -> list[tuple[FunctionType, CodeType]]:
    """Give the module's functions the code of the mutant; return their original code."""
    file = Path(str(module.__file__))
    text = python.source(mutant, file.read_text())
    new = dict(_codes(compile(text, str(file), "exec")))
    old = dict(_codes(compile(ast.unparse(ast.parse(file.read_text())), str(file), "exec")))
    undo = []
    for function in _functions(vars(module).values(), module.__name__, set()):
        code = new.get(function.__code__.co_qualname)
        if code is not None and code != old.get(function.__code__.co_qualname):
            undo.append((function, function.__code__))
            function.__code__ = code
    return undo


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant.co_qualname, constant
            if not constant.co_flags & 0x3:  # the body of a class: its methods
                yield from _codes(constant)


def _functions(values: Any, module: str, seen: set[int]) -> Iterator[FunctionType]:
    """Yield the functions of a module and of its classes, also behind decorators."""
    for value in values:
        inner = getattr(value, "__wrapped__", None) or getattr(value, "__func__", None)
        inner = inner or getattr(value, "fget", None) or value
        if id(inner) in seen or getattr(inner, "__module__", None) != module:
            continue
        seen.add(id(inner))
        if isinstance(inner, FunctionType):
            yield inner
        elif isinstance(inner, type):
            yield from _functions(vars(inner).values(), module, seen)


def pytest_configure(config: pytest.Config) -> None:
    """Run the plan instead of the collected tests."""
    plan = Path(os.environ["OPENTILL_MUTANTS"])
    jobs = msgspec.json.decode(plan.read_bytes(), type=list[Job])
    config.pluginmanager.register(Session(jobs, plan.with_suffix(".results")))
