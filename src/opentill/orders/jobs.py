"""The worker's jobs on orders: querying attempts, sending duplicate payments back, pruning history.

No order stays CREATING forever: a job finds orders whose attempts are no longer queried.
"""

import secrets
from collections.abc import Mapping, Sequence
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
STUCK_MS: Final = 15 * 60_000  # an order that has been CREATING for longer counts as stuck
_MERCHANTS: Final = 100  # one turn reads the history of at most this many merchants
# One transaction prunes this many orders; most of them have up to five rows of history.
_PRUNED_AT_ONCE: Final = 200
# Status of the last attempt → the event that a forgotten CREATING order has missed.
_MISSED_EVENTS: Final[dict[AttemptStatus, Event]] = {
    "DECLINED": "declined",
    "REFUSED": "refused",
    "VOIDED": "voided",
}
_log: Final = structlog.get_logger()


async def gateways_due(db: Db, environment: Sequence[str], now: int) -> list[str]:
    """Return the gateways and accounts with due attempts, except those of ``environment``."""
    async with db.connection() as tx:
        due = await attempt_queries.GATEWAYS_DUE.all(tx, gateways=list(environment), now=now)
    return [row.gateway for row in due]


async def check_attempts(
    db: Db,
    gateways: Mapping[str, Gateway],
    public_url: str,
    now: int,
    batch: int = 50,
    only: jobs.GatewayFilter = jobs.EVERY_GATEWAY,
) -> int:
    """Query a batch of attempts that are due, and return how many there were."""
    async with db.connection() as tx:
        due = await attempt_queries.CLAIM_ATTEMPTS.all(
            tx, only, now=now, lease_until=now + _LEASE_MS, limit=batch
        )

    async def check(attempt: PaymentAttempt) -> None:
        if attempt.status == "DUPLICATE":
            await duplicates.return_duplicate(db, gateways, attempt, public_url, now)
            after = attempt
        elif attempt.status == "ACTION_REQUIRED":
            after = await payments.close_page(db, gateways, attempt, now)
        else:
            after = await payments.query_attempt(db, gateways, attempt, now)
        if after.status == attempt.status:
            check_at = payments.next_check(attempt, now)
            async with db.connection() as tx:
                await attempt_queries.SCHEDULE_CHECK.run(
                    tx,
                    merchant_id=attempt.merchant_id,
                    id=attempt.id,
                    status=attempt.status,
                    check_at=check_at,
                    claimed_until=attempt.check_at,
                )

    await jobs.each(due, check, lambda attempt: attempt.id)
    return len(due)


async def find_forgotten(db: Db, now: int, batch: int = 100) -> int:
    """Resume orders that are CREATING though none of their attempts is to be queried any more.

    If a gateway reported another amount than was due, the operator decides (`orders confirm` or
    `revoke`). Any other cause is a defect, which is repaired here and logged. Returns the number of
    orders.
    """
    async with db.connection() as tx:
        forgotten = await queries.FORGOTTEN.all(tx, since=now - STUCK_MS, limit=batch)

    async def resume(order: Forgotten) -> None:
        await db.run(lambda tx: _resume(tx, order.merchant_id, order.id, now))

    return await jobs.each(forgotten, resume, lambda order: order.id)


async def _resume(tx: Tx, merchant_id: str, order_id: str, now: int) -> None:
    order = await service.lock(tx, merchant_id, order_id)
    attempts = await queries.ATTEMPTS.all(tx, merchant_id=merchant_id, order_id=order_id)
    if order.status != "CREATING" or any(attempt.check_at is not None for attempt in attempts):
        return  # the order or an attempt has changed since FORGOTTEN read it
    last = attempts[-1] if attempts else None
    _log.warning("order forgotten", order=order.id, attempt=last.id if last else None)
    if last is not None and last.status in UNDECIDED:
        await attempt_queries.QUERY_NOW.run(tx, merchant_id=last.merchant_id, id=last.id, now=now)
    elif event := _MISSED_EVENTS.get(last.status) if last else "declined":
        await transition(tx, Change(order, event, "nothing is on its way any more"), now)


class HistoryPruner:
    """Deletes the history of orders whose last change is more than some days old.

    Only the last row of such an order stays, since it explains the order's status. A round reads
    the history of all orders, by merchant and order id. It takes several turns, each of which
    continues where the previous one ended. So rows that are kept are read once per round and not in
    every turn, and an order that changes after it was pruned is read again in the next round.
    """

    def __init__(self, db: Db, days: int, rows: int = 20_000, *, anywhere: bool = False) -> None:
        """Delete nothing if ``days`` is 0; a turn reads at most ``rows`` rows.

        ``anywhere``: begin at a random merchant, because the process may end before the first round
        does and would prune the same merchants again after each start.
        """
        self._db = db
        self._days = days
        self._rows = rows
        self._anywhere = anywhere
        self._merchant_id = ""
        # The last order whose history was read; None: continue with the next merchant.
        self._order_id: str | None = None

    async def turn(self, now: int) -> int:
        """Prune a part of the history and return how many rows were deleted."""
        deleted, remaining = 0, self._rows if self._days else 0
        before = now - self._days * DAY_MS
        for _ in range(_MERCHANTS):
            if remaining <= 0 or not await self._find_merchant():
                break
            merchant_id, part = self._merchant_id, await self._next_part(before, remaining)
            remaining -= part.rows
            for begin in range(0, len(part.old), _PRUNED_AT_ONCE):
                orders = part.old[begin : begin + _PRUNED_AT_ONCE]
                deleted += await self._db.run(
                    partial(_prune_orders, merchant_id=merchant_id, order_id=orders, before=before)
                )
        return deleted

    async def _find_merchant(self) -> bool:
        """Move on to the next merchant if necessary; False after the last one: the round ends."""
        if self._order_id is None:
            async with self._db.connection() as tx:
                after = await queries.MERCHANT_AFTER.get(tx, after=self._merchant_id)
                last = await queries.LAST_MERCHANT.get(tx) if self._anywhere else None
                if last is not None and after is not None and after < last:
                    since, until = creation_time(after), creation_time(last)
                    random_time = since + secrets.randbelow(until - since + 1)
                    after = await queries.MERCHANT_AFTER.get(tx, after=first_id("mer", random_time))
                self._anywhere = False
            self._merchant_id, self._order_id = after or "", None if after is None else ""
        return self._order_id is not None

    async def _next_part(self, before: int, limit: int) -> HistoryPart:
        """Read the next part and advance past it, so that a failure to prune it blocks no other."""
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
    """Make all future checks of attempts due now, after the clock was set back."""
    await attempt_queries.MAKE_DUE.run(tx, now=now)


async def count_stuck(tx: Tx, now: int) -> int:
    """Return how many orders are stuck in CREATING, at most 10,000."""
    return await queries.STUCK.get(tx, since=now - STUCK_MS) or 0


async def list_stuck(tx: Tx, now: int, limit: int) -> list[Order]:
    """Return orders of all merchants that are stuck in CREATING, the oldest first."""
    return await queries.STUCK_ORDERS.all(tx, since=now - STUCK_MS, limit=limit)


async def list_unreturned_duplicates(tx: Tx, until: int, limit: int) -> list[PaymentAttempt]:
    """Return duplicate payments that are not sent back yet, the oldest first.

    They arrived until a time (Unix ms), or their gateway has refused to send them back.
    """
    return await attempt_queries.DUPLICATES.all(tx, until=until, limit=limit)


async def count_due(tx: Tx, now: int) -> int:
    """Return how many attempts are due for a query, at most 10,000."""
    return await attempt_queries.COUNT_DUE.get(tx, now=now) or 0


async def oldest_check(tx: Tx) -> int | None:
    """Return when the first attempt is due for a query (Unix ms); None if there is none."""
    return await attempt_queries.OLDEST_CHECK.get(tx)


async def oldest_settlement(tx: Tx) -> int | None:
    """Return when the first order is due to settle (Unix ms); None if there is none."""
    return await settlement_queries.OLDEST_SETTLEMENT.get(tx)


async def oldest_release(tx: Tx) -> int | None:
    """Return when the first rolling reserve is due for release (Unix ms); None if there is none."""
    return await settlement_queries.OLDEST_RELEASE.get(tx)


async def count_settlements(tx: Tx, now: int) -> int:
    """Return how many orders are due to settle, at most 10,000."""
    return await settlement_queries.COUNT_SETTLEMENTS.get(tx, now=now) or 0


async def count_releases(tx: Tx, now: int) -> int:
    """Return how many rolling reserves are due for release, at most 10,000."""
    return await settlement_queries.COUNT_RELEASES.get(tx, now=now) or 0


async def count_unanswered(tx: Tx, until: int) -> list[UnansweredAttempts]:
    """Count the attempts created until a time (Unix ms) whose outcome is unknown, by gateway."""
    return await attempt_queries.UNANSWERED.all(tx, until=until)


async def list_last_refused(tx: Tx, newest: int) -> list[PaymentAttempt]:
    """Return each gateway's last refused attempt.

    Searches only the ``newest`` attempts of each merchant, so that no index is needed.
    """
    return await attempt_queries.LAST_REFUSED.all(tx, newest=newest)


async def list_last_paid(tx: Tx, newest: int) -> dict[str, int]:
    """Return when each gateway's last payment was paid, by gateway.

    Searches only the ``newest`` attempts of each merchant, so that no index is needed.
    """
    return {row.gateway: row.at for row in await attempt_queries.LAST_PAID.all(tx, newest=newest)}


async def count_to_index(tx: Tx) -> int:
    """Return how many changes of orders are not indexed for the search, at most 10,000."""
    return await search_queries.COUNT_WAITING.get(tx) or 0
