"""The meaning of failed requests to providers, one rule for all adapters.

A provider that did not respond may have moved the money: the attempt or refund stays open as
UNKNOWN, and the provider is queried until it reports the state. Only a request that was surely
never sent is UNREACHABLE, and may go to another gateway.
"""

from typing import Final, Generic, Literal, TypeVar

import msgspec

from opentill.outgoing.client import Forbidden, NoResponse, Unreachable

T = TypeVar("T")

FAILURES: Final = (Forbidden, Unreachable, NoResponse)
# Errors of decoding a provider's JSON: wrong structure, text that is not UTF-8, nesting too deep.
MALFORMED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class ProviderResponse(msgspec.Struct, Generic[T], frozen=True):
    """The object in a provider's response as ``value``, or the reason why there is none.

    ``reason`` may be logged. ``message`` is the provider's, which must not be logged because it may
    quote the request.
    """

    value: T | None = None
    status: Literal["UNREACHABLE", "NOT_FOUND", "REFUSED", "UNKNOWN"] = "UNKNOWN"
    reason: str = ""
    message: str = ""


def status_of(failure: Forbidden | Unreachable | NoResponse) -> Literal["UNREACHABLE", "UNKNOWN"]:
    """Return UNREACHABLE if nothing was sent, UNKNOWN if something may have been."""
    return "UNKNOWN" if isinstance(failure, NoResponse) else "UNREACHABLE"
