"""Report names that do not say what the value is, and file names that say nothing.

``make check`` runs it as ``python -m tools.plain_names``. A name is banned where it is bound:
as a variable, a parameter or a function. Variables of comprehensions and lambdas may stay short.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

TOP: Final = Path(__file__).parents[1]
ROOTS: Final = ("src", "tests", "tools", "benchmarks", "mutants", "examples")
# Participles and pronouns that say what happened to a value instead of what the value is.
BANNED: Final = frozenset({
    "asked", "found", "given", "kept", "known", "led", "made", "noted", "of", "one", "said",
    "sought", "told", "took", "wanted",
})  # fmt: skip
# File names that are this project's former jargon. docs/glossary.md has the terms to use.
BANNED_FILES: Final = frozenset({
    "aside", "asking", "composing", "contents", "following", "letters", "looking", "noting",
    "parts", "reminding", "trial", "wording", "words",
})  # fmt: skip
# ``Query.one`` returns exactly one row, like the method of this name in SQLAlchemy.
ALLOWED: Final = frozenset({("src/opentill/db/query.py", "one")})


class Finding(NamedTuple):
    """A banned name with its line and its file, relative to the project's folder."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        """Format the finding like a compiler's message."""
        return f"{self.file}:{self.line}: {self.name}: name what the value is (a noun)"


class _Bindings(ast.NodeVisitor):
    """Collects names where they are bound, with their lines."""

    def __init__(self) -> None:
        self.bindings: list[tuple[int, str]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Collect a function's name."""
        self.bindings.append((node.lineno, node.name))
        self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        """Collect an asynchronous function's name."""
        self.visit_FunctionDef(node)

    def visit_arg(self, node: ast.arg) -> None:
        """Collect a parameter of a function."""
        self.bindings.append((node.lineno, node.arg))
        self.generic_visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Skip the parameters, which may stay short."""
        self.visit(node.body)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Skip the variables, which may stay short."""
        for part in (node.iter, *node.ifs):
            self.visit(part)

    def visit_Name(self, node: ast.Name) -> None:
        """Collect an assigned variable."""
        if isinstance(node.ctx, ast.Store):
            self.bindings.append((node.lineno, node.id))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        """Collect the name of a caught exception."""
        if node.name is not None:
            self.bindings.append((node.lineno, node.name))
        self.generic_visit(node)


def banned_names(source: str, file: str) -> list[Finding]:
    """Return the banned bindings of one file's source, by line."""
    visitor = _Bindings()
    visitor.visit(ast.parse(source, file))
    return [
        Finding(file, line, name)
        for line, name in sorted(visitor.bindings)
        if name.lstrip("_") in BANNED and (file, name) not in ALLOWED
    ]


def findings(top: Path) -> Iterator[Finding]:
    """Yield every banned name and file name below ``top``."""
    for root in ROOTS:
        for path in sorted((top / root).rglob("*.py")):
            file = path.relative_to(top).as_posix()
            if "node_modules" in path.parts:
                continue
            if path.stem.removeprefix("test_") in BANNED_FILES:
                yield Finding(file, 1, path.stem)
            yield from banned_names(path.read_text(), file)


def main() -> int:
    """Print every banned name; return the exit code."""
    problems = list(findings(TOP))
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
