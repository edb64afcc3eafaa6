"""What a mutant is, and what became of it."""

from typing import Literal

import msgspec

Fate = Literal["killed", "timeout", "survived", "uncovered", "equivalent"]


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one statement or line, which some test should notice."""

    module: str  # opentill.orders.queries
    place: str  # a constant of SQL such as INSERT or RULES[1]; a line number of Python
    kind: str
    what: str  # for people: what it was and what it became
    digest: str  # of the statement, "" for Python
    changed: str  # the whole statement, or the whole module

    @property
    def name(self) -> str:
        """Return what identifies it as long as the code stays as it is."""
        return f"{self.module.removeprefix('opentill.')}:{self.place} {self.kind}: {self.what}"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a mutant."""

    name: str
    kind: str
    fate: Fate
    by: str = ""  # the test that noticed, or why nothing can
    seconds: float = 0.0
    tests: int = 0


class Seen(msgspec.Struct, kw_only=True):
    """What a test ran: digests of statements, and lines by module."""

    seconds: float = 0.0
    passed: bool = True
    statements: set[str] = msgspec.field(default_factory=set)
    lines: dict[str, set[int]] = msgspec.field(default_factory=dict)


class Recording(msgspec.Struct, kw_only=True):
    """What every test ran, by its id."""

    tests: dict[str, Seen] = msgspec.field(default_factory=dict)
