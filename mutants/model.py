"""Mutants, their results, and the recorded coverage of tests."""

from typing import Literal

import msgspec

Status = Literal["killed", "timeout", "survived", "uncovered", "equivalent"]


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one SQL statement or line of Python, which should make a test fail."""

    module: str  # such as opentill.orders.queries
    location: str  # of SQL: the constant, such as INSERT or RULES[1]; of Python: the line number
    kind: str
    description: str  # the old text and the new one
    digest: str  # a digest of the SQL statement; "" for Python
    replacement: str  # the changed statement; for Python the number of the node and the variant

    @property
    def name(self) -> str:
        """An identifier, valid until the code changes."""
        module = self.module.removeprefix("opentill.")
        return f"{module}:{self.location} {self.kind}: {self.description}"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of running a mutant's tests."""

    name: str
    kind: str
    status: Status
    detail: str = ""  # the test that failed, or the reason why no test can fail
    seconds: float = 0.0
    tests: int = 0


class Coverage(msgspec.Struct, kw_only=True):
    """The digests of statements, and the lines by module, that a test runs."""

    seconds: float = 0.0
    passed: bool = True
    statements: set[str] = msgspec.field(default_factory=set)
    lines: dict[str, set[int]] = msgspec.field(default_factory=dict)


class Recording(msgspec.Struct, kw_only=True):
    """The coverage of every test, by its id."""

    tests: dict[str, Coverage] = msgspec.field(default_factory=dict)
