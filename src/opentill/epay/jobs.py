"""The worker's jobs of the Epay API: they notify shops that their orders were paid.

A notice is a row that the order's transition to PAID has written. It is sent at least once: a
worker claims it under a lease, and if it records no result before the lease ends, it is sent again.
"""

import asyncio
import time
from collections import Counter
from http import HTTPStatus
from typing import Final

import structlog

from opentill.context import App
from opentill.core import encryption, log
from opentill.core.errors import Unavailable
from opentill.db.database import Tx
from opentill.epay import credentials, notices, queries, refunding, service
from opentill.epay.model import PAID, Notice
from opentill.outgoing.client import Forbidden, NoResponse, Response, Unreachable

_log: Final = structlog.get_logger()
TIMEOUT_S: Final = 5.0
AT_ONCE: Final = 256  # notices on the way, of this process
OF_ONE_MERCHANT: Final = 8  # of those, at most
_LEASE_MS: Final = 60_000  # far longer than a try takes
_LOOK_S: Final = 0.25  # how often it looks for what is due
_GATHER_S: Final = 0.05  # pause after a notice has ended, in which others end and make room too
_CONNECTIONS: Final = 8  # to the database at once: the process's requests need some too
_LONGEST_RESULT: Final = 200  # characters
_MINUTE_MS: Final = 60_000
# The first try is made at once; these are the pauses after each failed one.
WAITS_MS: Final = tuple(minutes * _MINUTE_MS for minutes in (1, 3, 20, 60, 120, 360, 1440))


class Notifier:
    """Sends due notices; a slow or unreachable address holds up no other merchant's.

    Each notice is claimed when there is room for it, and sent at once. Room goes first to merchants
    that have the fewest of theirs on the way, so that neither a long queue nor many addresses that
    use up their five seconds keep others waiting for more than the next free place.
    """

    def __init__(self, app: App, at_once: int = AT_ONCE) -> None:
        """Send nothing yet; ``at_once`` is how many are on the way at most."""
        self._app = app
        self._at_once = at_once
        self._busy: Counter[str] = Counter()  # on the way, by merchant
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(_CONNECTIONS)
        self._warn_at = 0.0  # on the monotonic clock

    async def take(self, now: int) -> int:
        """Claim what there is room for, begin to send it and return how many those are."""
        room = self._at_once - len(self._tasks)
        if room <= 0:
            return 0
        busy = dict(self._busy)
        async with self._app.db.connection() as tx:
            due = await queries.CLAIM_NOTICES.all(
                tx, now=now, lease_until=now + _LEASE_MS, limit=room,
                per_merchant=OF_ONE_MERCHANT, merchant_id=list(busy), notices=list(busy.values()),
            )  # fmt: skip
        for notice in due:
            self._busy[notice.merchant_id] += 1
            task = asyncio.create_task(self._process(notice, now))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return len(due)

    async def turn(self) -> int:
        """Take what is due, wait for the first that is over, and return how many were taken."""
        taken = await self.take(self._app.clock())
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(_GATHER_S)
        return taken or len(self._tasks)

    async def finish(self) -> None:
        """Wait for what is on the way: seconds at most."""
        await asyncio.gather(*self._tasks)

    async def _process(self, notice: Notice, now: int) -> None:
        """Send one; if that fails, it comes again when the lease of its claim is over."""
        try:
            await self._send(notice, now)
        except Unavailable as error:
            _log.warning("notice waits for the database", reason=error.reason)
        except Exception:  # noqa: BLE001 - it is logged, and the others go on
            _log.exception("job failed for a row", row=notice.order_id)
        finally:
            self._busy[notice.merchant_id] -= 1
            self._busy += Counter()  # forget who has none

    async def _send(self, notice: Notice, now: int) -> None:
        app, merchant_id, order_id = self._app, notice.merchant_id, notice.order_id
        try:
            async with self._turns, app.db.connection() as tx:
                kept, params = await notices.signed_message(
                    tx, merchant_id, order_id, app.settings.secret_key
                )
                unpaid_orders = await service.unpaid_beside(tx, kept)
        except encryption.WrongKey:  # not a try: it goes out when the key is back
            self._cannot_sign()
            return
        for unpaid_order in unpaid_orders:
            async with self._turns:
                await service.end_unpaid(app.db, kept, unpaid_order, now)
        if kept.status in PAID:
            taken, result = await _try(app, notices.address(kept.notify_url, params))
        else:  # refunded or disputed meanwhile: the shop must not deliver
            taken, result = False, f"not sent: the order is {kept.status}"
        async with self._turns, app.db.connection() as tx:
            if taken:
                await queries.DELIVERED.run(
                    tx, merchant_id=merchant_id, order_id=order_id, result=result, now=now
                )
                return
            wait = WAITS_MS[notice.tries] if notice.tries < len(WAITS_MS) else None
            due_at = None if wait is None else now + wait
            await queries.TRIED.run(
                tx, merchant_id=merchant_id, order_id=order_id, tries=notice.tries, result=result,
                now=now, due_at=due_at,
            )  # fmt: skip
        _log.warning(
            "notice not taken", order=notice.order_id, tries=notice.tries + 1, result=result,
            last=due_at is None,
        )  # fmt: skip

    def _cannot_sign(self) -> None:
        """Say what is wrong, once a minute and not for each notice."""
        if time.monotonic() >= self._warn_at:
            self._warn_at = time.monotonic() + _LEASE_MS / 1000
            _log.error("notices cannot be signed", reason=credentials.WRONG_KEY)


async def send_due(app: App, now: int) -> int:
    """Send what is due, as far as there is room at once, and return how many those are."""
    notifier = Notifier(app)
    taken = await notifier.take(now)
    await notifier.finish()
    return taken


async def _try(app: App, address: str) -> tuple[bool, str]:
    """Send a notice once: whether it was acknowledged, and what came of it in a few words."""
    try:
        response = await app.outgoing.send("GET", address, timeout_s=TIMEOUT_S)
    except Forbidden as error:
        return False, _short(f"not sent: {error}")
    except Unreachable as error:
        return False, _short(f"not reached: {error}")
    except NoResponse as error:
        return False, _short(f"no response: {error}")
    taken = acknowledged(response)
    return taken, f"HTTP {response.status}" + ("" if taken else ", without success")


def acknowledged(response: Response) -> bool:
    """Return whether a response says that the notice was taken."""
    return response.status == HTTPStatus.OK and b"success" in response.body.strip().lower()


def _short(text: str) -> str:
    return log.redact(text)[:_LONGEST_RESULT]


async def prune(tx: Tx, now: int) -> int:
    """Delete a batch of what was kept of refunds by their request, and return how many."""
    return await queries.PRUNE_REQUESTS.run(tx, until=now - refunding.SAME_FOR_MS)


async def make_due(tx: Tx, now: int) -> None:
    """Make every notice due that is due later than now: the clock has gone back."""
    await queries.MAKE_NOTICES_DUE.run(tx, now=now)


async def oldest_notice(tx: Tx) -> int | None:
    """Return when the first notification is due to be sent (Unix ms); None if none is."""
    return await queries.OLDEST_NOTICE.get(tx)


async def count_notices(tx: Tx, now: int) -> int:
    """Return how many notifications are to be sent now, at most 10,000."""
    return await queries.COUNT_NOTICES.get(tx, now=now) or 0
