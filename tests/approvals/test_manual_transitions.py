"""Whatever moves a merchant's money on somebody's word goes through ``approvals``."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import opentill

SOURCE: Final = Path(opentill.__file__).parent
# The transitions that a person takes for a gateway or bank, as the packages export them.
TRANSITIONS: Final = {
    ("orders", "confirm_manually"),
    ("refunds", "end_manually"),
    ("refunds", "reverse_manually"),
    ("refunds", "record_manually"),
    ("disputes", "decide"),
    ("payouts", "fail"),
    ("payouts", "record_return"),
}
# What takes one of them and gives the merchant nothing: a refund is ended as done, whose money is
# held already, and a dispute is ended as lost.
OTHERS: Final = {
    ("cli/refunds.py", "refunds.end_manually"),
    ("cli/disputes.py", "disputes.decide"),
    ("console/payment_actions.py", "refunds.end_manually"),
    ("console/payment_actions.py", "disputes.decide"),
}


def _taken(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if (node.value.id, node.attr) in TRANSITIONS:
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            package = node.module.split(".")[1:2]
            yield from (
                f"{package[0]}.{name.name}"
                for name in node.names
                if package and (package[0], name.name) in TRANSITIONS
            )


def test_transitions_that_move_money_are_taken_by_approvals_alone() -> None:
    taken = {
        (path.relative_to(SOURCE).as_posix(), name)
        for path in SOURCE.rglob("*.py")
        for name in _taken(ast.parse(path.read_text()))
        # a package's own modules import what it exports
        if path.relative_to(SOURCE).parts[0] != name.partition(".")[0]
    }
    assert {place for place in taken if place[0] != "approvals/actions.py"} == OTHERS
    through_approvals = {name for place, name in taken if place == "approvals/actions.py"}
    assert through_approvals == {f"{package}.{name}" for package, name in TRANSITIONS}
