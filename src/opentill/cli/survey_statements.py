"""All statements by name. Importing this module imports every feature."""

import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Final, cast

import opentill
from opentill.db.query import Command, Query, Statement, Value


def modules() -> list[ModuleType]:
    """Return the modules with statements: ``queries`` and ``…_queries``."""
    top = Path(opentill.__file__).parent
    files = (path.relative_to(top.parent) for path in sorted(top.rglob("*queries.py")))
    return [importlib.import_module(".".join(path.with_suffix("").parts)) for path in files]


def enumerate_variants(value: object) -> Iterable[tuple[object, object]]:
    """Return the statements under one name, such as variants of a list, each with a suffix."""
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


def _all_statements() -> Mapping[str, Statement]:
    statements: dict[str, Statement] = {}
    for module in modules():
        module_name = module.__name__.removeprefix("opentill.")
        for name, value in vars(module).items():
            for index, statement in enumerate_variants(value):
                if isinstance(statement, Query | Value | Command):
                    statements[f"{module_name}.{name}{index}"] = statement
    return statements


STATEMENTS: Final = _all_statements()  # by module and name, such as orders.queries.LOCKED
