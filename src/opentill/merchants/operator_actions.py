"""Validation of operators' input: reasons, references, amounts, the second operator."""

from typing import Final

from opentill.core import money
from opentill.core.errors import Invalid
from opentill.merchants.audit import Actor

# An adjustment or payout is at most this large, so that a typing error cannot overflow the ledger.
MOST_MINOR: Final = 10**15
_MAX_LENGTH: Final = 500
# In the audit log, the name of the machine's owner begins with this text (decision 0098).
ROOT: Final = "root ("
_MAX_REFERENCE_LENGTH: Final = 64


def check_text(field: str, text: str, most: int = _MAX_LENGTH) -> str:
    """Return trimmed text of an operator. Raises Invalid unless it is printable and short."""
    trimmed = text.strip()
    if not (1 <= len(trimmed) <= most and trimmed.isprintable()):
        raise Invalid(field, f"{field} must be text of 1 to {most} printable characters")
    return trimmed


def check_actor(who: str, reason: str) -> Actor:
    """Return the actor of an action. Raises Invalid on ``by`` and ``reason``."""
    return Actor(check_text("by", who), check_text("reason", reason))


def check_reference(text: str) -> str:
    """Return the reference that makes a command idempotent. Raises Invalid.

    It is required, because a command whose result was lost is repeated and must not move money
    twice.
    """
    return check_text("reference", text, _MAX_REFERENCE_LENGTH)


def check_amount(field: str, minor: int, currency: str) -> int:
    """Return a positive amount of minor units. Raises Invalid."""
    if not 0 < minor <= MOST_MINOR:
        most = money.show(MOST_MINOR, currency)
        raise Invalid(field, f"{field} must be more than 0.00 and at most {most} {currency}")
    return minor


def check_second_operator(first: str, other: str, field: str = "by") -> str:
    """Return the approver of a request of ``first``. Raises Invalid unless it is another person.

    The machine's owner could be any person, including the approver, so nobody can approve the
    owner's requests.
    """
    approver = check_text(field, other)
    if first.startswith(ROOT):
        reason = f"{first} may be anybody, so that somebody who has logged in must ask for it anew"
        raise Invalid(field, f"{field} must be another operator than who asked for it; {reason}")
    if approver.casefold() == first.casefold():
        raise Invalid(field, f"{field} must be another operator than {first}, who asked for it")
    return approver
