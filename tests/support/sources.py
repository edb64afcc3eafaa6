"""Syntax trees of the product's files, each parsed once for all tests of a pytest worker."""

import ast
from functools import cache
from pathlib import Path


@cache
def tree(path: Path) -> ast.Module:
    """Parse a file."""
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file, in the order of ``ast.walk``."""
    return tuple(ast.walk(tree(path)))
