"""Mutants of Python code that moves money: of comparisons, sums, conditions, results and calls."""

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mutants.model import Mutant

# Modules that compute money, or that decide when several transactions run at once.
MODULES: Final = (
    "adjustments.service", "checkouts.jobs", "checkouts.service", "core.money", "db.pool",
    "disputes.model", "disputes.service", "disputes.unmatched", "epay.service",
    "http.idempotency", "integrity.scheduler", "ledger.incremental", "ledger.postings",
    "ledger.service", "ledger.statement", "list_counts.model", "list_counts.service",
    "merchants.fee_schedule", "orders.jobs", "orders.model", "orders.payments.confirmation",
    "orders.payments.duplicates", "orders.payments.outcomes", "orders.payments.service",
    "orders.pricing", "orders.service", "orders.settlement.service", "payouts.service",
    "rates.service", "refunds.jobs", "refunds.service",
)  # fmt: skip
_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_SUMS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}  # fmt: skip
_SWAPPED: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


def mutants() -> Iterator[Mutant]:
    """Yield every mutant of every module."""
    for short in MODULES:
        name = f"opentill.{short}"
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(name)
        tree = ast.parse(Path(spec.origin).read_text())
        nodes = _nodes(tree)
        excluded = {id(inner) for node in (tree, *nodes) for inner in _excluded_nodes(node)}
        for number, node in enumerate(nodes):
            if id(node) in excluded:
                continue
            for kind, variant in _variants(node):
                yield Mutant(
                    module=name,
                    location=str(node.lineno),
                    kind=kind,
                    description=" ".join(ast.unparse(node).split())[:100]
                    + f" ({variant})" * (variant > 0),
                    digest="",
                    replacement=f"{number} {variant}",
                )


def apply_mutant(mutant: Mutant, source: str) -> str:
    """Return a module's source with the mutant's change."""
    tree = ast.parse(source)
    number, variant = map(int, mutant.replacement.split())
    _apply(tree, _nodes(tree)[number], mutant.kind, variant)
    return ast.unparse(ast.fix_missing_locations(tree))


def _nodes(tree: ast.Module) -> list[ast.stmt | ast.expr]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr)]


def _excluded_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield nodes that decide nothing: annotations, defaults, constants, logging, assertions."""
    parts: list[ast.AST | None] = []
    match node:
        case ast.Module():
            parts = [n for n in node.body if isinstance(n, ast.Assign | ast.AnnAssign)]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            parts = [node.returns, *node.decorator_list, *node.args.defaults]
            parts += node.args.kw_defaults
            parts += [a.annotation for a in (*node.args.args, *node.args.kwonlyargs)]
        case ast.AnnAssign():
            parts = [node.annotation]
        case ast.If(body=[ast.Raise(exc=ast.Name(id="AssertionError"))]):
            parts = [node]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="_log")))):
            parts = [node]
    for part in parts:
        if part is not None:
            yield from ast.walk(part)


def _variants(  # noqa: C901 - a case for each kind
    node: ast.stmt | ast.expr,
) -> Iterator[tuple[str, int]]:
    """Yield the possible changes of a node: the kind of change, and the number of its variant."""
    match node:
        case ast.Compare():
            operators = enumerate(node.ops)
            yield from (("comparison", n) for n, op in operators if type(op) in _COMPARISONS)
        case ast.BinOp() if type(node.op) in _SUMS and not _is_text(node):
            yield "sum", 0
        case ast.BoolOp():
            yield "and-or", 0
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield "not", 0
        case ast.Call(func=ast.Name(id=name)) if name in _SWAPPED:
            yield "swap", 0
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield "return", 0
        case ast.Expr(value=ast.Await() | ast.Call()):
            yield "removed", 0
        case ast.If() | ast.IfExp():
            yield "if", 0
            yield "if", 1
        case ast.Raise():
            yield "removed", 0
        case ast.Constant(value=value) if type(value) is int:
            yield "number", 0


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _apply(tree: ast.Module, node: ast.AST, kind: str, variant: int) -> None:
    match node:
        case ast.Compare():
            node.ops[variant] = _COMPARISONS[type(node.ops[variant])]()
        case ast.BinOp():
            node.op = _SUMS[type(node.op)]()
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.Call(func=ast.Name()) if kind == "swap":
            node.func.id = _SWAPPED[node.func.id]
        case ast.Return():
            node.value = ast.Constant(None)
        case ast.If() | ast.IfExp():
            node.test = ast.Constant(bool(variant))
        case ast.Constant():
            node.value += 1
        case ast.UnaryOp():
            _replace(tree, node, node.operand)
        case _:
            _replace(tree, node, ast.Pass())


def _replace(tree: ast.Module, old: ast.AST, new: ast.AST) -> None:
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, field, new)
            elif isinstance(value, list) and any(item is old for item in value):
                value[:] = [new if item is old else item for item in value]
