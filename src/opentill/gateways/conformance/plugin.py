"""A plugin of pytest that ends a run with a table of adapters and cases."""

from collections import Counter
from typing import Any, Final

import pytest

from opentill.gateways.conformance.suite import GatewayTests

_PROPERTY: Final = "opentill conformance"
_GROUPS: Final = ("PaymentCases", "RefundCases", "FaultCases", "CallbackCases", "DepositCases")
_results: Final[dict[str, Counter[tuple[str, str]]]] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the suite, so that the table knows them in every worker process."""
    for item in items:
        tests = getattr(item, "cls", None)
        if isinstance(tests, type) and issubclass(tests, GatewayTests):
            group = next(
                base.__name__
                for base in tests.__mro__
                if item.name.partition("[")[0] in vars(base) and base.__name__ in _GROUPS
            )
            item.user_properties.append(
                (_PROPERTY, f"{tests.__name__.removeprefix('Test')} {group}")
            )


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count the result of a test of the suite."""
    if report.when != "call" and report.outcome == "passed":
        return
    for name, text in report.user_properties:
        if name == _PROPERTY:
            adapter, _, group = str(text).partition(" ")
            _results.setdefault(adapter, Counter())[group, report.outcome] += 1


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table: for each adapter, how many cases of each group passed."""
    if not _results:
        return
    terminalreporter.section("conformance of gateways: passed of run (not applicable)")
    terminalreporter.line("".join([f"{'':16}", *(f"{group:>22}" for group in _GROUPS)]))
    for adapter, counts in sorted(_results.items()):
        cells: list[str] = []
        for group in _GROUPS:
            passed, failed = counts[group, "passed"], counts[group, "failed"]
            skipped = counts[group, "skipped"]
            cells.append(f"{passed}/{passed + failed}" + (f" ({skipped})" if skipped else ""))
        terminalreporter.line("".join([f"{adapter:16}", *(f"{cell:>22}" for cell in cells)]))
