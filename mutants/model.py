"""Mutants, their results, and the recorded coverage of tests."""

from typing import Literal

import msgspec

Fate = Literal["killed", "timeout", "survived", "uncovered", "equivalent"]


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one statement or line, which should make a test fail."""

    module: str  # opentill.orders.queries
    place: str  # a constant of SQL such as INSERT or RULES[1]; a line number of Python
    kind: str
    what: str  # for people: the old text and the new
    digest: str  # of the statement, "" for Python
    changed: str  # SQL: the whole changed statement; Python: number of the node and variant

    @property
    def name(self) -> str:
        """An identifier, valid until the code changes."""
        return f"{self.module.removeprefix('opentill.')}:{self.place} {self.kind}: {self.what}"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a mutant."""

    name: str
    kind: str
    fate: Fate
    by: str = ""  # the test that failed, or why no test can fail
    seconds: float = 0.0
    tests: int = 0


class Coverage(msgspec.Struct, kw_only=True):
    """What a test runs: digests of statements, and lines by module."""

    seconds: float = 0.0
    passed: bool = True
    statements: set[str] = msgspec.field(default_factory=set)
    lines: dict[str, set[int]] = msgspec.field(default_factory=dict)


class Recording(msgspec.Struct, kw_only=True):
    """The coverage of every test, by its id."""

    tests: dict[str, Coverage] = msgspec.field(default_factory=dict)
