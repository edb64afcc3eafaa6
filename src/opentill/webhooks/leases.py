"""The lease of an endpoint in its worker: what is to be sent, and how many deliveries at once."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from opentill.webhooks.hosts import HostLease
from opentill.webhooks.model import DeliveryAttempt, Due, LeaseRow

_MOST_AT_ONCE: Final = 32  # attempts to one endpoint
_FAILURES_SLOW: Final = 5  # in a row, after which it is one attempt at a time
_FAILURES_PAUSED: Final = 8  # in a row, after which there are pauses
_SHORT_MS: Final = 800  # an endpoint that has failed for less has no long first pause
_PAUSES_S: Final = (0.1, 30.0)  # the first and the longest; each is twice the one before


class EndpointLease:
    """A lease that this worker holds.

    ``concurrency``, how many deliveries are sent at once, adapts: one more after a success, one
    less after a failure, one at a time after several failures in a row, with pauses after more.
    """

    def __init__(self, row: LeaseRow, host: HostLease, now_s: float, now: int) -> None:
        """Begin with one at a time; ``now_s`` is monotonic, ``now`` business time in Unix ms.

        Where the endpoint failed last, the pause after one more failure is about a sixth of the
        time for which it has failed.
        """
        self.key = row.key
        self.host = host
        self.taken_at = now_s
        self.yielding = False  # starts nothing more: another lease of its host is to have a turn
        self.failing_since = row.failing_since
        self.failing_written = row.failing_since  # what the database has
        self.queue: deque[Due] = deque()
        self.sending: dict[str, float] = {}  # event to the start of its attempt
        self.unwritten: set[str] = set()  # events whose results are not written yet
        self.concurrency = 1
        self.failures = 0  # in a row
        if row.failing_since is not None:
            failing_ms = max(0, now - row.failing_since)
            self.failures = _FAILURES_PAUSED - 1 + (failing_ms // _SHORT_MS).bit_length()
        self.paused_until = 0.0
        self.fetch_at = now_s
        self.idle_since = now_s
        self.slow = 0  # running attempts that take long

    @property
    def failing(self) -> bool:
        """Whether its last attempt failed."""
        return self.failing_since is not None

    @property
    def changed(self) -> bool:
        """Whether ``failing_since`` is to be written."""
        return self.failing_since != self.failing_written

    @property
    def events(self) -> set[str]:
        """The events under way, which must not be fetched again."""
        return {due.event_id for due in self.queue} | set(self.sending) | self.unwritten

    def may_fetch(self, now_s: float) -> bool:
        """Whether more due deliveries are to be fetched now."""
        is_time = now_s >= max(self.fetch_at, self.paused_until)
        return is_time and len(self.queue) < self.concurrency

    def may_send(self, now_s: float) -> bool:
        """Whether the endpoint may get its next delivery now."""
        return (
            bool(self.queue)
            and not self.yielding
            and len(self.sending) < self.concurrency
            and not self.slow
            and now_s >= self.paused_until
        )

    def begin(self, now_s: float) -> Due:
        """Return the next delivery, whose attempt begins now."""
        due = self.queue.popleft()
        self.sending[due.event_id] = now_s
        self.host.begin(now_s)
        return due

    def end(self, due: Due) -> None:
        """Count an attempt that ended."""
        self.sending.pop(due.event_id)
        self.host.end()

    def clear_failure(self) -> None:
        """Forget that the endpoint failed: it was enabled again."""
        if self.failing and not self.changed:
            self.failures, self.failing_since, self.paused_until = 0, None, 0.0
            self.failing_written = None

    def pause(self, seconds: float) -> None:
        """Send nothing for a while; due deliveries keep their attempts."""
        self.queue.clear()
        self.paused_until = time.monotonic() + seconds

    def adapt(self, made: DeliveryAttempt, now_s: float) -> None:
        """Adapt to how an attempt ended."""
        if made.outcome == "delivered":
            self.failures, self.failing_since = 0, None
            self.concurrency = min(_MOST_AT_ONCE, self.concurrency + 1)
            return
        self.failures += 1
        if self.failing_since is None:
            self.failing_since = made.at
        one_by_one = self.failures >= _FAILURES_SLOW
        self.concurrency = 1 if one_by_one else max(1, self.concurrency - 1)
        if self.failures >= _FAILURES_PAUSED:
            first, longest = _PAUSES_S
            doubled = first * 2 ** min(self.failures - _FAILURES_PAUSED, 10)
            self.paused_until = now_s + min(longest, doubled)


def key_columns(leases: Sequence[EndpointLease]) -> dict[str, list[str]]:
    """Return the keys of leases as the columns of a statement's parameters."""
    return {
        "merchant_id": [lease.key[0] for lease in leases],
        "endpoint_id": [lease.key[1] for lease in leases],
    }
