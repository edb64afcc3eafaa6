"""Only ``approvals`` takes the manual transitions that move a merchant's money.

The rule of the second person (decision 0141) is in ``approvals.perform``. These tests search
the source for other modules that take such a transition.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import opentill

SOURCE: Final = Path(opentill.__file__).parent
# Functions that take a transition which no gateway or bank has reported: (package, function).
TRANSITIONS: Final = {
    ("orders", "confirm_manually"),
    ("refunds", "end_manually"),
    ("refunds", "reverse_manually"),
    ("refunds", "record_manually"),
    ("disputes", "decide"),
    ("payouts", "fail"),
    ("payouts", "record_return"),
}
# Modules that may take such a transition without a second person, because it gives the merchant no
# money: it ends a refund, whose money is already frozen, as SUCCEEDED, or a dispute as lost.
EXEMPT: Final = {
    ("cli/deposits.py", "refunds.end_manually"),  # after the transaction was found on the chain
    ("cli/refunds.py", "refunds.end_manually"),
    ("cli/disputes.py", "disputes.decide"),
    ("console/payment_actions.py", "refunds.end_manually"),
    ("console/payment_actions.py", "disputes.decide"),
}


def _find_uses(tree: ast.AST) -> Iterator[str]:
    """Yield the manual transitions that a module uses, as ``package.function``."""
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


def test_only_approvals_takes_manual_transitions_that_move_money() -> None:
    uses = {
        (path.relative_to(SOURCE).as_posix(), name)
        for path in SOURCE.rglob("*.py")
        for name in _find_uses(ast.parse(path.read_text()))
        # A package may call its own functions.
        if path.relative_to(SOURCE).parts[0] != name.partition(".")[0]
    }
    assert {use for use in uses if use[0] != "approvals/actions.py"} == EXEMPT
    by_approvals = {name for path, name in uses if path == "approvals/actions.py"}
    assert by_approvals == {f"{package}.{name}" for package, name in TRANSITIONS}
