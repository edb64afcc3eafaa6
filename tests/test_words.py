"""The glossary's terms in code: a name that was replaced does not come back."""

import io
import tokenize
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1] / "src" / "opentill"
# Replaced name: the glossary's term.
REPLACED: Final = {
    "ByHand": "adjustment",
    "Edge": "request middleware, cursor",
    "News": "gateway event",
    "OpenLane": "endpoint lease",
    "OperatorError": "configuration error",
    "STEPS": "transition",
    "Step": "transition",
    "Together": "batcher",
    "Which": "list count",
    "Whose": "gateway filter",
    "alone": "autocommit",
    "byhand": "adjustment",
    "enter": "authenticate",
    "hear": "apply an outcome",
    "lane": "endpoint lease",
    "lanes": "endpoint lease",
    "news": "gateway event",
    "seal": "encryption",
    "sealed": "encryption",
    "together": "batcher",
    "unseal": "encryption",
}
# The bank and the merchants' client have words of their own; elsewhere a word may be the right one.
APART: Final = ("sandbox/", "client/")
MEANT: Final = {
    ("ledger/incremental.py", "Step"),  # of a check that goes in steps
    ("callbacks/confirmations.py", "lanes"),  # how many batches at the same time
    ("db/batcher.py", "lane"),
    ("db/batcher.py", "lanes"),
    ("orders/settlement.py", "lane"),
    ("orders/settlement.py", "lanes"),
}


@pytest.mark.parametrize(
    "path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_a_replaced_name_does_not_come_back(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    if name.startswith(APART):
        return
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    found = {
        (name, token.string)
        for token in tokens
        if token.type == tokenize.NAME and token.string in REPLACED
    } - MEANT
    assert {word: REPLACED[word] for _, word in found} == {}
