"""A pytest plugin that records which SQL statements and lines of money code each test runs.

``pytest -p mutants.recording`` writes to the folder that ``OPENTILL_RECORDING`` names.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import coverage
import msgspec
import pytest

from mutants.model import Coverage, Recording
from mutants.python import MODULES
from mutants.sql import digest
from opentill.db import query

# These tests are not recorded, because they read every statement to check its schema or form.
_EXCLUDED: Final = ("tests/test_queries.py", "tests/test_tidy.py", "tests/test_benchmarks.py")


class Recorder:
    """Records the coverage of the test that is running."""

    def __init__(self, folder: Path) -> None:
        """The recording is written to ``folder`` when the session ends."""
        self._folder = folder
        self._recording = Recording()
        self._current = Coverage()
        package = Path(query.__file__).parents[1]
        self._files = {str(package / f"{m.replace('.', '/')}.py"): f"opentill.{m}" for m in MODULES}
        self._coverage = coverage.Coverage(
            data_file=None, include=list(self._files), config_file=False
        )

    def start(self) -> None:
        """Start to record which statements' ``sql`` is read, and which lines are run."""
        for kind in (query.Query, query.Value, query.Command):
            kind.sql = property(self._get, _set)  # type: ignore[assignment,union-attr]
        self._coverage.start()

    def _get(self, statement: Any) -> str:
        sql: str = vars(statement)["sql"]
        self._current.statements.add(digest(sql))
        return sql

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Start the coverage of a test."""
        self._current = Coverage()
        if not item.nodeid.startswith(_EXCLUDED):
            self._recording.tests[item.nodeid] = self._current
        self._coverage.switch_context(item.nodeid)
        result = yield
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the duration of a phase. Tests that failed or were skipped are not used later."""
        self._current.seconds += report.duration
        self._current.passed = self._current.passed and report.passed

    def pytest_sessionfinish(self) -> None:
        """Write the recording."""
        self._coverage.stop()
        data = self._coverage.get_data()
        for file, module in self._files.items():
            for line, tests in data.contexts_by_lineno(file).items():
                for test in tests:
                    if test in self._recording.tests:
                        lines = self._recording.tests[test].lines
                        lines.setdefault(module, set()).add(line)
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{os.getpid()}.json"
        path.write_bytes(msgspec.json.encode(self._recording))


def _set(statement: Any, sql: str) -> None:
    vars(statement)["sql"] = sql


def pytest_configure(config: pytest.Config) -> None:
    """Record in the processes that run tests: this one, or the workers of xdist."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        recorder = Recorder(Path(os.environ["OPENTILL_RECORDING"]))
        config.pluginmanager.register(recorder)
        recorder.start()
