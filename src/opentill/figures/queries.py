"""All SQL about figures, and the integrity rules about them (decision 0066)."""

from collections.abc import Mapping
from typing import Final

from opentill.db.query import Command, Query, Value
from opentill.figures.model import (
    BalanceProgress,
    Behind,
    CurrencySums,
    FailedUntil,
    MerchantVolume,
    Sums,
    UncountedChanges,
    Until,
)

# For each figure, the SQL of what entries add to it. A BALANCE_CORRECTION whose source is a payout
# gives the merchant the payout's fee back, and a FEE from the platform a part of a payment's fee.
_MEASURES: Final[Mapping[str, str]] = {
    "payments": "count(*) filter (where type = 'PAYMENT')",
    "paid_minor": "sum(case type when 'PAYMENT' then amount_minor else 0 end)",
    "refunds": "count(*) filter (where type = 'REFUND' and to_account = 'gateway')"
    " - count(*) filter (where type = 'REFUND' and from_account = 'gateway')",
    "refunded_minor": "sum(case when type <> 'REFUND' then 0"
    " when to_account = 'gateway' then amount_minor else - amount_minor end)",
    "disputes": "count(*) filter (where type = 'CHARGEBACK')"
    " - count(*) filter (where type = 'CHARGEBACK_RECOVERY')",
    "disputed_minor": "sum(case type when 'CHARGEBACK' then amount_minor"
    " when 'CHARGEBACK_RECOVERY' then - amount_minor else 0 end)",
    "fees_minor": "sum(case when (type, from_account) = ('FEE', 'platform') then - amount_minor"
    " when type in ('FEE', 'CHARGEBACK_FEE') then amount_minor"
    " when (type, source_type) = ('BALANCE_CORRECTION', 'payout') then - amount_minor else 0 end)",
}


def _each(piece: str) -> str:
    """Write a piece of SQL for each figure, with the figure's name in place of ``{0}``."""
    return ", ".join(piece.format(name) for name in _MEASURES)


# The first millisecond of the month (UTC) of a time.
MONTH: Final = (
    "(extract(epoch from date_trunc('month', to_timestamp({} / 1000), 'UTC')) * 1000)::bigint"
)
_SUMS: Final = ", ".join(f"{sql} as {name}" for name, sql in _MEASURES.items())

# The newest running sums of payments of each balance: one index lookup for each.
NEWEST_PAYMENTS: Final = """
    select f.payments from figure_heads h cross join lateral (
        select payments from figures f
        where f.merchant_id = h.merchant_id and f.currency = h.currency
        order by f.since desc limit 1
    ) f
    union all
    select f.payments from direct_figures h cross join lateral (
        select payments from direct_figures f
        where f.merchant_id = h.merchant_id and f.currency = h.currency
        order by f.since desc limit 1
    ) f
    where h.since = 0
"""
# The merchants and currencies that have any figures.
_CURRENCIES: Final = """(
    select merchant_id, currency from figure_heads
    union select merchant_id, currency from direct_figures where since = 0
)"""


def _newest(table: str, before: str) -> str:
    """Return SQL for the running sums of ``h``'s currency until a time, in a table of figures."""
    return f"""(
        select * from {table} f
        where f.merchant_id = h.merchant_id and f.currency = h.currency and f.since < {before}
        order by f.since desc limit 1
    )"""  # noqa: S608 - interpolates constants of this program only


_COUNTED: Final = """(
    select e.* from entries e join figure_heads h
        on h.merchant_id = e.merchant_id and h.currency = e.currency
    where e.number <= h.number
) counted"""


def _waiting(entries: str) -> str:
    """Return SQL for the awaited money of entries: the changes of pending and reserve by due time.

    Entries of one source and time are summed before their order is looked up. An operator's
    correction is due at once.
    """
    return f"""
    select e.merchant_id, e.currency, e.account, e.amount,
        coalesce(
            case e.account when 'pending' then o.due_at else o.reserve_release_at end, e.created_at
        ) / 900000 * 900000 as since
    from (
        select merchant_id, currency, source_type, source_id, account,
            created_at,
            sum(case account when to_account then amount_minor else - amount_minor end) as amount
        from {entries} cross join (values ('pending'), ('reserve')) as waits (account)
        where account in (from_account, to_account)
        group by merchant_id, currency, source_type, source_id, account, created_at
    ) e
    left join refunds r on e.source_type = 'refund'
        and r.merchant_id = e.merchant_id and r.id = e.source_id
    left join disputes d on e.source_type = 'dispute'
        and d.merchant_id = e.merchant_id and d.id = e.source_id
    left join orders o on o.merchant_id = e.merchant_id
        and o.id = coalesce(r.order_id, d.order_id, e.source_id)
    """  # noqa: S608 - interpolates constants of this program only


OPEN_HEAD = Command(
    """
    insert into figure_heads (merchant_id, currency, number)
    select merchant_id, currency, 0 from balances
    where merchant_id = :merchant_id and currency = :currency
    on conflict do nothing
    """
)
LOCK_HEAD = Value(
    int,
    """
    select number from figure_heads
    where merchant_id = :merchant_id and currency = :currency for update
    """,
)
# Count at most `:limit` entries of a balance after number `:after`; return how many. The caller
# holds the head's lock, so each entry is counted once. An entry with a higher number is never
# earlier, so of the existing rows only the last one may change.
COUNT = Value(
    int,
    f"""
    with taken as materialized (
        select merchant_id, currency, number, type, amount_minor, from_account, to_account,
            source_type, source_id, created_at, created_at / 900000 * 900000 as since
        from entries
        where merchant_id = :merchant_id and currency = :currency and number > :after
        order by number limit :limit
    ), quarter as (
        select since, {_SUMS} from taken group by since
    ), before as (
        select * from figures where merchant_id = :merchant_id and currency = :currency
        order by since desc limit 1
    ), counted as (
        insert into figures (merchant_id, currency, since, {_each("{0}")})
        select :merchant_id, :currency, q.since,
            {_each("coalesce(b.{0}, 0) + sum(q.{0}) over (order by q.since)")}
        from quarter q left join before b on true order by q.since
        on conflict (merchant_id, currency, since) do update set {_each("{0} = excluded.{0}")}
    ), moved as materialized (
        select account, since, sum(amount)::bigint as amount
        from ({_waiting("taken")}) w group by account, since
    ), cancelled as (
        delete from awaited_figures f using moved m
        where f.merchant_id = :merchant_id and f.currency = :currency
            and (f.account, f.since) = (m.account, m.since) and f.amount_minor = - m.amount
        returning f.account, f.since
    ), awaited as (
        insert into awaited_figures as f (merchant_id, currency, account, since, amount_minor)
        select :merchant_id, :currency, account, since, amount from moved
        where amount <> 0 and (account, since) not in (select account, since from cancelled)
        on conflict (merchant_id, currency, account, since)
            do update set amount_minor = f.amount_minor + excluded.amount_minor
    ), paid as materialized (
        select t.since, coalesce(a.gateway, '') as gateway,
            coalesce(a.method, o.payment_method, '') as method,
            coalesce(a.card_brand, '') as brand, o.currency,
            count(*) as payments, sum(o.amount_minor) as volume_minor
        from taken t
        join orders o on o.merchant_id = t.merchant_id and o.id = t.source_id
        left join payment_attempts a on a.merchant_id = o.merchant_id and a.id = o.paid_attempt_id
        where t.type = 'PAYMENT' group by 1, 2, 3, 4, 5
    ), by_brand as (
        insert into brand_figures as b
            (merchant_id, month, method, brand, currency, payments, volume_minor)
        select :merchant_id, {MONTH.format("since")}, method, brand, currency, sum(payments),
            sum(volume_minor)
        from paid group by 2, 3, 4, 5 order by 2, 3, 4, 5
        on conflict (merchant_id, month, method, brand, currency) do update set
            payments = b.payments + excluded.payments,
            volume_minor = b.volume_minor + excluded.volume_minor
    ), by_gateway as (
        insert into gateway_figures as g
            (since, gateway, method, currency, payments, volume_minor, failed)
        select since, gateway, method, currency, sum(payments), sum(volume_minor), 0 from paid
        group by since, gateway, method, currency order by since, gateway, method, currency
        on conflict (since, gateway, method, currency) do update set
            payments = g.payments + excluded.payments,
            volume_minor = g.volume_minor + excluded.volume_minor
    ), head as (
        update figure_heads set number = (select max(number) from taken)
        where merchant_id = :merchant_id and currency = :currency and exists (select from taken)
    )
    select count(*) from taken
    """,  # noqa: S608 - interpolates constants of this program only
)
# The next balances that have uncounted entries, and how many each has.
BEHIND = Query(
    Behind,
    """
    select b.merchant_id, b.currency, b.entries - coalesce(h.number, 0) as waiting
    from balances b
    left join figure_heads h on h.merchant_id = b.merchant_id and h.currency = b.currency
    where b.entries > coalesce(h.number, 0)
        and (b.merchant_id, b.currency) > (:merchant_id, :currency)
    order by b.merchant_id, b.currency limit :limit
    """,
)
BEHIND_OF = Query(
    Behind,
    """
    select b.merchant_id, b.currency, b.entries - coalesce(h.number, 0) as waiting
    from balances b
    left join figure_heads h on h.merchant_id = b.merchant_id and h.currency = b.currency
    where b.merchant_id = :merchant_id and b.entries > coalesce(h.number, 0)
    order by b.currency
    """,
)
WAITING = Value(
    int,
    """
    select (b.entries - coalesce(h.number, 0))::bigint
    from (select sum(entries) as entries from balances) b,
        (select sum(number) as number from figure_heads) h
    """,
)

BALANCES = Query(
    BalanceProgress,
    """
    select b.currency, b.pending, b.available, b.frozen, b.reserve, b.prepaid,
        coalesce(last.pending_after, 0) as counted_pending,
        coalesce(last.reserve_after, 0) as counted_reserve, (
        select e.created_at from entries e
        where e.merchant_id = b.merchant_id and e.currency = b.currency
            and e.number = coalesce(h.number, 0) + 1
    ) as behind_since
    from balances b
    left join figure_heads h on h.merchant_id = b.merchant_id and h.currency = b.currency
    left join entries last on last.merchant_id = b.merchant_id and last.currency = b.currency
        and last.number = h.number
    where b.merchant_id = :merchant_id
    union all  -- direct payments without a fee post nothing
    select d.currency, 0, 0, 0, 0, 0, 0, 0, null from direct_figures d
    where d.merchant_id = :merchant_id and d.since = 0 and not exists (
        select from balances b where b.merchant_id = d.merchant_id and b.currency = d.currency
    )
    order by currency
    """,
)
# The sums of all time before each boundary, without boundaries before the first entry: two index
# lookups per boundary.
UNTIL = Query(
    Until,
    f"""
    select h.currency, wanted.before, {_each("coalesce(f.{0}, 0) as {0}")},
        coalesce(d.payments, 0) as direct_payments, coalesce(d.paid_minor, 0) as direct_minor,
        0 as direct_refunds, 0 as direct_refunded_minor
    from {_CURRENCIES} h
    cross join unnest(:before::bigint[]) as wanted (before)
    left join lateral {_newest("figures", "wanted.before")} f on true
    left join lateral {_newest("direct_figures", "wanted.before")} d on true
    where h.merchant_id = :merchant_id and (f.since is not null or d.since is not null)
    """,  # noqa: S608 - interpolates constants of this program only
)
# The sums of a range of time, for all merchants or for one: four index lookups per currency.
RANGE_SUMS = Query(
    CurrencySums,
    f"""
    select h.currency,
        {_each("(coalesce(sum(u.{0}), 0) - coalesce(sum(s.{0}), 0))::bigint as {0}")},
        (coalesce(sum(du.payments), 0) - coalesce(sum(ds.payments), 0))::bigint as direct_payments,
        (coalesce(sum(du.paid_minor), 0) - coalesce(sum(ds.paid_minor), 0))::bigint as direct_minor,
        0 as direct_refunds, 0 as direct_refunded_minor
    from {_CURRENCIES} h
    left join lateral {_newest("figures", ":until")} u on true
    left join lateral {_newest("figures", ":since")} s on true
    left join lateral {_newest("direct_figures", ":until")} du on true
    left join lateral {_newest("direct_figures", ":since")} ds on true
    where (:merchant_id::text is null or h.merchant_id = :merchant_id)
        and (u.since is not null or du.since is not null)
    group by h.currency order by h.currency
    """,  # noqa: S608 - interpolates constants of this program only
)
# The payments of a range of time of each of these merchants: four index lookups per currency.
PAID_BY_MERCHANT = Query(
    MerchantVolume,
    f"""
    select h.merchant_id, h.currency,
        (coalesce(u.paid_minor, 0) - coalesce(s.paid_minor, 0))::bigint as paid_minor,
        (coalesce(du.paid_minor, 0) - coalesce(ds.paid_minor, 0))::bigint as direct_minor
    from {_CURRENCIES} h
    left join lateral {_newest("figures", ":until")} u on true
    left join lateral {_newest("figures", ":since")} s on true
    left join lateral {_newest("direct_figures", ":until")} du on true
    left join lateral {_newest("direct_figures", ":since")} ds on true
    where h.merchant_id = any (:merchant_ids::text[])
    """,  # noqa: S608 - interpolates constants of this program only
)
FAILED_UNTIL = Query(
    FailedUntil,
    """
    select wanted.before, f.failed from unnest(:before::bigint[]) as wanted (before)
    cross join lateral (
        select failed from attempt_figures f
        where f.merchant_id = :merchant_id and f.since < wanted.before
        order by f.since desc limit 1
    ) f
    """,
)
COUNTED_TO = Value(
    int,
    """
    select number from figure_heads where merchant_id = :merchant_id and currency = :currency
    """,
)
# The sums of a range of entry numbers, computed from the entries, where direct payments are not.
SUMS = Query(
    Sums,
    f"""
    select {", ".join(f"coalesce({sql}, 0)::bigint as {name}" for name, sql in _MEASURES.items())},
        0 as direct_payments, 0 as direct_minor, 0 as direct_refunds, 0 as direct_refunded_minor
    from entries
    where merchant_id = :merchant_id and currency = :currency
        and number > :after and number <= :last
    """,  # noqa: S608 - interpolates constants of this program only
)
# Changes of balances that no figure counts by themselves: few entries, of operators and disputes.
# Everything except the named types is a correction, unless it gets a reason of its own here.
UNCOUNTED_CHANGES = Query(
    UncountedChanges,
    """
    select coalesce(sum(minor) filter (where type = 'PAYOUT'), 0)::bigint as payouts_minor,
        coalesce(sum(minor) filter (where type = 'ADMIN_RECHARGE'), 0)::bigint as recharges_minor,
        coalesce(sum(minor) filter (where type = 'CHARGEBACK_FEE'), 0)::bigint dispute_fees_minor,
        coalesce(sum(minor) filter (where type = 'CHARGEBACK_RECOVERY'), 0)::bigint recovered_minor,
        coalesce(sum(minor) filter (where type not in ('PAYOUT', 'ADMIN_RECHARGE', 'CHARGEBACK_FEE',
            'CHARGEBACK_RECOVERY') and (type, source_type) <> ('BALANCE_CORRECTION', 'payout')), 0
        )::bigint as corrections_minor
    from (select *, shown_minor as minor from entries) e
    where merchant_id = :merchant_id and type = any(:types::text[])
        and created_at between :since and :until and currency = :currency
    """,
)

# Integrity rules: their sentences, and statements that find violations (integrity/queries.py). Each
# statement sums both sides of a comparison, the figures and the rows.
RULES: Final[Mapping[str, str]] = {
    "figures are the sums of the entries that are counted": f"""
    select merchant_id, currency || ' ' || since as subject,
        'the sums until its end differ from those of its entries' as detail
    from (
        select merchant_id, currency, since, {_each("sum({0}) over sofar as {0}")}
        from (
            select e.merchant_id, e.currency, e.created_at / 900000 * 900000 as since, {_SUMS}
            from entries e join figure_heads h
                on h.merchant_id = e.merchant_id and h.currency = e.currency
            where e.number <= h.number group by 1, 2, 3
        ) quarters
        window sofar as (partition by merchant_id, currency order by since)
        union all
        select merchant_id, currency, since, {_each("- {0}")} from figures
    ) both_sides
    group by merchant_id, currency, since
    having count(*) <> 2 or ({_each("sum({0})")}) <> ({_each("0")})
    union all
    select h.merchant_id, h.currency, 'counted to ' || h.number || ' of ' || b.entries
    from figure_heads h join balances b
        on b.merchant_id = h.merchant_id and b.currency = h.currency
    where h.number > b.entries
    """,  # noqa: S608 - interpolates constants of this program only
    "awaited money is what its entries left in the account": f"""
    select merchant_id, currency || ' ' || account || ' ' || since as subject,
        sum(counted) || ' counted, ' || sum(there) || ' there' as detail
    from (
        select merchant_id, currency, account, since, amount_minor as counted, 0 as there
        from awaited_figures
        union all
        select merchant_id, currency, account, since, 0, amount
        from ({_waiting(_COUNTED)}) w
    ) both_sides
    group by merchant_id, currency, account, since
    having sum(counted) <> sum(there)
    """,  # noqa: S608 - interpolates constants of this program only
    "failed attempts are counted in the quarter hour that they name": """
    select merchant_id, since::text as subject,
        sum(counted) || ' counted, ' || sum(there) || ' there' as detail
    from (
        select merchant_id, since,
            failed - lag(failed, 1, 0::bigint) over (partition by merchant_id order by since)
                as counted, 0 as there
        from attempt_figures
        union all
        select merchant_id, counted_at, 0, count(*) from payment_attempts
        where counted_at > 0 group by merchant_id, counted_at
    ) both_sides
    group by merchant_id, since having sum(counted) <> sum(there)
    """,
    "direct payments are counted in the quarter hour that they name": """
    select merchant_id, currency || ' ' || since as subject,
        sum(counted) || ' counted, ' || sum(there) || ' there; ' || sum(counted_minor) || ' and '
            || sum(there_minor) || ' minor units' as detail
    from (
        select merchant_id, currency, since,
            payments - lag(payments, 1, 0::bigint) over sofar as counted, 0 as there,
            paid_minor - lag(paid_minor, 1, 0::bigint) over sofar as counted_minor,
            0 as there_minor
        from direct_figures
        window sofar as (partition by merchant_id, currency order by since)
        union all
        select o.merchant_id, o.settled_currency, a.direct_counted_at, 0, 1, 0,
            o.gross_settled_minor
        from payment_attempts a
        join orders o on o.merchant_id = a.merchant_id and o.id = a.order_id
        where a.direct_counted_at is not null
    ) both_sides
    group by merchant_id, currency, since
    having sum(counted) <> sum(there) or sum(counted_minor) <> sum(there_minor)
    """,
    # Missing payments are no violation: a worker of the previous version leaves them uncounted, and
    # the worker's hourly job counts them (`jobs.repair_by_brand`).
    "payments by card brand are counted once, in their month": f"""
    select merchant_id, currency || ' ' || month as subject,
        sum(counted) || ' counted, ' || sum(there) || ' there; ' || sum(volume_counted)
            || ' and ' || sum(volume_there) || ' minor units' as detail
    from (
        select merchant_id, currency, month, payments as counted, 0 as there,
            volume_minor as volume_counted, 0 as volume_there
        from brand_figures
        union all
        select o.merchant_id, o.currency, {MONTH.format("e.created_at")}, 0, 1, 0, o.amount_minor
        from figure_heads h
        join entries e on e.merchant_id = h.merchant_id and e.currency = h.currency
            and e.number <= h.number and e.type = 'PAYMENT'
        join orders o on o.merchant_id = e.merchant_id and o.id = e.source_id
        union all
        select o.merchant_id, o.currency, {MONTH.format("a.direct_counted_at")}, 0, 1, 0,
            o.amount_minor
        from payment_attempts a
        join orders o on o.merchant_id = a.merchant_id and o.id = a.order_id
        where a.direct_counted_at is not null
    ) both_sides
    group by merchant_id, currency, month
    having sum(counted) > sum(there)
        or (sum(counted) = sum(there) and sum(volume_counted) <> sum(volume_there))
    """,  # noqa: S608 - interpolates constants of this program only
}
