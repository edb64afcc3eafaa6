"""The dispatcher sends due deliveries such that no endpoint delays another.

It holds leases of endpoints and their hosts (``held_leases``), which exclude other workers, and
sends to all of them concurrently. The concurrency of an endpoint adapts to the outcomes of its
attempts (``leases``). Slow attempts do not use up the room of quick ones. Results are written in
batches (``results``).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec
import structlog

from opentill.core import metrics
from opentill.core.encryption import WrongKey
from opentill.core.errors import Unavailable
from opentill.db.database import Db
from opentill.outgoing.client import Outgoing
from opentill.webhooks import sending, signing
from opentill.webhooks.held_leases import MAX_FAILING, POLL_S, HeldLeases
from opentill.webhooks.hosts import HostLimit
from opentill.webhooks.leases import EndpointLease
from opentill.webhooks.model import DueDelivery
from opentill.webhooks.results import Results, result_of

_BATCH_S: Final = 0.01  # results are collected for this time before they are written
_MAX_ATTEMPTS: Final = 512  # a process makes at most this many attempts at a time
_MAX_QUICK_ATTEMPTS: Final = 128  # at most this many attempts that are not slow run at a time
_SLOW_S: Final = 2.0  # an attempt that takes longer than this counts as slow
_log: Final = structlog.get_logger()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a dispatcher. Times are in seconds."""

    timeout_s: float = 30.0  # the time limit of an attempt (contract.md#event-retries)
    drain_s: float = 10.0  # how long a dispatcher that stops waits for running attempts
    lease_s: float = 20.0  # the duration of a lease, which is renewed after a quarter of it
    unsigned_s: float = 60.0  # how long an endpoint pauses if its secrets cannot be decrypted
    host_limit: HostLimit = HostLimit()
    header_prefix: str = signing.HEADER_PREFIX


class Dispatcher:
    """Sends due deliveries while ``run`` runs. Any number of dispatchers may run concurrently."""

    def __init__(
        self,
        db: Db,
        outgoing: Outgoing,
        secret_key: str,
        clock: Callable[[], int],
        options: Options = Options(),  # noqa: B008 - frozen
    ) -> None:
        """``clock`` returns business time, Unix ms; ``secret_key`` encrypts endpoints' secrets."""
        self._outgoing = outgoing
        self._secret_key = secret_key
        self._clock = clock
        self._options = options
        self._leases = HeldLeases(db, clock, options.lease_s, options.host_limit)
        self._results = Results(db, clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._attempt_ended = asyncio.Event()
        # Whether leases wait for room. If so, a lease whose attempt has ended starts no other one.
        self._contended = False
        self._slow = 0
        self._sending = 0
        self._warned_at: float | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Send until ``stop`` is set, then wait for running attempts for ``drain_s``."""
        stopped = asyncio.create_task(stop.wait())
        stopped.add_done_callback(lambda _: self._attempt_ended.set())
        try:
            while not stop.is_set():
                pause = await self._try_turn()
                await self._wait(pause, stop)
        finally:
            stopped.cancel()
            await self._finish()

    async def _wait(self, seconds: float, stop: asyncio.Event) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._attempt_ended.wait(), seconds)
        self._attempt_ended.clear()
        if not stop.is_set():
            await asyncio.sleep(_BATCH_S)

    async def _try_turn(self) -> float:
        """Take a turn and return how many seconds to wait for the next one."""
        started, outcome, pause = time.perf_counter(), "done", POLL_S
        try:
            await self._turn()
        except Unavailable as error:
            outcome, pause = "unavailable", 1.0
            _log.warning("webhooks wait for the database", reason=error.reason)
        except Exception:  # noqa: BLE001 - the next turn finds the same deliveries due
            outcome, pause = "failed", 1.0
            _log.exception("webhooks failed")
        if outcome != "done":
            await asyncio.sleep(pause)
        metrics.count_job("webhooks", outcome, time.perf_counter() - started)
        return pause

    async def _turn(self) -> None:
        now_s = time.monotonic()
        await self._results.write(self._leases.endpoints)
        await self._leases.refresh(now_s)
        self._start_attempts(now_s)
        await self._leases.give_back(now_s)

    def _start_attempts(self, now_s: float) -> None:
        """Start attempts while there is room, one per lease in turn."""
        leases = self._leases.endpoints
        failing = self._count_attempts(now_s)
        ready = deque(lease for lease in leases.values() if lease.may_send(now_s))
        while ready and self._has_room():
            lease = ready.popleft()
            if not lease.host.has_room(now_s):
                lease.host.contended = True
                continue
            if lease.failing and failing >= MAX_FAILING:
                continue
            failing += lease.failing
            self._start(lease)
            if lease.may_send(now_s):
                ready.append(lease)
        self._contended = (
            bool(ready) or failing >= MAX_FAILING or self._leases.failing() > MAX_FAILING
        )
        for key in list(leases)[:1]:  # the next turn begins with the second lease
            leases[key] = leases.pop(key)

    def _count_attempts(self, now_s: float) -> int:
        """Recount the slow attempts; return the number of attempts to failing endpoints."""
        self._slow = failing = 0
        for host in self._leases.hosts.values():
            host.slow, host.contended = 0, False
        for lease in self._leases.endpoints.values():
            lease.slow = sum(now_s - since >= _SLOW_S for since in lease.sending.values())
            lease.host.slow += lease.slow
            self._slow += lease.slow
            failing += len(lease.sending) if lease.failing else 0
        return failing

    def _has_room(self) -> bool:
        return self._sending < _MAX_ATTEMPTS and self._sending - self._slow < _MAX_QUICK_ATTEMPTS

    def _start(self, lease: EndpointLease) -> None:
        due = lease.begin(time.monotonic())
        self._sending += 1
        task = asyncio.create_task(self._attempts(lease, due))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attempts(self, lease: EndpointLease, due: DueDelivery | None) -> None:
        """Send a delivery, then the lease's next ones until another lease waits for room."""
        options = self._options
        while due is not None:
            try:
                attempt = await sending.attempt(
                    self._outgoing, self._secret_key, due, self._clock(), options.timeout_s,
                    options.header_prefix,
                )  # fmt: skip
            except WrongKey:
                self._pause_unsigned(lease)
                return
            finally:
                lease.end(due)
                self._sending -= 1
            lease.adapt(attempt, time.monotonic(), is_test=due.body is None)
            lease.unwritten.add(due.event_id)
            self._results.add(result_of(due, attempt, self._clock()))
            metrics.count_delivery(attempt.outcome, attempt.duration_ms / 1000)
            self._attempt_ended.set()
            due = self._next(lease)

    def _pause_unsigned(self, lease: EndpointLease) -> None:
        """Pause a lease whose deliveries cannot be signed, without counting a failure."""
        lease.pause(self._options.unsigned_s)
        self._attempt_ended.set()
        now_s = time.monotonic()
        if self._warned_at is None or now_s >= self._warned_at + self._options.unsigned_s:
            self._warned_at = now_s
            _log.error("webhooks cannot be signed", reason=sending.WRONG_KEY, endpoint=lease.key[1])

    def _next(self, lease: EndpointLease) -> DueDelivery | None:
        now_s = time.monotonic()
        contended = self._contended or lease.host.contended or not lease.host.has_room(now_s)
        if contended or not lease.may_send(now_s) or not self._leases.holds(lease):
            return None
        self._sending += 1
        return lease.begin(now_s)

    async def _finish(self) -> None:
        """Wait for running attempts, write their results, and give all leases back."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._options.drain_s)
        for task in self._tasks:
            task.cancel()  # the lease's next owner sends the delivery again
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self._results.write(self._leases.endpoints)
            await self._leases.give_back_all()
        except Unavailable as error:
            _log.warning("webhooks leave results unwritten", reason=error.reason)
