"""SQL about payments and failed attempts by gateway, method and currency (decision 0078)."""

from opentill.db.query import Command, Query, Value
from opentill.figures.model import DaySums, GatewaySums, LastPayment
from opentill.figures.queries import NEWEST_PAYMENTS

# Rows are written in sorted order, so that workers counting different merchants cannot deadlock.
# A transaction adds everything with one statement, for the same reason.
ADD = Command(
    """
    insert into gateway_figures as g
        (since, gateway, method, currency, payments, volume_minor, failed)
    select since, gateway, method, currency, sum(payments), sum(volume_minor), sum(failed)
    from unnest(:since::bigint[], :gateway::text[], :method::text[], :currency::text[],
        :payments::bigint[], :volume_minor::bigint[], :failed::bigint[])
        as c (since, gateway, method, currency, payments, volume_minor, failed)
    group by since, gateway, method, currency order by since, gateway, method, currency
    on conflict (since, gateway, method, currency) do update set
        payments = g.payments + excluded.payments,
        volume_minor = g.volume_minor + excluded.volume_minor, failed = g.failed + excluded.failed
    """
)
BETWEEN = Query(
    GatewaySums,
    """
    select gateway, method, currency, sum(payments)::bigint as payments,
        sum(volume_minor)::bigint as volume_minor, sum(failed)::bigint as failed
    from gateway_figures where since >= :since and since < :until
        and (:only::text[] is null or gateway = any(:only::text[]))
    group by gateway, method, currency
    having sum(payments) > 0 or sum(failed) > 0
    order by gateway, method, currency
    """,
)
# The newest quarter hour with a payment, by gateway.
LAST_PAYMENTS = Query(
    LastPayment,
    """
    select gateway, max(since) as since from gateway_figures
    where since >= :since and payments > 0
        and (:only::text[] is null or gateway = any(:only::text[]))
    group by gateway
    """,
)
# The sums of each day from its start in `:starts` to the next one, the last of them until `:until`.
BY_DAY = Query(
    DaySums,
    """
    select width_bucket(since, :starts::bigint[]) - 1 as index, currency,
        sum(payments)::bigint as payments, sum(volume_minor)::bigint as volume_minor,
        sum(failed)::bigint as failed
    from gateway_figures where since >= (:starts::bigint[])[1] and since < :until
    group by 1, 2 order by 1, 2
    """,
)
# Whether the figures by gateway differ from the sums of all merchants' figures: one index lookup
# per balance and merchant.
DIFFER = Value(
    bool,
    f"""
    select (sums.payments, sums.failed) is distinct from (paid.payments, tried.failed)
    from (
        select coalesce(sum(payments), 0) as payments, coalesce(sum(failed), 0) as failed
        from gateway_figures
    ) sums, (
        select coalesce(sum(f.payments), 0) as payments from ({NEWEST_PAYMENTS}) f
    ) paid, (
        select coalesce(sum(f.failed), 0) as failed
        from merchants m cross join lateral (
            select failed from attempt_figures f where f.merchant_id = m.id
            order by f.since desc limit 1
        ) f
    ) tried
    """,  # noqa: S608 - interpolates constants of this program only
)
# Makes other counters wait until the recount is committed.
LOCK = Command("lock table gateway_figures in exclusive mode")
CLEAR = Command("delete from gateway_figures")
# Count everything again, from the counted entries and attempts.
RECOUNT = Command(
    """
    insert into gateway_figures (since, gateway, method, currency, payments, volume_minor, failed)
    select since, gateway, method, currency, sum(payments), sum(volume_minor), sum(failed)
    from (
        select e.created_at / 900000 * 900000 as since, coalesce(a.gateway, '') as gateway,
            coalesce(a.method, o.payment_method, '') as method, o.currency, 1 as payments,
            o.amount_minor as volume_minor, 0 as failed
        from figure_heads h
        join entries e on e.merchant_id = h.merchant_id and e.currency = h.currency
            and e.number <= h.number and e.type = 'PAYMENT'
        join orders o on o.merchant_id = e.merchant_id and o.id = e.source_id
        left join payment_attempts a on a.merchant_id = o.merchant_id and a.id = o.paid_attempt_id
        union all
        select a.direct_counted_at, a.gateway, a.method, o.currency, 1, o.amount_minor, 0
        from payment_attempts a
        join orders o on o.merchant_id = a.merchant_id and o.id = a.order_id
        where a.direct_counted_at is not null
        union all
        select counted_at, gateway, method, currency, 0, 0, 1
        from payment_attempts where counted_at > 0  -- 0: canceled by the customer
    ) counted
    group by since, gateway, method, currency
    """
)
