"""Limits of a process's connections: in total, per address, and a reserve for health checks.

A new connection over a limit evicts the longest idle one: of the same address at the address's
limit, of any address at the process's limit. If none is idle, it evicts the connection whose
request is most overdue, of the address with the most connections. Otherwise the new connection is
refused unless it requests a health check: a reserve over the limits ensures that load balancers and
orchestrators always get a response.

A trusted proxy carries requests of many clients. Its connections count in the total only, and are
not evicted for being late. Each process counts separately.
"""

import itertools
import time
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Final, Protocol

from opentill.server.client_address import is_inside, limit_subject
from opentill.server.refusals import Refusal, full, too_many

RESERVE: Final = 16  # for health checks, this many connections over the limits are accepted
LATE_S: Final = 1.0  # a connection may be evicted if its request is overdue for this time
LOOK_AGAIN_S: Final = 0.1  # shortest time between two searches for late connections
HEALTH_PATHS: Final = frozenset((b"/healthz", b"/readyz"))


class Connection(Protocol):
    """The methods of a connection that the limits use."""

    def may_be_evicted(self) -> bool:
        """Whether the connection is idle and its client has read all responses."""
        ...

    def late_s(self) -> float:
        """Return how long the rest of the request has been overdue, 0 if it is not.

        A body that is being received is not late, nor is a client that waits for a response.
        """
        ...

    def is_running(self) -> bool:
        """Whether the application is processing the request."""
        ...

    def evict(self) -> None:
        """Close the connection."""
        ...


class ConnectionLimits:
    """Counts a process's connections, and refuses or evicts connections over the limits."""

    def __init__(
        self, limit: int, per_address: int, trusted: Sequence[IPv4Network | IPv6Network] = ()
    ) -> None:
        """``limit`` connections in total, ``per_address`` of one address; 0 means no limit."""
        self._limit = limit
        self._per_address = per_address
        self._trusted = trusted
        # Accepted connection → the client's address; None for a connection of a trusted proxy.
        self._admitted: dict[Connection, str | None] = {}
        self._by_address: dict[str, set[Connection]] = {}
        self._reserve: dict[Connection, None] = {}  # connections over the limits, oldest first
        # Idle connections, in the order in which they became idle. A counter numbers them, because
        # many connections can become idle in one tick of the loop's clock.
        self._idle: dict[Connection, int] = {}
        self._turns = itertools.count()
        self._look_at = 0.0  # when late connections may be searched again (monotonic clock)

    def admit(self, connection: Connection, peer: str) -> Refusal | None:
        """Count a connection. Returns None if it is admitted.

        Otherwise returns the response to all of its requests except a health check.
        """
        address = None if is_inside(peer, self._trusted) else limit_subject(peer)
        of_address = set[Connection]() if address is None else self._by_address.get(address, set())
        if 0 < self._per_address <= len(of_address) and not self._make_room(of_address):
            return self._put_in_reserve(connection, too_many())
        if len(self._admitted) >= self._limit and not self._make_room():
            return self._put_in_reserve(connection, full())
        self._admitted[connection] = address
        if address is not None:
            of_address.add(connection)
            self._by_address[address] = of_address
        return None

    def forget(self, connection: Connection) -> None:
        """Stop counting a connection. Idempotent."""
        self._idle.pop(connection, None)
        self._reserve.pop(connection, None)
        address = self._admitted.pop(connection, None)
        if address is not None:
            of_address = self._by_address[address]
            of_address.discard(connection)
            if not of_address:
                del self._by_address[address]

    def mark_idle(self, connection: Connection) -> None:
        """Record that a connection became idle."""
        self._idle[connection] = next(self._turns)

    def mark_busy(self, connection: Connection) -> None:
        """Record that a connection has a request."""
        self._idle.pop(connection, None)

    def _make_room(self, of_address: set[Connection] | None = None) -> bool:
        """Evict a connection, one of ``of_address`` if given; return False if none can be evicted.

        The connection that has been idle for longest is evicted first, or else a late one.
        """
        idle: Iterable[Connection] = self._idle
        if of_address is not None:
            idle = sorted(self._idle.keys() & of_address, key=self._idle.__getitem__)
        for connection in idle:
            if connection.may_be_evicted():
                self._end(connection)
                return True
        return self._end_late(of_address)

    def _end_late(self, of_address: set[Connection] | None) -> bool:
        """Evict a late connection, of ``of_address`` or of the address with most connections."""
        if of_address is None and time.monotonic() < self._look_at:
            return False  # many connections arrive: a search for each of them would take too long
        sets = (
            sorted(self._by_address.values(), key=len, reverse=True)
            if of_address is None
            else [of_address]
        )
        for each in sets:
            latest = max(each, key=lambda connection: connection.late_s())
            if latest.late_s() > LATE_S:
                self._end(latest)
                return True
        if of_address is None:
            self._look_at = time.monotonic() + LOOK_AGAIN_S
        return False

    def _end(self, connection: Connection) -> None:
        self.forget(connection)
        connection.evict()

    def _put_in_reserve(self, connection: Connection, refusal: Refusal) -> Refusal:
        """Keep a connection until its request is known; a full reserve evicts its oldest.

        Running health checks are evicted last.
        """
        if len(self._reserve) >= RESERVE:
            waiting = (each for each in self._reserve if not each.is_running())
            self._end(next(waiting, None) or next(iter(self._reserve)))
        self._reserve[connection] = None
        return refusal
