"""Equivalent mutants, which no test can kill because they do not change behaviour, and why."""

import re
from typing import Final

from mutants.model import Mutant

# The mutant's name, and the reason.
_REASONS: Final = tuple(
    (re.compile(name), why)
    for name, why in (
        (r" on \[true → dropped\]", "a condition that is always true"),
        (
            r":ANYWHERE tenant: .*\[merchant_id = [me]\.id → dropped\]",
            "ids are unique: the same row is found again for each merchant, and the first is taken",
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


def reason(mutant: Mutant) -> str | None:
    """Return why a mutant is equivalent, None if it is not."""
    return next((why for pattern, why in _REASONS if pattern.search(mutant.name)), None)
