"""Search payouts of all merchants, for staff."""

from collections.abc import Sequence

import msgspec

from opentill.core.errors import NotFound
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.list_counts import FOREVER, page_values
from opentill.payouts import overview_queries as queries
from opentill.payouts.model import STATUSES, Payout, PayoutTotal, RunOfPayout, Status
from opentill.payouts.service import find_anywhere


class PayoutFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter for payouts that were created in a range of time (inclusive Unix ms).

    ``merchant_id`` None selects the payouts of all merchants, and ``amounts`` None those of any
    amount. ``after`` is the id of the last payout on the previous page, "" for the first page.
    """

    merchant_id: str | None = None
    statuses: tuple[Status, ...] = STATUSES
    amounts: tuple[Money, ...] | None = None
    since: int = 0
    until: int = FOREVER
    after: str = ""


async def search_all(tx: Tx, criteria: PayoutFilter, limit: int) -> list[Payout]:
    """Return payouts, newest first; ``after`` is ignored if no payout has this id."""
    last = await _find_last(tx, criteria.after)
    values = page_values(criteria.statuses, (criteria.since, criteria.until), last, limit)
    if criteria.amounts is not None:
        return await queries.OF_AMOUNTS.all(
            tx,
            merchant_id=criteria.merchant_id,
            amount_minor=[amount.minor for amount in criteria.amounts],
            currency=[amount.currency for amount in criteria.amounts],
            **values,
        )
    if criteria.merchant_id is not None:
        return await queries.OF_MERCHANT.all(tx, merchant_id=criteria.merchant_id, **values)
    return await queries.OF_ALL.all(tx, **values)


async def _find_last(tx: Tx, payout_id: str) -> Payout | None:
    try:
        return await find_anywhere(tx, payout_id) if payout_id else None
    except NotFound:
        return None


async def find_runs_of_payouts(
    tx: Tx, payouts: Sequence[Payout]
) -> dict[tuple[str, str], RunOfPayout]:
    """Return the runs of payouts by the ids of merchant and payout."""
    runs = await queries.RUNS_OF_PAYOUTS.all(
        tx,
        merchant_id=[payout.merchant_id for payout in payouts],
        payout_id=[payout.id for payout in payouts],
    )
    return {(run.merchant_id, run.payout_id): run for run in runs}


async def sum_paid(tx: Tx, merchant_id: str) -> dict[str, PayoutTotal]:
    """Return the totals of a merchant's payouts that arrived, by currency."""
    rows = await queries.TOTALS.all(tx, merchant_id=merchant_id, status="PAID")
    return {row.currency: row for row in rows}


async def sum_pending(tx: Tx, merchant_id: str) -> dict[str, PayoutTotal]:
    """Return the totals of a merchant's payouts that are on their way, by currency."""
    rows = await queries.TOTALS.all(tx, merchant_id=merchant_id, status="PENDING")
    return {row.currency: row for row in rows}


async def find_first_since(tx: Tx, merchant_id: str, currency: str, since: int) -> Payout | None:
    """Return a merchant's first payout in a currency from a time (Unix ms) on, None for none yet.

    It contains what became available at that time.
    """
    return await queries.FIRST_SINCE.first(
        tx, merchant_id=merchant_id, currency=currency, since=since
    )
