"""All statements of this OpenTill by name. To import this imports every feature."""

import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Final, cast

import opentill
from opentill.db.query import Command, Query, Statement, Value


def modules() -> list[ModuleType]:
    """Return the modules that statements stand in: each ``queries`` and each ``…_queries``."""
    top = Path(opentill.__file__).parent
    files = (path.relative_to(top.parent) for path in sorted(top.rglob("*queries.py")))
    return [importlib.import_module(".".join(path.with_suffix("").parts)) for path in files]


def several(value: object) -> Iterable[tuple[object, object]]:
    """Number the statements of what a module has under one name: of a list, by its filters."""
    if isinstance(value, dict):
        return (
            ("_BY_".join(["", *cast("tuple[str, ...]", filters)]).upper() + str(index), statement)
            for filters, statements in cast("dict[object, object]", value).items()
            if isinstance(filters, tuple | frozenset) and isinstance(statements, tuple)
            for index, statement in enumerate(cast("tuple[object, ...]", statements))
        )
    if isinstance(value, tuple):
        return enumerate(cast("tuple[object, ...]", value))
    return [("", value)]


def _found() -> Mapping[str, Statement]:
    found: dict[str, Statement] = {}
    for module in modules():
        place = module.__name__.removeprefix("opentill.")
        for name, value in vars(module).items():
            for index, one in several(value):
                if isinstance(one, Query | Value | Command):
                    found[f"{place}.{name}{index}"] = one
    return found


STATEMENTS: Final = _found()  # by module and name, such as orders.queries.LOCKED
