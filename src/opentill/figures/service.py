"""Reads figures, with a number of index lookups that does not depend on the number of orders."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from operator import attrgetter
from typing import Final

import msgspec

from opentill import orders
from opentill.db.database import Db, Tx
from opentill.figures import awaited_queries, direct_refund_queries, gateway_queries, queries
from opentill.figures.model import (
    Attempts,
    AttemptsComparison,
    Awaited,
    Awaiting,
    BalanceProgress,
    Coming,
    Comparison,
    CurrencyFigures,
    CurrencySums,
    Day,
    DaySums,
    DirectRefunds,
    Expected,
    Figures,
    GatewaySums,
    Hour,
    MerchantVolume,
    Period,
    Schedule,
    Sums,
    hours_until,
    last_days,
    next_days,
    periods,
    quarter,
)

DAYS: Final = 30  # figures are shown separately for this many days up to today
COMING: Final = 14  # awaited money is shown separately for this many days from today on


class _Counts:
    """The counts before each requested boundary: sums by currency, and attempts."""

    def __init__(self, sums: Mapping[tuple[str, int], Sums], failed: Mapping[int, int]) -> None:
        self._sums = sums
        self._failed = failed
        self._currencies = {currency for currency, _ in sums}

    def totals(self, currency: str, since: int, until: int) -> Sums:
        """Return the sums of a range, which are 0 if no entry is counted yet."""
        nothing = Sums()
        before = self._sums.get((currency, since), nothing)
        return self._sums.get((currency, until), nothing).minus(before)

    def attempts(self, since: int, until: int) -> Attempts:
        """Return the attempts of a range, over all currencies."""
        paid = sum(self.totals(each, since, until).all_payments for each in self._currencies)
        return Attempts(paid, self._failed.get(until, 0) - self._failed.get(since, 0))


async def read(db: Db, merchant_id: str, zone: tzinfo, now: int) -> Figures:
    """Return a merchant's figures by the days of a time zone; ``now`` is Unix ms."""
    days = tuple(last_days(now, zone, DAYS))
    compared = tuple(periods(now, zone))
    coming_days = tuple(next_days(now, zone, COMING))
    hours = hours_until(days[-1], now)
    async with db.snapshot() as tx:
        balances = await queries.BALANCES.all(tx, merchant_id=merchant_id)
        counts = await _counts(tx, merchant_id, _boundaries([*days, *hours], compared))
        awaited = await _read_awaited(tx, merchant_id, coming_days, balances, now)
        behind = [await orders.find_uncounted_since(tx, merchant_id)]
    behind += [balance.behind_since for balance in balances]
    return Figures(
        as_of=min([now, *(at for at in behind if at is not None)]),
        days=days,
        coming=coming_days,
        currencies=tuple(
            _figures_of_currency(balance, counts, days, hours, compared, awaited)
            for balance in balances
        ),
        attempts=tuple(counts.attempts(day.since, day.until) for day in days),
        hours=hours,
        attempts_by_hour=tuple(counts.attempts(hour.since, hour.until) for hour in hours),
        attempts_compared=tuple(
            AttemptsComparison(
                each,
                counts.attempts(each.since, each.until),
                counts.attempts(each.before_since, each.before_until),
            )
            for each in compared
        ),
    )


async def find_coming(db: Db, merchant_id: str, zone: tzinfo, now: int) -> Coming:
    """Return a merchant's awaited money by the days of a zone; ``now`` is Unix ms."""
    days = tuple(next_days(now, zone, COMING))
    async with db.snapshot() as tx:
        balances = await queries.BALANCES.all(tx, merchant_id=merchant_id)
        awaited = await _read_awaited(tx, merchant_id, days, balances, now)
    behind = [one.behind_since for one in balances]
    return Coming(
        min([now, *(at for at in behind if at is not None)]),
        days,
        tuple(
            Expected(one, _schedule(awaited, one, "pending"), _schedule(awaited, one, "reserve"))
            for one in balances
        ),
    )


async def _read_awaited(
    tx: Tx, merchant_id: str, days: Sequence[Day], balances: Sequence[BalanceProgress], now: int
) -> list[Awaited]:
    """Read the amounts by currency, account and slot; disputed orders' money is in slot 0."""
    edges = [quarter(now), *(day.until for day in days)]
    uncounted_since = [one.behind_since for one in balances if one.behind_since is not None]
    key = {"merchant_id": merchant_id, "boundaries": edges}
    awaited = await awaited_queries.AWAITED.all(tx, **key)
    disputed = await awaited_queries.DISPUTED.all(
        tx, **key, until=min(uncounted_since, default=now + 1)
    )
    amounts: Counter[tuple[str, Awaiting, int]] = Counter()
    for row in awaited:
        amounts[row.currency, row.account, row.slot] += row.amount_minor
    for row in disputed:
        amounts[row.currency, row.account, 0] += row.amount_minor
        if row.slot < len(edges):
            amounts[row.currency, row.account, row.slot] -= row.amount_minor
    return [Awaited(*place, minor) for place, minor in amounts.items()]


def _boundaries(days: Sequence[Day | Hour], compared: Sequence[Period]) -> list[int]:
    """Return the sorted boundaries of all ranges."""
    ends = {edge for day in days for edge in (day.since, day.until)}
    for period in compared:
        ends |= {period.since, period.until, period.before_since, period.before_until}
    return sorted(ends)


async def _counts(tx: Tx, merchant_id: str, boundaries: list[int]) -> _Counts:
    rows = await queries.UNTIL.all(tx, merchant_id=merchant_id, before=boundaries)
    sums: dict[tuple[str, int], Sums] = {(row.currency, row.before): row for row in rows}
    for place, refunds in (await _refunds_until(tx, merchant_id, boundaries)).items():
        sums[place] = sums.get(place, Sums()).plus(refunds)
    failed = await queries.FAILED_UNTIL.all(tx, merchant_id=merchant_id, before=boundaries)
    return _Counts(sums, {row.before: row.failed for row in failed})


async def _refunds_until(
    tx: Tx, merchant_id: str, boundaries: Sequence[int]
) -> dict[tuple[str, int], Sums]:
    """Return the sums of refunds of direct payments from the first boundary to each other one."""
    rows = await direct_refund_queries.OF_MERCHANT.all(
        tx, merchant_id=merchant_id, before=list(boundaries)
    )
    in_slot = {(row.currency, row.slot): row for row in rows}
    until: dict[tuple[str, int], Sums] = {}
    for currency in {row.currency for row in rows}:
        sums = Sums()
        for slot, boundary in enumerate(boundaries[1:], start=1):
            if (row := in_slot.get((currency, slot))) is not None:
                sums = sums.plus(_sums_of(row))
            until[currency, boundary] = sums
    return until


def _sums_of(row: DirectRefunds) -> Sums:
    return Sums(direct_refunds=row.refunds, direct_refunded_minor=row.refunded_minor)


def _figures_of_currency(
    balance: BalanceProgress,
    counts: _Counts,
    days: Sequence[Day],
    hours: Sequence[Hour],
    compared: Sequence[Period],
    awaited: Sequence[Awaited],
) -> CurrencyFigures:
    currency = balance.currency
    return CurrencyFigures(
        balance=balance,
        ever=msgspec.structs.replace(
            counts.totals(currency, 0, days[-1].until), direct_refunds=0, direct_refunded_minor=0
        ),
        comparisons=tuple(
            Comparison(
                each,
                counts.totals(currency, each.since, each.until),
                counts.totals(currency, each.before_since, each.before_until),
            )
            for each in compared
        ),
        days=tuple(counts.totals(currency, day.since, day.until) for day in days),
        hours=tuple(counts.totals(currency, hour.since, hour.until) for hour in hours),
        pending=_schedule(awaited, balance, "pending"),
        reserve=_schedule(awaited, balance, "reserve"),
    )


def _schedule(awaited: Sequence[Awaited], balance: BalanceProgress, account: Awaiting) -> Schedule:
    slots = [0] * (COMING + 1)
    for row in awaited:
        if (row.currency, row.account) == (balance.currency, account):
            slots[row.slot] = row.amount_minor
    whole = balance.counted_pending if account == "pending" else balance.counted_reserve
    return Schedule(slots[0], tuple(slots[1:]), whole - sum(slots))


async def sum_range(tx: Tx, merchant_id: str | None, since: int, until: int) -> list[CurrencySums]:
    """Return the sums from ``since`` to ``until`` (excluded) by settlement currency.

    Both times are full quarter hours, Unix ms. ``merchant_id`` None means all merchants. Entries
    that are not counted yet are missing: ``jobs.count_all`` counts them.
    """
    sums = {row.currency: row for row in await sum_counted(tx, merchant_id, since, until)}
    if merchant_id is None:
        refunds = await direct_refund_queries.OF_ALL.all(tx, before=[since, until])
    else:
        refunds = await direct_refund_queries.OF_MERCHANT.all(
            tx, merchant_id=merchant_id, before=[since, until]
        )
    for row in refunds:
        sums[row.currency] = msgspec.structs.replace(
            sums.get(row.currency, CurrencySums(currency=row.currency)),
            direct_refunds=row.refunds,
            direct_refunded_minor=row.refunded_minor,
        )
    return sorted(sums.values(), key=attrgetter("currency"))


async def sum_counted(
    tx: Tx, merchant_id: str | None, since: int, until: int
) -> list[CurrencySums]:
    """Return the sums of ``sum_range`` without the refunds of direct payments.

    A range of all time costs only some index lookups.
    """
    return await queries.RANGE_SUMS.all(tx, merchant_id=merchant_id, since=since, until=until)


async def sum_by_merchant(
    tx: Tx, merchant_ids: Sequence[str], since: int, until: int
) -> list[MerchantVolume]:
    """Return the payments of merchants from ``since`` to ``until`` (excluded) by currency.

    Both times are full quarter hours, Unix ms. Entries that are not counted yet are missing, as in
    ``sum_range``.
    """
    return await queries.PAID_BY_MERCHANT.all(
        tx, merchant_ids=list(merchant_ids), since=since, until=until
    )


async def behind_since(tx: Tx, merchant_id: str) -> int | None:
    """Return the time of a merchant's first uncounted entry; None if all are counted."""
    balances = await queries.BALANCES.all(tx, merchant_id=merchant_id)
    return min((one.behind_since for one in balances if one.behind_since is not None), default=None)


async def sum_by_gateway(
    tx: Tx, since: int, until: int, only: Sequence[str] | None = None
) -> list[GatewaySums]:
    """Return the payments by gateway, method and currency from ``since`` to ``until`` (excluded).

    Both times are full quarter hours, Unix ms. The payments are those of all merchants, ``only``
    through these gateways if it is given. Entries
    that are not counted yet are missing, as in ``sum_range``.
    """
    return await gateway_queries.BETWEEN.all(tx, since=since, until=until, only=only)


async def list_last_payments(
    tx: Tx, since: int, only: Sequence[str] | None = None
) -> dict[str, int]:
    """Return the quarter hour (Unix ms) of each gateway's newest payment since a time, if any.

    ``only``: of these gateways.
    """
    rows = await gateway_queries.LAST_PAYMENTS.all(tx, since=since, only=only)
    return {row.gateway: row.since for row in rows}


async def sum_by_day(tx: Tx, days: Sequence[Day]) -> list[DaySums]:
    """Return the payments of all merchants by day and currency.

    The days follow one another. Days without payments and failed attempts have no row.
    """
    starts = [day.since for day in days]
    return await gateway_queries.BY_DAY.all(tx, starts=starts, until=days[-1].until)
