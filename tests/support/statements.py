"""Every statement of the product, wherever it stands."""

import importlib
import pkgutil
import re
from typing import Any, Final

import opentill
from opentill.db.query import Command, Query, Value

# A clause that locks rows; comments of SQL are no part of it.
LOCKS: Final = re.compile(
    r"\bfor\s+(no\s+key\s+)?(update|share|key\s+share)(\s+of\s+\w+)?(\s+skip\s+locked)?\b",
    re.IGNORECASE,
)


def _everywhere() -> dict[str, Any]:
    found: dict[str, Any] = {}
    seen: set[int] = set()
    names = [module.name for module in pkgutil.walk_packages(opentill.__path__, "opentill.")]
    for module_name in sorted(names, key=lambda name: (not name.endswith(".queries"), name)):
        if module_name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module_name)).items():
            several = enumerate(value) if isinstance(value, tuple) else [("", value)]
            for index, one in several:
                if isinstance(one, Query | Value | Command) and id(one) not in seen:
                    seen.add(id(one))
                    found[f"{module_name.removeprefix('opentill.')}.{name}{index}"] = one
    return found


EVERYWHERE: Final = _everywhere()  # by module and name, such as orders.queries.LOCKED


def without_comments(sql: str) -> str:
    """Return SQL on one line, without what is only for people."""
    return " ".join(re.sub(r"--[^\n]*", "", sql).split())


LOCKING: Final = {
    name: statement
    for name, statement in EVERYWHERE.items()
    if LOCKS.search(without_comments(statement.sql))
}
