"""Equivalent mutants, which no test can kill because they do not change the behaviour."""

import re
from typing import Final

from mutants.model import Mutant

# Pairs of a pattern and a reason: why mutants whose names match are equivalent to the original.
_REASONS: Final = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r" on \[true → dropped\]", "a condition that is always true"),
        (
            r":ANYWHERE tenant: .*\[merchant_id = [me]\.id → dropped\]",
            "ids are unique: each merchant returns the same row, and only the first one is used",
        ),
        (
            r"^integrity\.queries:.*\[\w+\.source_type = '\w+' → dropped\]",
            "source_id is compared too, and its prefix implies the type",
        ),
        (
            r"^integrity\.queries:.* tenant: .*\[\w+\.merchant_id = \w+\.merchant_id → dropped\]",
            "an id is compared too, and no two merchants share one",
        ),
    )
)


def find_equivalence(mutant: Mutant) -> str | None:
    """Return the reason why a mutant is equivalent, or None if it is not."""
    return next((reason for pattern, reason in _REASONS if pattern.search(mutant.name)), None)
