"""Limits what is sent to one host, at once and per second, over all endpoints of all merchants.

One worker at a time holds a host's lease (``TAKE_LEASES``), so that its counts are exact.
"""

from typing import Final

import msgspec

LEASES_PER_HOST: Final = 64  # of one worker, which keeps room for endpoints at other hosts
HOST_TURN_S: Final = 5.0  # after which a lease yields where a host has that many
_SLOW_TIMES: Final = 4  # with slow attempts, up to this many times ``at_once`` may run
_BURST_S: Final = 1.0  # how far attempts may run ahead of the rate


class HostLimit(msgspec.Struct, frozen=True):
    """How many attempts a host gets at once and per second; ``per_second`` 0 is no limit."""

    at_once: int = 32
    per_second: int = 100


class HostLease:
    """A host whose lease this worker holds."""

    def __init__(self, name: str, limit: HostLimit) -> None:
        """``name`` is in lower case, without port."""
        self.name = name
        self.sending = 0
        self.slow = 0
        self.contended = False  # an endpoint of it waits for room
        self._limit = limit
        self._rate_used_until = 0.0  # by what was sent; of time.monotonic()

    def has_room(self, now_s: float) -> bool:
        """Return whether one more attempt may start; slow ones count only towards a wider limit."""
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
