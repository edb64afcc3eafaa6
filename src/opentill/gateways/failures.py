"""What a request to a provider that brought no result means: the one rule of all adapters.

A provider that did not respond may have moved the money: the attempt or refund stays open as
UNKNOWN, and the provider is asked for its state until it says so. Only a request that was surely
never sent is UNREACHABLE, and may go to another gateway.
"""

from typing import Final, Generic, Literal, TypeVar

import msgspec

from opentill.outgoing.client import Forbidden, NoResponse, Unreachable

T = TypeVar("T")

FAILURES: Final = (Forbidden, Unreachable, NoResponse)
# What decoding a provider's JSON raises: another form, other bytes than UTF-8, too deep nesting.
MALFORMED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class ProviderResponse(msgspec.Struct, Generic[T], frozen=True):
    """The object that a provider responded with, or why there is none.

    ``reason`` may be logged. ``message`` is a sentence of the provider's, which must not be logged
    because it may quote the request.
    """

    found: T | None = None
    status: Literal["UNREACHABLE", "NOT_FOUND", "REFUSED", "UNKNOWN"] = "UNKNOWN"
    reason: str = ""
    message: str = ""


def status_of(failure: Forbidden | Unreachable | NoResponse) -> Literal["UNREACHABLE", "UNKNOWN"]:
    """Return UNREACHABLE if nothing was sent, UNKNOWN if something may have been."""
    return "UNKNOWN" if isinstance(failure, NoResponse) else "UNREACHABLE"
