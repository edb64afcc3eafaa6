"""The lease of an endpoint as the worker that holds it sees it: what waits, and how it fares."""

import time
from collections import deque
from typing import Final

from opentill.webhooks.hosts import OpenHost
from opentill.webhooks.model import DeliveryAttempt, Due, LeaseRow

_WIDEST: Final = 32  # sends at once to one endpoint
_STRIKES: Final = 5  # failures in a row, after which it is one at a time
_PATIENCE: Final = 8  # failures in a row, after which there are pauses
_SHORT_MS: Final = 800  # for so long an endpoint has hardly failed
_PAUSES_S: Final = (0.1, 30.0)  # the first and the longest; each is twice the one before

Key = tuple[str, str]  # merchant, endpoint


class EndpointLease:
    """A lease of ours.

    How many are sent at once (``width``) follows how the endpoint fares: one more after a success,
    less after a failure, one at a time after several in a row, and with pauses after more.
    """

    def __init__(self, lease: LeaseRow, host: OpenHost, now_s: float, now: int) -> None:
        """Begin carefully, and more so where the endpoint failed last; ``now`` is business time.

        The pause after one more failure is about a sixth of the time for which it has failed.
        """
        self.key: Key = (lease.merchant_id, lease.endpoint_id)
        self.host = host
        self.taken_at = now_s
        self.leaving = False  # begins no more, so that another lease of its host has a turn
        self.failing_since = lease.failing_since
        self.queue: deque[Due] = deque()
        self.sending: dict[str, float] = {}  # event, since when
        self.unwritten: set[str] = set()  # events whose results are not written yet
        self.width = 1
        self.strikes = 0
        if lease.failing_since is not None:
            failing_ms = max(0, now - lease.failing_since)
            self.strikes = _PATIENCE - 1 + (failing_ms // _SHORT_MS).bit_length()
        self.paused_until = 0.0
        self.look_at = now_s
        self.idle_since = now_s
        self.slow = 0
        self.changed = False

    @property
    def failing(self) -> bool:
        """Whether its last attempt failed."""
        return self.failing_since is not None

    @property
    def busy(self) -> bool:
        """Whether anything is on its way."""
        return bool(self.queue or self.sending or self.unwritten)

    @property
    def events(self) -> set[str]:
        """What is on its way, and must not be fetched again."""
        return {due.event_id for due in self.queue} | set(self.sending) | self.unwritten

    def may_send(self, now_s: float) -> bool:
        """Whether its next delivery may be sent now, as far as the endpoint is concerned."""
        return (
            bool(self.queue)
            and not self.leaving
            and len(self.sending) < self.width
            and not self.slow
            and now_s >= self.paused_until
        )

    def begin(self, now_s: float) -> Due:
        """Return its next delivery, which is sent from now on."""
        due = self.queue.popleft()
        self.sending[due.event_id] = now_s
        self.host.begin(now_s)
        return due

    def end(self, due: Due) -> None:
        """Take in that a delivery is not on its way any more."""
        self.sending.pop(due.event_id)
        self.host.end()

    def forgive(self) -> None:
        """Forget that it failed: its endpoint was enabled again."""
        if self.failing and not self.changed:
            self.strikes, self.failing_since, self.paused_until = 0, None, 0.0

    def rest(self, seconds: float) -> None:
        """Send nothing for a while that is nobody's fault; what waits keeps its attempts."""
        self.queue.clear()
        self.paused_until = time.monotonic() + seconds

    def fared(self, made: DeliveryAttempt, now_s: float) -> None:
        """Take in how an attempt ended."""
        was = self.failing_since
        if made.outcome == "delivered":
            self.strikes, self.failing_since = 0, None
            self.width = min(_WIDEST, self.width + 1)
        else:
            self.strikes += 1
            self.failing_since = made.at if was is None else was
            self.width = 1 if self.strikes >= _STRIKES else max(1, self.width - 1)
            if self.strikes >= _PATIENCE:
                first, longest = _PAUSES_S
                doubled = first * 2 ** min(self.strikes - _PATIENCE, 10)
                self.paused_until = now_s + min(longest, doubled)
        self.changed |= was != self.failing_since
