"""How many connections a process holds: in all, of one address, and a reserve for health checks.

A new connection beyond a limit takes the place of the one that has been idle longest: of its own
address where that has reached its limit, of any where the process has. If none is idle, one makes
room that is late with the rest of its request, of the address with most connections. If none is
late either, the new one is refused, unless it asks for the server's health: some connections beyond
the limits may send a health check, so that load balancers and orchestrators always get a response.

A trusted proxy carries the requests of many clients. Its connections have no limit of their own,
count in the whole, and are never evicted for being late. Every process counts for itself.
"""

import itertools
import time
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Final, Protocol

from opentill.server.client_address import inside, limit_subject
from opentill.server.refusals import Refusal, full, too_many

RESERVE: Final = 16  # connections beyond the limits
LATE_S: Final = 1.0  # for how long the rest of a request may be missing when there is no room
LOOK_AGAIN_S: Final = 0.1  # for late connections, after none was found
HEALTH_PATHS: Final = frozenset((b"/healthz", b"/readyz"))


class Connection(Protocol):
    """What the limits need to know of a connection."""

    def may_be_evicted(self) -> bool:
        """Return whether it is idle and its client has taken all responses."""
        ...

    def late_s(self) -> float:
        """Return for how long the rest of its request has been missing; 0 where it is not.

        A body that goes on coming is not late, nor a client that waits for our response.
        """
        ...

    def is_running(self) -> bool:
        """Return whether the application works on its response."""
        ...

    def evict(self) -> None:
        """End it."""
        ...


class ConnectionLimits:
    """The connections of a process."""

    def __init__(
        self, limit: int, per_address: int, trusted: Sequence[IPv4Network | IPv6Network] = ()
    ) -> None:
        """``limit`` in all; ``per_address`` of one address, 0 for no such limit."""
        self._limit = limit
        self._per_address = per_address
        self._trusted = trusted
        self._admitted: dict[Connection, str | None] = {}  # to the address that it counts for
        self._by_address: dict[str, set[Connection]] = {}
        self._reserve: dict[Connection, None] = {}  # oldest first
        # The order in which they became idle, the longest first. No times: many connections become
        # idle in one tick of the loop's clock.
        self._idle: dict[Connection, int] = {}
        self._turns = itertools.count()
        self._look_at = 0.0  # when to look for late ones again

    def admit(self, connection: Connection, peer: str) -> Refusal | None:
        """Count a connection. What is returned is the response to all but health checks."""
        address = None if inside(peer, self._trusted) else limit_subject(peer)
        own = set[Connection]() if address is None else self._by_address.get(address, set())
        if 0 < self._per_address <= len(own) and not self._make_room(own):
            return self._put_in_reserve(connection, too_many())
        if len(self._admitted) >= self._limit and not self._make_room():
            return self._put_in_reserve(connection, full())
        self._admitted[connection] = address
        if address is not None:
            own.add(connection)
            self._by_address[address] = own
        return None

    def forget(self, connection: Connection) -> None:
        """Count a connection no more; it may have been forgotten already."""
        self._idle.pop(connection, None)
        self._reserve.pop(connection, None)
        address = self._admitted.pop(connection, None)
        if address is not None:
            own = self._by_address[address]
            own.discard(connection)
            if not own:
                del self._by_address[address]

    def note_idle(self, connection: Connection) -> None:
        """A connection became idle."""
        self._idle[connection] = next(self._turns)

    def note_busy(self, connection: Connection) -> None:
        """A request came on a connection."""
        self._idle.pop(connection, None)

    def _make_room(self, own: set[Connection] | None = None) -> bool:
        """End the longest idle or latest connection, of ``own`` or of all; False if none is."""
        idle: Iterable[Connection] = self._idle
        if own is not None:
            idle = sorted(self._idle.keys() & own, key=self._idle.__getitem__)
        for connection in idle:
            if connection.may_be_evicted():
                self._end(connection)
                return True
        return self._end_late(own)

    def _end_late(self, own: set[Connection] | None) -> bool:
        """End the latest of ``own``, or of the address with most connections that has one."""
        if own is None and time.monotonic() < self._look_at:
            return False  # to look at all connections for each of many new ones takes too long
        sets = sorted(self._by_address.values(), key=len, reverse=True) if own is None else [own]
        for each in sets:
            latest = max(each, key=lambda connection: connection.late_s())
            if latest.late_s() > LATE_S:
                self._end(latest)
                return True
        if own is None:
            self._look_at = time.monotonic() + LOOK_AGAIN_S
        return False

    def _end(self, connection: Connection) -> None:
        self.forget(connection)
        connection.evict()

    def _put_in_reserve(self, connection: Connection, refusal: Refusal) -> Refusal:
        """Hold a connection until its request is known; a full reserve loses its oldest one.

        One whose health check is running stays, unless all are.
        """
        if len(self._reserve) >= RESERVE:
            waiting = (each for each in self._reserve if not each.is_running())
            self._end(next(waiting, None) or next(iter(self._reserve)))
        self._reserve[connection] = None
        return refusal
