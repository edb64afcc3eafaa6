"""The dispatcher: sends what is due, with no endpoint holding up another.

It takes leases (``queries.TAKE_LEASES``), so that it is the only one to send to their endpoints,
and sends on all of them at once. How many at once to one endpoint follows how it fares
(``leases``).
What is slow to answer does not count against the others. Results are written many at a time.
"""

import asyncio
import secrets
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog

from opentill import merchants
from opentill.core import metrics
from opentill.core.encryption import WrongKey
from opentill.core.errors import Unavailable
from opentill.db.clock import now_ms
from opentill.db.database import Db, Tx
from opentill.outgoing.client import Outgoing
from opentill.webhooks import queries, schedule, sending, signing
from opentill.webhooks.hosts import LEASES, TURN_S, USUAL, HostLimit, OpenHost
from opentill.webhooks.leases import EndpointLease, Key
from opentill.webhooks.model import Due
from opentill.webhooks.results import Result, result_of, rows

TIMEOUT_S: Final = 30.0  # contract.md#event-retries
LOOK_S: Final = 0.2  # how often it looks for what is due
LEASE_S: Final = 20.0  # renewed after a quarter of it
_IDLE_S: Final = 2.0  # a lease with nothing to send is given back after
_GATHER_S: Final = 0.01  # results are gathered so long before they are written
_LANES: Final = 512  # at most, of this process
_QUICK: Final = 128  # sends at once that are not slow
_ALL: Final = 512  # sends at once
# Of the leases, and of the sends: the rest is for endpoints that fare well, however many do not.
_FAILING: Final = 384
_SLOW_S: Final = 2.0  # a send that takes longer is slow
_UNSIGNED_S: Final = 60.0  # so long rest leases whose secrets do not open
_log: Final = structlog.get_logger()


class Dispatcher:
    """Sends what is due for as long as ``run`` runs. Any number may run at once."""

    def __init__(  # noqa: PLR0913 - what it works with, and times that tests shorten
        self,
        db: Db,
        outgoing: Outgoing,
        secret_key: str,
        clock: Callable[[], int],
        *,
        timeout_s: float = TIMEOUT_S,
        drain_s: float = 10.0,
        lease_s: float = LEASE_S,
        unsigned_s: float = _UNSIGNED_S,
        host_limit: HostLimit = USUAL,
        header_prefix: str = signing.HEADER_PREFIX,
    ) -> None:
        """``clock`` is business time; ``drain_s`` is how long a stop waits for what is sent.

        ``unsigned_s``: when to look again at what cannot be signed with this secret key.
        ``host_limit`` is what a host bears, over all its endpoints.
        ``header_prefix``: what the names of our own signature's headers begin with.
        """
        self._db = db
        self._outgoing = outgoing
        self._secret_key = secret_key
        self._clock = clock
        self._timeout_s = timeout_s
        self._drain_s = drain_s
        self._lease_s = lease_s
        self._unsigned_s = unsigned_s
        self._header_prefix = header_prefix
        self._owner = secrets.token_hex(8)
        self._host_limit = host_limit
        self._hosts: dict[str, OpenHost] = {}
        self._leases: dict[Key, EndpointLease] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._results: list[Result] = []
        self._gateway_event = asyncio.Event()
        self._crowded = False
        self._slow = 0
        self._sending = 0
        self._kept_at = self._looked_at = self._warned_at = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Send until ``stop`` is set; what is being sent then is waited for a while."""
        stopped = asyncio.create_task(stop.wait())
        stopped.add_done_callback(lambda _: self._gateway_event.set())
        try:
            while not stop.is_set():
                pause = await self._try_turn()
                await self._rest(pause, stop)
        finally:
            stopped.cancel()
            await self._leave()

    async def _rest(self, seconds: float, stop: asyncio.Event) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._gateway_event.wait(), seconds)
        self._gateway_event.clear()
        if not stop.is_set():
            await asyncio.sleep(_GATHER_S)

    async def _try_turn(self) -> float:
        """Take a turn and return how long to rest, longer if it did not go well."""
        started, outcome, pause = time.perf_counter(), "done", LOOK_S
        try:
            await self._turn()
        except Unavailable as error:
            outcome, pause = "unavailable", 1.0
            _log.warning("webhooks wait for the database", reason=error.reason)
        except Exception:  # noqa: BLE001 - it goes on, and what is due is still there
            outcome, pause = "failed", 1.0
            _log.exception("webhooks failed")
        if outcome != "done":
            await asyncio.sleep(pause)
        metrics.count_job("webhooks", outcome, time.perf_counter() - started)
        return pause

    async def _turn(self) -> None:
        now_s = time.monotonic()
        await self._write()
        if now_s - self._kept_at >= self._lease_s / 4:
            self._kept_at = now_s
            await self._keep_hosts()
            await self._keep(dict.fromkeys(self._leases.values(), self._lease_end()))
        if now_s - self._looked_at >= LOOK_S:
            self._looked_at = now_s
            await self._take(now_s)
        await self._fill(now_s)
        self._send(now_s)
        await self._give_back(now_s)

    # ── leases ──────────────────────────────────────────────────────────────────────────────────

    async def _take(self, now_s: float) -> None:
        room = _LANES - len(self._leases)
        if room <= 0:
            return
        failing = min(room, max(0, _FAILING - self._failing_leases()))
        now = self._clock()
        full = [name for name, count in self._leases_at().items() if count >= LEASES]
        async with self._db.connection() as tx:
            taken = await queries.TAKE_LEASES.all(
                tx, now=now, real_now=now_ms(), owner=self._owner, until=self._lease_end(),
                limit=room, failing_limit=failing, full_hosts=full, per_host=LEASES,
            )  # fmt: skip
        for lease in taken:
            host = self._hosts.setdefault(lease.host, OpenHost(lease.host, self._host_limit))
            opened = EndpointLease(lease, host, now_s, now)
            self._leases.setdefault(opened.key, opened)

    def _leases_at(self) -> Counter[str]:
        return Counter(lease.host.name for lease in self._leases.values())

    def _failing_leases(self) -> int:
        return sum(lease.failing for lease in self._leases.values())

    def _lease_end(self) -> int:
        return now_ms() + int(self._lease_s * 1000)

    async def _keep_hosts(self) -> None:
        """Renew the leases of hosts, and give those back that we have no lease at any more.

        Hosts that somebody else has by now are forgotten, with their leases.
        """
        leases = self._leases_at()
        used = {name for name, host in self._hosts.items() if leases[name] or host.sending}
        ours = await self._renew_hosts(used) & used
        self._hosts = {name: host for name, host in self._hosts.items() if name in ours}
        for lease in list(self._leases.values()):
            if lease.host.name not in ours:
                lease.queue.clear()
                del self._leases[lease.key]

    async def _renew_hosts(self, used: set[str]) -> set[str]:
        """Renew the leases of hosts that are used, give up the others, return which were ours."""
        if not self._hosts:
            return set()
        until = self._lease_end()
        ends = [until if name in used else 0 for name in self._hosts]
        async with self._db.connection() as tx:
            kept = await queries.KEEP_HOSTS.all(
                tx, host=list(self._hosts), until=ends, owner=self._owner
            )
        return {one.host for one in kept}

    async def _keep(self, leases: dict[EndpointLease, int]) -> None:
        """Renew leases until when is said; leases that somebody else has by now are forgotten."""
        if not leases:
            return
        async with self._db.connection() as tx:
            kept = await queries.KEEP_LEASES.all(
                tx, **_columns(list(leases)), until=list(leases.values()), owner=self._owner
            )
        ours = {(lease.merchant_id, lease.endpoint_id) for lease in kept}
        for lease in leases:
            if lease.key not in ours:
                lease.queue.clear()
                self._leases.pop(lease.key, None)

    async def _give_back(self, now_s: float) -> None:
        """Give back leases with nothing to send, and let go of those that pause or are too many.

        Nobody takes a lease before its pause is over.
        """
        given: dict[EndpointLease, int] = {}
        excess = self._failing_leases() - _FAILING
        at_host = self._leases_at()
        for lease in self._leases.values():
            pause_s = lease.paused_until - now_s
            lease.leaving |= at_host[lease.host.name] >= LEASES and now_s - lease.taken_at >= TURN_S
            if lease.sending or lease.unwritten:
                lease.idle_since = now_s
            elif lease.leaving:
                given[lease] = now_ms() + int(max(pause_s, 0) * 1000)
            elif pause_s >= _IDLE_S or (lease.failing and excess > 0):
                excess -= lease.failing
                given[lease] = now_ms() + int(max(pause_s, _IDLE_S) * 1000)
            elif lease.queue or pause_s > 0:
                lease.idle_since = now_s
            elif now_s - lease.idle_since >= _IDLE_S:
                given[lease] = 0
        for lease in given:
            lease.queue.clear()
            del self._leases[lease.key]
        await self._keep(given)

    async def _fill(self, now_s: float) -> None:
        """Fetch what is due on leases that are about to run out of it."""
        hungry = [
            lease
            for lease in self._leases.values()
            if now_s >= max(lease.look_at, lease.paused_until) and len(lease.queue) < lease.width
        ]
        if not hungry:
            return
        rooms = [2 * lease.width for lease in hungry]
        busy = [lease.key[1] + event for lease in hungry for event in lease.events]
        hosts = [lease.host.name for lease in hungry]
        async with self._db.connection() as tx:
            found = await queries.DUE.all(
                tx, **_columns(hungry), host=hosts, room=rooms, now=self._clock(), sending=busy
            )
        for due in found:
            lease = self._leases.get((due.merchant_id, due.endpoint_id))
            if lease is None:
                continue
            if due.failing_since is None:
                lease.forgive()
            if due.event_id not in lease.events:
                lease.queue.append(due)
        counts: dict[Key, int] = {}
        for due in found:
            key = (due.merchant_id, due.endpoint_id)
            counts[key] = counts.get(key, 0) + 1
        for lease, room in zip(hungry, rooms, strict=True):
            lease.look_at = now_s if counts.get(lease.key, 0) == room else now_s + LOOK_S

    # ── sending ────────────────────────────────────────────────────────────────────────────────

    def _send(self, now_s: float) -> None:
        """Start what may start, lease by lease in turn, so that all get some of the room."""
        self._slow = failing = 0
        for host in self._hosts.values():
            host.slow, host.crowded = 0, False
        for lease in self._leases.values():
            lease.slow = sum(now_s - since >= _SLOW_S for since in lease.sending.values())
            lease.host.slow += lease.slow
            self._slow += lease.slow
            failing += len(lease.sending) if lease.failing else 0
        ready = deque(lease for lease in self._leases.values() if lease.may_send(now_s))
        while ready and self._has_room():
            lease = ready.popleft()
            if not lease.host.has_room(now_s):
                lease.host.crowded = True
                continue
            if lease.failing and failing >= _FAILING:
                continue
            failing += lease.failing
            self._start(lease)
            if lease.may_send(now_s):
                ready.append(lease)
        self._crowded = bool(ready) or failing >= _FAILING or self._failing_leases() > _FAILING
        for key in list(self._leases)[:1]:  # next time another is the first
            self._leases[key] = self._leases.pop(key)

    def _has_room(self) -> bool:
        return self._sending < _ALL and self._sending - self._slow < _QUICK

    def _start(self, lease: EndpointLease) -> None:
        due = lease.begin(time.monotonic())
        self._sending += 1
        task = asyncio.create_task(self._attempts(lease, due))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attempts(self, lease: EndpointLease, due: Due | None) -> None:
        """Send one delivery, and the next of its lease as long as nobody else waits for room."""
        while due is not None:
            try:
                now = self._clock()
                made = await sending.attempt(
                    self._outgoing,
                    self._secret_key,
                    due,
                    now,
                    self._timeout_s,
                    self._header_prefix,
                )
            except WrongKey:
                self._cannot_sign(lease)
                return
            finally:
                lease.end(due)
                self._sending -= 1
            lease.fared(made, time.monotonic())
            lease.unwritten.add(due.event_id)
            self._results.append(result_of(due, made, self._clock()))
            metrics.count_delivery(made.outcome, made.duration_ms / 1000)
            self._gateway_event.set()
            due = self._next(lease)

    def _cannot_sign(self, lease: EndpointLease) -> None:
        """Let a lease rest: that is no attempt, and the endpoint's owner cannot help it."""
        lease.rest(self._unsigned_s)
        self._gateway_event.set()
        now_s = time.monotonic()
        if (
            now_s >= self._warned_at + self._unsigned_s or not self._warned_at
        ):  # once for all leases
            self._warned_at = now_s
            _log.error("webhooks cannot be signed", reason=sending.WRONG_KEY, endpoint=lease.key[1])

    def _next(self, lease: EndpointLease) -> Due | None:
        now_s = time.monotonic()
        crowded = self._crowded or lease.host.crowded or not lease.host.has_room(now_s)
        if crowded or not lease.may_send(now_s) or self._leases.get(lease.key) is not lease:
            return None
        self._sending += 1
        return lease.begin(now_s)

    # ── results ────────────────────────────────────────────────────────────────────────────────

    async def _write(self) -> None:
        """Write the results since the last time; they are kept if that fails."""
        results = list(self._results)
        if not results:
            return
        failing = [lease for lease in self._leases.values() if lease.changed]
        since = [lease.failing_since for lease in failing]

        async def work(tx: Tx) -> None:
            await queries.RECORD.run(tx, **rows(results))
            if failing:
                await queries.SET_FAILING.run(tx, **_columns(failing), since=since)

        await self._db.run(work)
        del self._results[: len(results)]
        for lease, written in zip(failing, since, strict=True):
            lease.changed = lease.failing_since != written
        for result in results:
            made = result.attempt
            own = self._leases.get((made.merchant_id, made.endpoint_id))
            if own is not None:
                own.unwritten.discard(made.event_id)
            if result.status == "FAILED":
                ids = {"merchant": made.merchant_id, "endpoint": made.endpoint_id}
                _log.warning("webhook delivery failed", event_id=made.event_id, **ids)
        await self._disable(results)

    async def _disable(self, results: list[Result]) -> None:
        """Disable the endpoints that are gone, or that failed for too long."""
        reasons: dict[Key, tuple[str, int]] = {}
        for result in results:
            made = result.attempt
            key = (made.merchant_id, made.endpoint_id)
            lease = self._leases.get(key)
            if made.outcome == "delivered" or lease is None:
                continue
            since = made.at if lease.failing_since is None else lease.failing_since
            if reason := schedule.disabled_reason(made.http_status, since, made.at):
                _, latest = reasons.get(key, ("", made.at))
                reasons[key] = reason, max(latest, made.at)
        for key, (reason, attempted_at) in reasons.items():
            await self._db.run(_disabling(key, reason, attempted_at, self._clock()))
            self._leases[key].queue.clear()

    async def _leave(self) -> None:
        """Wait for what is being sent, write what came of it and give leases and hosts back."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._drain_s)
        for task in self._tasks:
            task.cancel()  # sent again by whoever takes the lease
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self._write()
            await self._keep(dict.fromkeys(self._leases.values(), 0))
            await self._renew_hosts(set())
        except Unavailable as error:
            _log.warning("webhooks leave results unwritten", reason=error.reason)


def _disabling(
    key: Key, reason: str, attempted_at: int, now: int
) -> Callable[[Tx], Awaitable[None]]:
    merchant_id, endpoint_id = key

    async def work(tx: Tx) -> None:
        disabled = await queries.DISABLE.run(
            tx, merchant_id=merchant_id, id=endpoint_id, disabled_reason=reason, now=now,
            attempted_at=attempted_at,
        )  # fmt: skip
        if not disabled:
            return
        await merchants.record_audit(
            tx, who="opentill", action="webhooks disable", merchant_id=merchant_id,
            subject=endpoint_id, reason=reason, now=now,
        )  # fmt: skip
        ids = {"merchant": merchant_id, "endpoint": endpoint_id}
        _log.error("webhook endpoint disabled", reason=reason, **ids)

    return work


def _columns(leases: list[EndpointLease]) -> dict[str, list[str]]:
    return {
        "merchant_id": [lease.key[0] for lease in leases],
        "endpoint_id": [lease.key[1] for lease in leases],
    }
