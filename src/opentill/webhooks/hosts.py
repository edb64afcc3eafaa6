"""How much goes to one host at once and in a second, whoever's endpoints it has.

A host is one worker's at a time (``queries.TAKE_LEASES``), so that what this counts is all there
is.
"""

from typing import Final

import msgspec

LEASES: Final = 64  # of one host that a worker takes: the others wait, and leave it room for others
TURN_S: Final = 5.0  # after which a lease leaves its place to the next, where a host has so many
_SLOW_TIMES: Final = 4  # so many times as much at once, with what is slow to answer
_BURST_S: Final = 1.0  # what was not used of so long may be made up for


class HostLimit(msgspec.Struct, frozen=True):
    """What a host gets: requests at once, and requests per second, 0 for any number."""

    at_once: int = 32
    per_second: int = 100


USUAL: Final = HostLimit()


class OpenHost:
    """A host of ours.

    What is slow to answer does not count against the others, up to a multiple of what may be sent
    at once.
    """

    def __init__(self, name: str, limit: HostLimit) -> None:
        """``name`` is in lower case, without port."""
        self.name = name
        self.sending = 0
        self.slow = 0
        self.crowded = False  # a lease of it waits for room
        self._limit = limit
        self._even_at = 0.0  # until when what was sent is enough; of time.monotonic()

    def has_room(self, now_s: float) -> bool:
        """Whether one more may be sent there now."""
        at_once = self._limit.at_once
        return (
            self.sending - self.slow < at_once
            and self.sending < _SLOW_TIMES * at_once
            and self._even_at <= now_s + _BURST_S
        )

    def begin(self, now_s: float) -> None:
        """Count one that is sent."""
        self.sending += 1
        if self._limit.per_second:
            self._even_at = max(self._even_at, now_s) + 1 / self._limit.per_second

    def end(self) -> None:
        """Count one that has ended."""
        self.sending -= 1
