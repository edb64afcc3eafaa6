"""Options of commands that move money."""

import itertools
from typing import Final

WHY: Final = ("--reason", "agreed")
_numbers = itertools.count(1)


def why() -> tuple[str, ...]:
    """Return options with a reason and a new reference."""
    return (*WHY, "--reference", f"R-{next(_numbers)}")
