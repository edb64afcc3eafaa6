"""Which connections a process keeps: so many in all, so many of one address, room for checks.

Whoever comes when it is full takes the place of the connection that has been idle longest: of the
same address where that has its share, of any where the process has. Is none idle, it takes the
place of one that keeps us waiting for the rest of its request, of the address that has most
connections. Is there none of that kind either, the newcomer is refused, unless it only asks for the
server's health: a few connections beyond the limits are let in to say what they want. A load
balancer or orchestrator is thus answered whatever others hold open.

Trusted proxies speak for many clients and have no share of their own; they count in the whole, and
are given the time that the settings give.
Every server process counts for itself.
"""

import itertools
import time
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Final, Protocol

from opentill.core.client_address import inside, limit_subject
from opentill.server.refusals import Refusal, full, too_many

RESERVE: Final = 16  # connections beyond the limits
LATE_S: Final = 1.0  # that the rest of a request may keep us waiting when it is full
LOOK_AGAIN_S: Final = 0.1  # for late ones, after none was found
HEALTH_PATHS: Final = frozenset((b"/healthz", b"/readyz"))


class Guest(Protocol):
    """A connection as it is seen from here."""

    def may_be_evicted(self) -> bool:
        """Tell whether nobody would lose anything: it is idle, and all answers were taken."""
        ...

    def late_s(self) -> float:
        """Return how long we have waited for the rest of its request; 0 where we do not.

        A body that comes on is not late, and nobody is who waits for an answer of ours.
        """
        ...

    def is_answered(self) -> bool:
        """Tell whether the application is at work on its answer."""
        ...

    def evict(self) -> None:
        """End it."""
        ...


class Admission:
    """The connections of a process."""

    def __init__(
        self, limit: int, per_address: int, trusted: Sequence[IPv4Network | IPv6Network] = ()
    ) -> None:
        """``limit`` in all; ``per_address`` of one address, 0 for as many as there are."""
        self._limit = limit
        self._per_address = per_address
        self._trusted = trusted
        self._admitted: dict[Guest, str | None] = {}  # to what it is counted under
        self._shares: dict[str, set[Guest]] = {}
        self._reserve: dict[Guest, None] = {}  # oldest first
        # In which order they became idle, the longest first; kept by the connections themselves.
        # No times: many connections become idle in one tick of the loop's clock.
        self.idle: dict[Guest, int] = {}
        self.turns = itertools.count()
        self._look_at = 0.0  # when to look for late ones again

    def enter(self, guest: Guest, peer: str) -> Refusal | None:
        """Take a connection in. What is returned is its answer to all but questions of health."""
        subject = None if inside(peer, self._trusted) else limit_subject(peer)
        share = set[Guest]() if subject is None else self._shares.get(subject, set[Guest]())
        if 0 < self._per_address <= len(share) and not self._make_room(share):
            return self._reserved(guest, too_many())
        if len(self._admitted) >= self._limit and not self._make_room():
            return self._reserved(guest, full())
        self._admitted[guest] = subject
        if subject is not None:
            share.add(guest)
            self._shares[subject] = share
        return None

    def leave(self, guest: Guest) -> None:
        """Forget a connection that ended; it may have been forgotten already."""
        self.idle.pop(guest, None)
        self._reserve.pop(guest, None)
        subject = self._admitted.pop(guest, None)
        if subject is not None:
            share = self._shares[subject]
            share.discard(guest)
            if not share:
                del self._shares[subject]

    def _make_room(self, share: set[Guest] | None = None) -> bool:
        """End the connection that is idle or late longest, of a share or of all; False if none."""
        idle: Iterable[Guest] = self.idle
        if share is not None:
            idle = sorted(self.idle.keys() & share, key=self.idle.__getitem__)
        for guest in idle:
            if guest.may_be_evicted():
                self._end(guest)
                return True
        return self._end_late(share)

    def _end_late(self, share: set[Guest] | None) -> bool:
        """End the latest connection of a share, or of the largest one that has a late one."""
        if share is None and time.monotonic() < self._look_at:
            return False  # to look at them all for each of many newcomers would take too long
        shares = sorted(self._shares.values(), key=len, reverse=True) if share is None else [share]
        for each in shares:
            latest = max(each, key=lambda guest: guest.late_s())
            if latest.late_s() > LATE_S:
                self._end(latest)
                return True
        if share is None:
            self._look_at = time.monotonic() + LOOK_AGAIN_S
        return False

    def _end(self, guest: Guest) -> None:
        self.leave(guest)
        guest.evict()

    def _reserved(self, guest: Guest, refusal: Refusal) -> Refusal:
        """Keep a connection until it said what it wants, at the cost of the oldest such one.

        Whose question is being answered stays, unless all are.
        """
        if len(self._reserve) >= RESERVE:
            silent = (each for each in self._reserve if not each.is_answered())
            oldest = next(silent, None) or next(iter(self._reserve))
            self._end(oldest)
        self._reserve[guest] = None
        return refusal
