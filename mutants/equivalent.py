"""Mutants that change nothing anybody could notice, and why: no test can be asked to kill them."""

from typing import Final

from mutants.model import Mutant

# A part of the mutant's name, and the reason.
_REASONS: Final[tuple[tuple[str, str], ...]] = ()


def reason(mutant: Mutant) -> str | None:
    """Return why a mutant is the same program, None if it is another one."""
    return next((why for part, why in _REASONS if part in mutant.name), None)
