"""Limits on concurrency and rate per host, across all endpoints of all merchants.

One worker at a time holds a host's lease (``TAKE_LEASES``), so that its counts are exact.
"""

from typing import Final

import msgspec

# A worker holds at most this many leases of one host's endpoints, so that its other endpoints get
# leases too.
LEASES_PER_HOST: Final = 64
HOST_TURN_S: Final = 5.0  # if LEASES_PER_HOST are held, each one yields to others after this time
# ``HostLimit.at_once`` limits the attempts that are not slow. All attempts are limited to
# this many times that number.
_SLOW_TIMES: Final = 4
_BURST_S: Final = 1.0  # the attempts of this time may be made at once


class HostLimit(msgspec.Struct, frozen=True):
    """Maximum concurrent attempts and attempts per second; ``per_second`` 0 means unlimited."""

    at_once: int = 32
    per_second: int = 100


class HostLease:
    """A host whose lease this worker holds."""

    def __init__(self, name: str, limit: HostLimit) -> None:
        """``name`` is in lower case, without port."""
        self.name = name
        self.sending = 0
        self.slow = 0
        self.contended = False  # whether an endpoint at this host waits for room
        self._limit = limit
        self._rate_used_until = 0.0  # time.monotonic() until which the rate is used up

    def has_room(self, now_s: float) -> bool:
        """Whether another attempt may start. Slow attempts count towards a wider limit only."""
        at_once = self._limit.at_once
        return (
            self.sending - self.slow < at_once
            and self.sending < _SLOW_TIMES * at_once
            and self._rate_used_until <= now_s + _BURST_S
        )

    def begin(self, now_s: float) -> None:
        """Count an attempt that begins."""
        self.sending += 1
        if self._limit.per_second:
            self._rate_used_until = max(self._rate_used_until, now_s) + 1 / self._limit.per_second

    def end(self) -> None:
        """Count an attempt that ended."""
        self.sending -= 1
