"""What a request without a response says about the provider: the one rule that all adapters follow.

An outside response that did not come is unknown. A provider that did not respond may have moved the
money: the attempt or refund stays open, and the provider is asked for its state until it says so.
Only a request that was surely never sent counts as not done, and may go to another gateway.
"""

from typing import Final, Literal

from opentill.outgoing.client import Forbidden, NoResponse, Unreachable

FAILURES: Final = (Forbidden, Unreachable, NoResponse)


def status_of(failure: Forbidden | Unreachable | NoResponse) -> Literal["UNREACHABLE", "UNKNOWN"]:
    """Return UNREACHABLE if nothing was sent, UNKNOWN if something may have been."""
    return "UNKNOWN" if isinstance(failure, NoResponse) else "UNREACHABLE"
