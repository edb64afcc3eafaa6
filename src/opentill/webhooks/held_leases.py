"""Leases of endpoints and hosts that this worker holds, and the deliveries due on them.

A lease is a row with an owner and an expiry in real time, which the owner renews while it runs.
Only the owner of the leases of an endpoint and its host may send there.
"""

import secrets
from collections import Counter
from collections.abc import Callable
from typing import Final

from opentill.db.clock import now_ms
from opentill.db.database import Db
from opentill.webhooks import dispatch_queries as queries
from opentill.webhooks.hosts import HOST_TURN_S, LEASES_PER_HOST, HostLease, HostLimit
from opentill.webhooks.leases import EndpointLease, key_columns
from opentill.webhooks.model import Key

POLL_S: Final = 0.2  # the interval between two queries for due deliveries
# A process holds at most this many leases of failing endpoints, and makes at most this many
# attempts to them at a time.
MAX_FAILING: Final = 384
_MAX_LEASES: Final = 512  # a process holds at most this many leases
_IDLE_S: Final = 2.0  # a lease without deliveries is released after this time


class HeldLeases:
    """The leases of endpoints and hosts that one dispatcher holds."""

    def __init__(
        self, db: Db, clock: Callable[[], int], lease_s: float, host_limit: HostLimit
    ) -> None:
        """``clock`` returns business time, Unix ms; ``lease_s`` is real time."""
        self.endpoints: dict[Key, EndpointLease] = {}
        self.hosts: dict[str, HostLease] = {}
        self._db = db
        self._clock = clock
        self._lease_s = lease_s
        self._host_limit = host_limit
        self._owner = secrets.token_hex(8)
        self._renewed_at = self._taken_at = 0.0

    def holds(self, lease: EndpointLease) -> bool:
        """Whether a lease was neither lost nor given back."""
        return self.endpoints.get(lease.key) is lease

    def failing(self) -> int:
        """Count the leases of failing endpoints."""
        return sum(lease.failing for lease in self.endpoints.values())

    async def refresh(self, now_s: float) -> None:
        """Renew leases and take more when it is time; fetch due deliveries."""
        if now_s - self._renewed_at >= self._lease_s / 4:
            self._renewed_at = now_s
            await self._renew_hosts()
            await self._renew(dict.fromkeys(self.endpoints.values(), self._lease_end()))
        if now_s - self._taken_at >= POLL_S:
            self._taken_at = now_s
            await self._take(now_s)
        await self._fetch(now_s)

    async def give_back(self, now_s: float) -> None:
        """Release leases that are idle, pause for long, or exceed the limits.

        A released lease whose endpoint pauses expires with the pause: no worker takes it before.
        """
        ends: dict[EndpointLease, int] = {}
        excess = self.failing() - MAX_FAILING
        at_host = self._count_by_host()
        for lease in self.endpoints.values():
            pause_s = lease.paused_until - now_s
            lease.yielding |= (
                at_host[lease.host.name] >= LEASES_PER_HOST
                and now_s - lease.taken_at >= HOST_TURN_S
            )
            if lease.sending or lease.unwritten:
                lease.idle_since = now_s
            elif lease.yielding:
                ends[lease] = now_ms() + int(max(pause_s, 0) * 1000)
            elif pause_s >= _IDLE_S or (lease.failing and excess > 0):
                excess -= lease.failing
                ends[lease] = now_ms() + int(max(pause_s, _IDLE_S) * 1000)
            elif lease.queue or pause_s > 0:
                lease.idle_since = now_s
            elif now_s - lease.idle_since >= _IDLE_S:
                ends[lease] = 0
        for lease in ends:
            self._drop(lease)
        await self._renew(ends)

    async def give_back_all(self) -> None:
        """Release all leases."""
        await self._renew(dict.fromkeys(self.endpoints.values(), 0))
        await self._write_hosts(set())

    async def _take(self, now_s: float) -> None:
        room = _MAX_LEASES - len(self.endpoints)
        if room <= 0:
            return
        now = self._clock()
        full = [name for name, count in self._count_by_host().items() if count >= LEASES_PER_HOST]
        async with self._db.connection() as tx:
            taken = await queries.TAKE_LEASES.all(
                tx, now=now, real_now=now_ms(), owner=self._owner, until=self._lease_end(),
                limit=room, failing_limit=min(room, max(0, MAX_FAILING - self.failing())),
                full_hosts=full, per_host=LEASES_PER_HOST,
            )  # fmt: skip
        for row in taken:
            host = self.hosts.setdefault(row.host, HostLease(row.host, self._host_limit))
            lease = EndpointLease(row, host, now_s, now)
            self.endpoints.setdefault(lease.key, lease)

    async def _fetch(self, now_s: float) -> None:
        """Fetch due deliveries for leases whose queue runs low."""
        leases = [lease for lease in self.endpoints.values() if lease.may_fetch(now_s)]
        if not leases:
            return
        rooms = {lease.key: 2 * lease.concurrency for lease in leases}
        in_flight = [lease.key[1] + event_id for lease in leases for event_id in lease.event_ids]
        hosts = [lease.host.name for lease in leases]
        async with self._db.connection() as tx:
            due_deliveries = await queries.DUE.all(
                tx, **key_columns(leases), host=hosts, room=list(rooms.values()), now=self._clock(),
                sending=in_flight,
            )  # fmt: skip
        for due in due_deliveries:
            lease = self.endpoints.get(due.key)
            if lease is None:
                continue
            if due.failing_since is None:
                lease.clear_failure()
            if due.event_id not in lease.event_ids:
                lease.queue.append(due)
        counts = Counter(due.key for due in due_deliveries)
        for lease in leases:
            may_have_more = counts[lease.key] == rooms[lease.key]
            lease.fetch_at = now_s if may_have_more else now_s + POLL_S

    async def _renew_hosts(self) -> None:
        """Renew the leases of hosts in use and release the others.

        Drops the hosts that another worker has taken, with the leases of their endpoints.
        """
        leases = self._count_by_host()
        used = {name for name, host in self.hosts.items() if leases[name] or host.sending}
        ours = await self._write_hosts(used) & used
        self.hosts = {name: host for name, host in self.hosts.items() if name in ours}
        for lease in list(self.endpoints.values()):
            if lease.host.name not in ours:
                self._drop(lease)

    async def _write_hosts(self, used: set[str]) -> set[str]:
        """Renew the leases of used hosts, end all others; return the hosts with leases of ours."""
        if not self.hosts:
            return set()
        until = self._lease_end()
        ends = [until if name in used else 0 for name in self.hosts]
        async with self._db.connection() as tx:
            rows = await queries.RENEW_HOSTS.all(
                tx, host=list(self.hosts), until=ends, owner=self._owner
            )
        return {row.host for row in rows}

    async def _renew(self, ends: dict[EndpointLease, int]) -> None:
        """Set the ends of leases, Unix ms; drop those that another worker has taken."""
        if not ends:
            return
        async with self._db.connection() as tx:
            rows = await queries.RENEW_LEASES.all(
                tx, **key_columns(list(ends)), until=list(ends.values()), owner=self._owner
            )
        ours = {row.key for row in rows}
        for lease in ends:
            if lease.key not in ours:
                self._drop(lease)

    def _drop(self, lease: EndpointLease) -> None:
        lease.queue.clear()
        self.endpoints.pop(lease.key, None)

    def _count_by_host(self) -> Counter[str]:
        return Counter(lease.host.name for lease in self.endpoints.values())

    def _lease_end(self) -> int:
        return now_ms() + int(self._lease_s * 1000)
