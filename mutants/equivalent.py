"""Mutants that change nothing anybody could notice, and why: no test can be asked to kill them."""

import re
from typing import Final

from mutants.model import Mutant

# The mutant's name, and the reason.
_REASONS: Final = tuple(
    (re.compile(name), why)
    for name, why in (
        (r" on \[true → dropped\]", "what is always true, or true"),
        (
            r":ANYWHERE tenant: .*\[merchant_id = [me]\.id → dropped\]",
            "ids are unique: the same row is found again for each merchant, and the first is taken",
        ),
        (
            r"^integrity\.queries:.*\[\w+\.source_type = '\w+' → dropped\]",
            "beside source_id, whose prefix says the same",
        ),
        (
            r"^integrity\.queries:.* tenant: .*\[\w+\.merchant_id = \w+\.merchant_id → dropped\]",
            "beside an id, which no two merchants share",
        ),
    )
)


def reason(mutant: Mutant) -> str | None:
    """Return why a mutant is the same program, None if it is another one."""
    return next((why for pattern, why in _REASONS if pattern.search(mutant.name)), None)
