"""An endpoint's lease in the worker that holds it: its queue and its adaptive concurrency."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from opentill.webhooks.hosts import HostLease
from opentill.webhooks.model import DeliveryAttempt, DueDelivery, LeaseRow

_MAX_CONCURRENCY: Final = 32  # at most this many attempts to one endpoint run at a time
_FAILURES_SLOW: Final = 5  # after this many consecutive failures, only one attempt runs at a time
_FAILURES_PAUSED: Final = 8  # from this many consecutive failures on, each causes a pause
# If an endpoint has been failing for this time when its lease is taken, the first failure causes
# twice the shortest pause. After double that time, the pause is double as long, and so on.
_SHORT_MS: Final = 800
# After an outage of this time, deliveries are sent one at a time for a while, so that they arrive
# in the order of their events. Then concurrency grows, so that a long backlog takes no hours.
_OUTAGE_MS: Final = 5000
_ORDERED_S: Final = 20.0
_PAUSES_S: Final = (0.1, 30.0)  # the shortest and the longest pause; each one doubles the previous


class EndpointLease:
    """A lease that this worker holds.

    ``concurrency`` adapts to outcomes: it grows by one after a success and shrinks by one after a
    failure. After several consecutive failures it is 1; after more, attempts also pause.
    """

    def __init__(self, row: LeaseRow, host: HostLease, now_s: float, now: int) -> None:
        """Begin with concurrency 1; ``now_s`` is monotonic, ``now`` business time in Unix ms.

        If the endpoint is failing, the pause after one more failure is about a sixth of the time
        for which it has been failing.
        """
        self.key = row.key
        self.host = host
        self.taken_at = now_s
        # Whether the lease starts no attempt, so that another lease of its host gets a turn.
        self.yielding = False
        self.failing_since = row.failing_since
        self.failing_written = row.failing_since  # the value of ``failing_since`` in the database
        self.queue: deque[DueDelivery] = deque()
        self.sending: dict[str, float] = {}  # event id → when its running attempt began
        self.unwritten: set[str] = set()  # ids of events whose results are not written yet
        self.concurrency = 1
        self.failures = 0  # consecutive failed attempts
        if row.failing_since is not None:
            failing_ms = max(0, now - row.failing_since)
            self.failures = _FAILURES_PAUSED - 1 + (failing_ms // _SHORT_MS).bit_length()
        self.paused_until = 0.0
        # Whether an event was delivered after failures, so that pending deliveries are sent at once
        # (``results``), and until when they are sent in order.
        self.recovered = False
        self.ordered_until = 0.0
        self.fetch_at = now_s
        self.idle_since = now_s
        self.slow = 0  # how many running attempts are slow

    @property
    def failing(self) -> bool:
        """Whether the last attempt failed."""
        return self.failing_since is not None

    @property
    def changed(self) -> bool:
        """Whether ``failing_since`` differs from the database."""
        return self.failing_since != self.failing_written

    @property
    def event_ids(self) -> set[str]:
        """Ids of the events that this lease is processing, and that must not be fetched again."""
        return {due.event_id for due in self.queue} | set(self.sending) | self.unwritten

    def may_fetch(self, now_s: float) -> bool:
        """Whether to fetch more due deliveries now."""
        is_time = now_s >= max(self.fetch_at, self.paused_until)
        return is_time and len(self.queue) < self.concurrency

    def may_send(self, now_s: float) -> bool:
        """Whether the next delivery may be sent now."""
        return (
            bool(self.queue)
            and not self.yielding
            and len(self.sending) < self.concurrency
            and not self.slow
            and now_s >= self.paused_until
        )

    def begin(self, now_s: float) -> DueDelivery:
        """Take the next delivery from the queue and count its attempt as running."""
        due = self.queue.popleft()
        self.sending[due.event_id] = now_s
        self.host.begin(now_s)
        return due

    def end(self, due: DueDelivery) -> None:
        """Count an attempt that ended."""
        self.sending.pop(due.event_id)
        self.host.end()

    def clear_failure(self) -> None:
        """Forget earlier failures, because the endpoint was enabled again."""
        if self.failing and not self.changed:
            self.failures, self.failing_since, self.paused_until = 0, None, 0.0
            self.failing_written = None

    def follow_advanced(self, *, has_more: bool) -> None:
        """Fetch the deliveries that were advanced before those that were fetched already."""
        self.recovered = has_more
        self.queue.clear()
        self.fetch_at = 0.0

    def pause(self, seconds: float) -> None:
        """Send nothing for a while, without counting failed attempts."""
        self.queue.clear()
        self.paused_until = time.monotonic() + seconds

    def adapt(self, attempt: DeliveryAttempt, now_s: float, *, is_test: bool = False) -> None:
        """Adapt concurrency and pauses to the outcome of an attempt.

        A test that fails changes nothing: it was sent to find that out.
        """
        if attempt.outcome == "delivered":
            if self.failing_since is not None:
                self.recovered = True
                if attempt.at - self.failing_since >= _OUTAGE_MS:
                    self.ordered_until = now_s + _ORDERED_S
            self.failures, self.failing_since = 0, None
            is_ordered = now_s < self.ordered_until
            self.concurrency = 1 if is_ordered else min(_MAX_CONCURRENCY, self.concurrency + 1)
            return
        if is_test:
            return
        self.failures += 1
        if self.failing_since is None:
            self.failing_since = attempt.at
        one_by_one = self.failures >= _FAILURES_SLOW
        self.concurrency = 1 if one_by_one else max(1, self.concurrency - 1)
        if self.failures >= _FAILURES_PAUSED:
            first, longest = _PAUSES_S
            doubled = first * 2 ** min(self.failures - _FAILURES_PAUSED, 10)
            self.paused_until = now_s + min(longest, doubled)


def key_columns(leases: Sequence[EndpointLease]) -> dict[str, list[str]]:
    """Return the keys of leases as array parameters of a statement."""
    return {
        "merchant_id": [lease.key[0] for lease in leases],
        "endpoint_id": [lease.key[1] for lease in leases],
    }
