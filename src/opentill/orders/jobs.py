"""What the worker does for orders: asks gateways about attempts, gives duplicates back.

No order stays CREATING forever: one that no gateway would be asked about any more is found here.
"""

import secrets
from collections.abc import Mapping
from functools import partial
from typing import Final

import structlog

from opentill.core.ids import creation_time, first_id
from opentill.db import jobs
from opentill.db.database import Db, Tx
from opentill.gateways.model import Gateway
from opentill.orders import queries, service
from opentill.orders.model import (
    DAY_MS,
    UNDECIDED,
    AttemptStatus,
    Event,
    Forgotten,
    HistoryPart,
    Order,
    PaymentAttempt,
)
from opentill.orders.payments import duplicates
from opentill.orders.payments import queries as attempt_queries
from opentill.orders.payments import service as payments
from opentill.orders.payments.model import UnansweredAttempts
from opentill.orders.search import queries as search_queries
from opentill.orders.settlement import queries as settlement_queries
from opentill.orders.transitions import Change, transition

_LEASE_MS: Final = 60_000
STUCK_MS: Final = 15 * 60_000  # an order that is CREATING longer is worth a look
_MERCHANTS: Final = 100  # whose history one turn looks at
_PRUNED_AT_ONCE: Final = 200  # orders, of which the most have up to five rows
# The event that an order which is CREATING has missed, by the status of its last attempt.
_MISSED: Final[dict[AttemptStatus, Event]] = {
    "DECLINED": "declined",
    "REFUSED": "refused",
    "VOIDED": "voided",
}
_log: Final = structlog.get_logger()


async def check_attempts(
    db: Db,
    gateways: Mapping[str, Gateway],
    public_url: str,
    now: int,
    batch: int = 50,
    only: jobs.GatewayFilter = jobs.EVERY_GATEWAY,
) -> int:
    """Ask about a batch of attempts that are due and return how many there were."""
    async with db.connection() as tx:
        due = await attempt_queries.CLAIM_ATTEMPTS.all(
            tx, only, now=now, lease_until=now + _LEASE_MS, limit=batch
        )

    async def one(attempt: PaymentAttempt) -> None:
        if attempt.status == "DUPLICATE":
            await duplicates.give_back(db, gateways, attempt, public_url, now)
            after = attempt
        elif attempt.status == "ACTION_REQUIRED":
            after = await payments.close(db, gateways, attempt, now)
        else:
            after = await payments.ask(db, gateways, attempt, now)
        if after.status == attempt.status:
            again = payments.next_check(attempt, now)
            async with db.connection() as tx:
                await attempt_queries.ASK_AGAIN.run(
                    tx,
                    merchant_id=attempt.merchant_id,
                    id=attempt.id,
                    status=attempt.status,
                    check_at=again,
                    claimed_until=attempt.check_at,
                )

    await jobs.each(due, one, lambda attempt: attempt.id)
    return len(due)


async def find_forgotten(db: Db, now: int, batch: int = 100) -> int:
    """Handle orders that are CREATING though no gateway is to be asked about them any more.

    Where a gateway reported another amount than was due, the operator decides (`orders confirm` or
    `revoke`). Any other cause is a defect, which is repaired here and logged. Returns how many.
    """
    async with db.connection() as tx:
        forgotten = await queries.FORGOTTEN.all(tx, since=now - STUCK_MS, limit=batch)

    async def one(found: Forgotten) -> None:
        await db.run(lambda tx: _resume(tx, found, now))

    return await jobs.each(forgotten, one, lambda found: found.id)


async def _resume(tx: Tx, found: Forgotten, now: int) -> None:
    order = await service.lock(tx, found.merchant_id, found.id)
    attempts = await queries.ATTEMPTS.all(tx, merchant_id=found.merchant_id, order_id=found.id)
    if order.status != "CREATING" or any(attempt.check_at is not None for attempt in attempts):
        return  # somebody was faster
    last = attempts[-1] if attempts else None
    _log.warning("order forgotten", order=order.id, attempt=last.id if last else None)
    if last is not None and last.status in UNDECIDED:
        await attempt_queries.ASK_NOW.run(tx, merchant_id=last.merchant_id, id=last.id, now=now)
    elif event := _MISSED.get(last.status) if last else "declined":
        await transition(tx, Change(order, event, "nothing is on its way any more"), now)


class HistoryPruner:
    """Deletes what happened to orders that changed last more than some days ago.

    An order is pruned as a whole, but for its last row, which explains its status. Each turn goes
    on where the last one ended, from merchant to merchant and order to order, and after the last
    one begins anew: what is not old yet, and what is pruned already, is looked at once in a round
    and not in every turn. Orders that change after they were pruned come again by that.
    """

    def __init__(self, db: Db, days: int, rows: int = 20_000, *, anywhere: bool = False) -> None:
        """``rows`` is how many a turn looks at, at most; 0 days: nothing is deleted.

        ``anywhere``: begin with any merchant, in a process that may end before a round does.
        """
        self._db = db
        self._days = days
        self._rows = rows
        self._anywhere = anywhere
        self._merchant_id = ""
        self._order_id: str | None = None  # after which to go on; None: with the next merchant

    async def turn(self, now: int) -> int:
        """Look at some of the history and return how many rows were deleted."""
        deleted, left = 0, self._rows if self._days else 0
        before = now - self._days * DAY_MS
        for _ in range(_MERCHANTS):
            if left <= 0 or not await self._at_merchant():
                break
            merchant_id, part = self._merchant_id, await self._next_part(before, left)
            left -= part.rows
            for begin in range(0, len(part.old), _PRUNED_AT_ONCE):
                some = part.old[begin : begin + _PRUNED_AT_ONCE]
                deleted += await self._db.run(
                    partial(_prune_orders, merchant_id=merchant_id, order_id=some, before=before)
                )
        return deleted

    async def _at_merchant(self) -> bool:
        """Return whether there is a merchant to look at; where all were, begin anew."""
        if self._order_id is None:
            async with self._db.connection() as tx:
                after = await queries.MERCHANT_AFTER.get(tx, after=self._merchant_id)
                last = await queries.LAST_MERCHANT.get(tx) if self._anywhere else None
                if last is not None and after is not None and after < last:
                    since, until = creation_time(after), creation_time(last)
                    any_time = since + secrets.randbelow(until - since + 1)
                    after = await queries.MERCHANT_AFTER.get(tx, after=first_id("mer", any_time))
                self._anywhere = False
            self._merchant_id, self._order_id = after or "", None if after is None else ""
        return self._order_id is not None

    async def _next_part(self, before: int, limit: int) -> HistoryPart:
        """Return the next part, and be past it: one that fails is not in the way of the others."""
        async with self._db.connection() as tx:
            part = await queries.OLD_HISTORY.one(
                tx,
                merchant_id=self._merchant_id,
                after=self._order_id,
                before=before,
                limit=limit,
            )
        self._order_id = part.last if part.rows == limit else None
        return part


async def _prune_orders(tx: Tx, *, merchant_id: str, order_id: list[str], before: int) -> int:
    await queries.PRUNES_HISTORY.run(tx)
    return await queries.PRUNE_HISTORY.run(
        tx, merchant_id=merchant_id, order_id=order_id, before=before
    )


async def make_due(tx: Tx, now: int) -> None:
    """Make every check of an attempt due now that is due later: the clock was set back."""
    await attempt_queries.MAKE_DUE.run(tx, now=now)


async def count_stuck(tx: Tx, now: int) -> int:
    """Return how many orders, up to 10,000, are CREATING for too long."""
    return await queries.STUCK.get(tx, since=now - STUCK_MS) or 0


async def stuck(tx: Tx, now: int, limit: int) -> list[Order]:
    """Return orders of all merchants that are CREATING for too long, the longest first."""
    return await queries.STUCK_ORDERS.all(tx, since=now - STUCK_MS, limit=limit)


async def not_given_back(tx: Tx, until: int, limit: int) -> list[PaymentAttempt]:
    """Return second payments that came in until a time (Unix ms) and have not gone back."""
    return await attempt_queries.DUPLICATES.all(tx, until=until, limit=limit)


async def count_due(tx: Tx, now: int) -> int:
    """Return about how many attempts a gateway is to be asked now, at most 10,000."""
    return await attempt_queries.COUNT_DUE.get(tx, now=now) or 0


async def oldest_check(tx: Tx) -> int | None:
    """Return when the first attempt is due to be asked about (Unix ms); None if none is."""
    return await attempt_queries.OLDEST_CHECK.get(tx)


async def oldest_settlement(tx: Tx) -> int | None:
    """Return when the first order is due to settle (Unix ms); None if none is."""
    return await settlement_queries.OLDEST_SETTLEMENT.get(tx)


async def oldest_release(tx: Tx) -> int | None:
    """Return when the first rolling reserve is due for release (Unix ms); None if none is."""
    return await settlement_queries.OLDEST_RELEASE.get(tx)


async def count_settlements(tx: Tx, now: int) -> int:
    """Return how many orders are due to settle, at most 10,000."""
    return await settlement_queries.COUNT_SETTLEMENTS.get(tx, now=now) or 0


async def count_releases(tx: Tx, now: int) -> int:
    """Return how many rolling reserves are due for release, at most 10,000."""
    return await settlement_queries.COUNT_RELEASES.get(tx, now=now) or 0


async def unanswered(tx: Tx, until: int) -> list[UnansweredAttempts]:
    """Return, by gateway, attempts made until then whose outcome nobody knows, at most 10,000."""
    return await attempt_queries.UNANSWERED.all(tx, until=until)


async def last_refused(tx: Tx, newest: int) -> list[PaymentAttempt]:
    """Return each gateway's last refused attempt.

    It is looked for among the ``newest`` attempts of each merchant, so that no index is needed.
    """
    return await attempt_queries.LAST_REFUSED.all(tx, newest=newest)


async def count_to_index(tx: Tx) -> int:
    """Return how many changes of orders the search has not taken in, at most 10,000."""
    return await search_queries.COUNT_WAITING.get(tx) or 0
