"""Checks of what operators enter: reasons, references, amounts, a second operator's approval."""

from typing import Final

from opentill.core import money
from opentill.core.errors import Invalid
from opentill.merchants.audit import Actor

# Of one adjustment or payout: a typing error must not overflow the ledger.
MOST_MINOR: Final = 10**15
_WORDS: Final = 500
# How the audit log names the machine's owner, whoever that is (decision 0098).
ROOT: Final = "root ("
_REFERENCE: Final = 64


def words(field: str, text: str, most: int = _WORDS) -> str:
    """Trim what an operator wrote and check that it can be stored. Raises Invalid."""
    trimmed = text.strip()
    if not (1 <= len(trimmed) <= most and trimmed.isprintable()):
        raise Invalid(field, f"{field} must be text of 1 to {most} printable characters")
    return trimmed


def actor(who: str, reason: str) -> Actor:
    """Check who acts, and why. Raises Invalid on ``by`` and ``reason``."""
    return Actor(words("by", who), words("reason", reason))


def reference(text: str) -> str:
    """Check the reference that makes a command idempotent. Raises Invalid.

    It is required: a command whose result was lost is repeated, and must not move money twice.
    """
    return words("reference", text, _REFERENCE)


def amount(field: str, minor: int, currency: str) -> int:
    """Check a positive amount of minor units. Raises Invalid."""
    if not 0 < minor <= MOST_MINOR:
        most = money.show(MOST_MINOR, currency)
        raise Invalid(field, f"{field} must be more than 0.00 and at most {most} {currency}")
    return minor


def second(first: str, other: str, field: str = "by") -> str:
    """Return who approves what ``first`` has asked for. Raises Invalid unless it is another person.

    The machine's owner is nobody in particular: whoever approves could be that person.
    """
    approver = words(field, other)
    if first.startswith(ROOT):
        reason = f"{first} may be anybody, so that somebody who has logged in must ask for it anew"
        raise Invalid(field, f"{field} must be another operator than who asked for it; {reason}")
    if approver.casefold() == first.casefold():
        raise Invalid(field, f"{field} must be another operator than {first}, who asked for it")
    return approver
