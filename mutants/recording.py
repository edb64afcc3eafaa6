"""A pytest plugin that records which statements and lines of money code each test runs.

``pytest -p mutants.recording`` writes to the folder ``OPENTILL_RECORDING``.
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

# They check every statement against the schema or the conventions, whatever it does.
_LEFT_OUT: Final = ("tests/test_queries.py", "tests/test_tidy.py", "tests/test_benchmarks.py")


class Recorder:
    """Records the coverage of the test that is running."""

    def __init__(self, folder: Path) -> None:
        """Write to ``folder`` at the end."""
        self._folder = folder
        self._recording = Recording()
        self._now = Coverage()
        package = Path(query.__file__).parents[1]
        self._files = {str(package / f"{m.replace('.', '/')}.py"): f"opentill.{m}" for m in MODULES}
        self._coverage = coverage.Coverage(
            data_file=None, include=list(self._files), config_file=False
        )

    def start(self) -> None:
        """Begin to record reads of ``sql`` of statements, and lines that are run."""
        for kind in (query.Query, query.Value, query.Command):
            kind.sql = property(self._get, _set)  # type: ignore[assignment,union-attr]
        self._coverage.start()

    def _get(self, statement: Any) -> str:
        text: str = vars(statement)["sql"]
        self._now.statements.add(digest(text))
        return text

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Begin the coverage of a test."""
        self._now = Coverage()
        if not item.nodeid.startswith(_LEFT_OUT):
            self._recording.tests[item.nodeid] = self._now
        self._coverage.switch_context(item.nodeid)
        result = yield
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase's duration; a test that failed or was skipped covers nothing."""
        self._now.seconds += report.duration
        self._now.passed = self._now.passed and report.passed

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


def _set(statement: Any, text: str) -> None:
    vars(statement)["sql"] = text


def pytest_configure(config: pytest.Config) -> None:
    """Record where tests run: here, or in the workers of xdist."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        recorder = Recorder(Path(os.environ["OPENTILL_RECORDING"]))
        config.pluginmanager.register(recorder)
        recorder.start()
