"""Worker jobs of the Epay API: they notify shops of paid orders.

A notice is a row that the transition of an order to PAID writes. It is sent at least once: a worker
claims it under a lease, and unless it records a result before the lease ends, another sends it.
"""

import asyncio
import time
from collections import Counter
from typing import Final

import msgspec
import structlog

from opentill.context import App
from opentill.core import encryption, log
from opentill.core.errors import Unavailable
from opentill.db.database import Tx
from opentill.epay import (
    credentials,
    notices,
    queries,
    recovery_queries,
    refunding,
    replays,
    service,
)
from opentill.epay.model import EarlyNotice, Notice
from opentill.orders.statuses import PAID_STATUSES
from opentill.outgoing.client import Forbidden, NoResponse, Outgoing, Response, Unreachable
from opentill.outgoing.faults import Evidence, Fault, classify

_log: Final = structlog.get_logger()
TIMEOUT_S: Final = 5.0
MAX_CONCURRENT: Final = 256  # at most this many notices are in flight per process
MAX_PER_MERCHANT: Final = 8  # at most this many notices are in flight per process and merchant
# A claimed notice is leased for this time, which is far longer than a try takes.
_LEASE_MS: Final = 60_000
_POLL_S: Final = 0.25  # interval between two queries for due notices
# Pause between the end of a notice and the next claim, so that one claim replaces several notices.
_BATCH_S: Final = 0.05
# At most this many database connections are used at once: requests need the rest of the pool.
_MAX_CONNECTIONS: Final = 8
# Faults of a shop that works, but refuses a notice; and none, if the notice could not be sent.
_OF_ONE_NOTICE: Final = frozenset[Fault | None]({None, "bom", "no_success", "signature_refused"})
_MAX_RESULT_LENGTH: Final = 200  # characters
_MINUTE_MS: Final = 60_000
# The waits before the second and each later try; if the last one fails, the notice has failed.
WAITS_MS: Final = tuple(minutes * _MINUTE_MS for minutes in (1, 3, 20, 60, 120, 360, 1440))


class NoticeAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a try: whether the shop acknowledged it, a short result, and the fault."""

    is_acknowledged: bool
    result: str
    fault: Fault | None
    status: int = 0  # the HTTP status, 0 without a response


class Notifier:
    """Sends due notices such that a slow or unreachable shop delays no other merchant.

    A notice is claimed only when it can be sent at once. Merchants with the fewest notices in
    flight come first. So despite one merchant's long queue or many timeouts, the others wait only
    until the next notice in flight has ended.
    """

    def __init__(self, app: App, max_concurrent: int = MAX_CONCURRENT) -> None:
        """``max_concurrent`` limits the notices in flight."""
        self._app = app
        self._max_concurrent = max_concurrent
        self._in_flight: Counter[str] = Counter()  # numbers of notices, by merchant
        self._tasks: set[asyncio.Task[None]] = set()
        self._db_slots = asyncio.Semaphore(_MAX_CONNECTIONS)
        self._warn_at = 0.0  # monotonic time before which unsigned notices are not logged again

    async def claim(self, now: int) -> int:
        """Claim as many due notices as there is room for, start to send them, return how many."""
        room = self._max_concurrent - len(self._tasks)
        if room <= 0:
            return 0
        in_flight = dict(self._in_flight)
        async with self._app.db.connection() as tx:
            claimed_notices = await queries.CLAIM_NOTICES.all(
                tx, now=now, lease_until=now + _LEASE_MS, limit=room,
                per_merchant=MAX_PER_MERCHANT, merchant_id=list(in_flight),
                notices=list(in_flight.values()),
            )  # fmt: skip
        for notice in claimed_notices:
            self._in_flight[notice.merchant_id] += 1
            task = asyncio.create_task(self._process(notice, now))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return len(claimed_notices)

    async def run_once(self) -> int:
        """Claim due notices and wait until one ends; return 0 only if none is in flight."""
        claimed = await self.claim(self._app.clock())
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(_BATCH_S)
        return claimed or len(self._tasks)

    async def finish(self) -> None:
        """Wait for the notices in flight, which takes seconds at most."""
        await asyncio.gather(*self._tasks)

    async def _process(self, notice: Notice, now: int) -> None:
        """Send a notice; after an error it is claimed again when its lease ends."""
        try:
            attempt = await self._send(notice, now)
            if attempt is not None and attempt.is_acknowledged:
                await self._send_waiting(notice, now)
        except Unavailable as error:
            _log.warning("notice waits for the database", reason=error.reason)
        except Exception:  # noqa: BLE001 - logged; the other notices go on
            _log.exception("job failed for a row", row=notice.order_id)
        finally:
            self._in_flight[notice.merchant_id] -= 1
            self._in_flight += Counter()  # adding a Counter removes zero counts

    async def _send_waiting(self, accepted: Notice, now: int) -> None:
        """Send the notices that wait for the server that has just accepted one, in their order.

        Ends with a failure of the server. A shop that refuses one notice may accept the others.
        """
        while True:
            now = max(now, self._app.clock())
            async with self._db_slots, self._app.db.connection() as tx:
                notice = await recovery_queries.CLAIM_EARLY.first(
                    tx, merchant_id=accepted.merchant_id, order_id=accepted.order_id, now=now,
                    lease_until=now + _LEASE_MS,
                )  # fmt: skip
            if notice is None:
                return
            attempt = await self._send(notice, now)
            if attempt is None or attempt.fault not in _OF_ONE_NOTICE:
                return

    async def _send(self, notice: Notice, now: int) -> NoticeAttempt | None:
        """Send a notice and record what came of it; None if it could not be signed."""
        app, merchant_id, order_id = self._app, notice.merchant_id, notice.order_id
        try:
            async with self._db_slots, app.db.connection() as tx:
                order, params = await notices.signed_message(
                    tx, app.settings, merchant_id, order_id
                )
                unpaid_orders = await service.find_unpaid_siblings(tx, order)
        except encryption.WrongKey:
            # This is not counted as a try: the notice is sent once the right key is set again.
            self._log_unsigned()
            return None
        for unpaid_order in unpaid_orders:
            async with self._db_slots:
                await service.end_unpaid_sibling(app.db, order, unpaid_order, now)
        if order.status in PAID_STATUSES:
            attempt = await send_once(app.outgoing, notices.address(order.notify_url, params))
        else:
            # The order was refunded or disputed meanwhile, so the shop must not deliver.
            attempt = NoticeAttempt(
                is_acknowledged=False, result=f"not sent: the order is {order.status}", fault=None
            )
        async with self._db_slots, app.db.connection() as tx:
            if attempt.is_acknowledged:
                await queries.RECORD_DELIVERY.run(
                    tx, merchant_id=merchant_id, order_id=order_id, result=attempt.result,
                    fault=attempt.fault, now=now,
                )  # fmt: skip
                return attempt
            if isinstance(notice, EarlyNotice):
                await recovery_queries.RECORD_EARLY_FAILURE.run(
                    tx, merchant_id=merchant_id, order_id=order_id, tries=notice.tries,
                    result=attempt.result, fault=attempt.fault, now=now, due_at=notice.due_before,
                )  # fmt: skip
                return attempt
            wait = WAITS_MS[notice.tries] if notice.tries < len(WAITS_MS) else None
            due_at = None if wait is None else now + wait
            await queries.RECORD_FAILURE.run(
                tx, merchant_id=merchant_id, order_id=order_id, tries=notice.tries,
                result=attempt.result, fault=attempt.fault, now=now, due_at=due_at,
            )  # fmt: skip
        _log.warning(
            "notice not taken", order=notice.order_id, tries=notice.tries + 1,
            result=attempt.result, fault=attempt.fault, last=due_at is None,
        )  # fmt: skip
        return attempt

    def _log_unsigned(self) -> None:
        """Log the configuration error once a minute instead of for each notice."""
        if time.monotonic() >= self._warn_at:
            self._warn_at = time.monotonic() + _LEASE_MS / 1000
            _log.error("notices cannot be signed", reason=credentials.WRONG_KEY)


async def send_due(app: App, now: int) -> int:
    """Send at most as many due notices as may be in flight at once; return their number."""
    notifier = Notifier(app)
    claimed = await notifier.claim(now)
    await notifier.finish()
    return claimed


async def send_once(outgoing: Outgoing, address: str) -> NoticeAttempt:
    """Send a notice once, and return what came of it."""
    try:
        response = await outgoing.send("GET", address, timeout_s=TIMEOUT_S)
    except Forbidden as error:
        evidence = Evidence.of_failure(str(error), "success", is_forbidden=True)
        result = f"not sent: {error}"
    except Unreachable as error:
        evidence, result = Evidence.of_failure(str(error), "success"), f"not reached: {error}"
    except NoResponse as error:
        evidence, result = Evidence.of_failure(str(error), "success"), f"no response: {error}"
    else:
        evidence = Evidence.of_response(response, "success")
        ending = "" if evidence.is_accepted else ", without success"
        result = f"HTTP {response.status}{ending}"
    return NoticeAttempt(
        is_acknowledged=evidence.is_accepted,
        result=_short(result),
        fault=classify(evidence),
        status=evidence.status,
    )


def acknowledged(response: Response) -> bool:
    """Whether a response acknowledges the notice."""
    return Evidence.of_response(response, "success").is_accepted


def _short(text: str) -> str:
    return log.redact(text)[:_MAX_RESULT_LENGTH]


async def prune(tx: Tx, now: int) -> int:
    """Delete a batch of expired refund requests and used signatures; return their number."""
    requests = await queries.PRUNE_REQUESTS.run(tx, until=now - refunding.REPEATABLE_MS)
    return requests + await replays.prune(tx)


async def make_due(tx: Tx, now: int) -> None:
    """Make all pending notices due now, after the business clock was set back."""
    await queries.MAKE_NOTICES_DUE.run(tx, now=now)


async def oldest_notice(tx: Tx) -> int | None:
    """Return the earliest time at which a notice is due (Unix ms); None without notices."""
    return await queries.OLDEST_NOTICE.get(tx)


async def count_notices(tx: Tx, now: int) -> int:
    """Return the number of due notices, at most 10,000."""
    return await queries.COUNT_NOTICES.get(tx, now=now) or 0
