"""All SQL statements of the product."""

import importlib
import pkgutil
import re
from collections.abc import Iterable
from typing import Any, Final

import opentill
from opentill.cli.survey_statements import enumerate_variants
from opentill.db.query import Command, Query, Value
from opentill.list_counts.queries import Lists

# Matches the clause of a statement that locks rows.
LOCKS: Final = re.compile(
    r"\bfor\s+(no\s+key\s+)?(update|share|key\s+share)(\s+of\s+\w+)?(\s+skip\s+locked)?\b",
    re.IGNORECASE,
)


def _values() -> Iterable[tuple[str, Any]]:
    """Yield the values of all modules with their names, such as orders.queries.LOCKED.

    ``queries.py`` come first, so that a statement gets its name there.
    """
    names = [module.name for module in pkgutil.walk_packages(opentill.__path__, "opentill.")]
    for module_name in sorted(names, key=lambda name: (not name.endswith(".queries"), name)):
        if not module_name.endswith("__main__"):
            for name, value in vars(importlib.import_module(module_name)).items():
                yield f"{module_name.removeprefix('opentill.')}.{name}", value


def _values_of_modules() -> dict[str, Any]:
    statements: dict[str, Any] = {}
    ids: set[int] = set()
    for name, value in _values():
        for index, each in enumerate_variants(value):
            if isinstance(each, Query | Value | Command) and id(each) not in ids:
                ids.add(id(each))
                statements[f"{name}{index}"] = each
    return statements


EVERYWHERE: Final = (
    _values_of_modules()
)  # all statements by their names, such as orders.queries.LOCKED
# For each list of a merchant's rows, its statements by the filters of a request.
LISTS: Final[dict[str, Lists[Any]]] = {
    name: value
    for name, value in _values()
    if name.endswith((".LISTS", ".ROW_LISTS", ".MONEY_LISTS")) and isinstance(value, dict)
}


def without_comments(sql: str) -> str:
    """Return SQL without comments and on one line."""
    return " ".join(re.sub(r"--[^\n]*", "", sql).split())


LOCKING: Final = {
    name: statement
    for name, statement in EVERYWHERE.items()
    if LOCKS.search(without_comments(statement.sql))
}
