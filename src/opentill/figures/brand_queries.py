"""SQL about payments and disputes by month, method, card brand and currency (decision 0147).

Payments are counted by ``queries.COUNT``, direct ones by ``ADD``. Disputes are few, so they are
read when they are shown.
"""

from typing import Final

from opentill.db.query import Command, Query, Value
from opentill.figures.model import MonthOfDisputes, MonthOfPayments
from opentill.figures.queries import MONTH, NEWEST_PAYMENTS

_PAYMENTS: Final = """
    select month, method, brand, currency, sum(payments)::bigint as payments,
        sum(volume_minor)::bigint as volume_minor
    from brand_figures where {of_merchant} month >= :since and month < :until
    group by month, method, brand, currency
"""
# Each dispute is counted in the month in which it was opened, and again in that of its decision.
# The bank's later return of a lost amount does not change the month of the loss.
_DISPUTES: Final = f"""
    select {MONTH.format("d.at")} as month, a.method, coalesce(a.card_brand, '') as brand,
        d.currency, sum(d.opened)::bigint as opened, sum(d.opened_minor)::bigint as opened_minor,
        sum(d.won)::bigint as won, sum(d.lost)::bigint as lost
    from (
        select merchant_id, attempt_id, currency, created_at as at, 1 as opened,
            amount_minor as opened_minor, 0 as won, 0 as lost
        from disputes where {{of_merchant}} created_at >= :since and created_at < :until
        union all
        select merchant_id, attempt_id, currency, closed_at, 0, 0, (status = 'WON')::int,
            (status <> 'WON')::int
        from disputes where {{of_merchant}} closed_at >= :since and closed_at < :until
    ) d
    join payment_attempts a on a.merchant_id = d.merchant_id and a.id = d.attempt_id
    group by 1, 2, 3, 4
"""  # noqa: S608 - interpolates constants of this program only
_OF_MERCHANT: Final = "merchant_id = :merchant_id and"
PAYMENTS = Query(MonthOfPayments, _PAYMENTS.format(of_merchant=_OF_MERCHANT))
PAYMENTS_OF_ALL = Query(MonthOfPayments, _PAYMENTS.format(of_merchant=""))
DISPUTES = Query(MonthOfDisputes, _DISPUTES.format(of_merchant=_OF_MERCHANT))
DISPUTES_OF_ALL = Query(MonthOfDisputes, _DISPUTES.format(of_merchant=""))

# Whether the payments by brand differ in number from the figures of their merchants: one index
# lookup per balance.
DIFFER = Value(
    bool,
    f"""
    select sums.payments is distinct from paid.payments
    from (select coalesce(sum(payments), 0) as payments from brand_figures) sums, (
        select coalesce(sum(f.payments), 0) as payments from ({NEWEST_PAYMENTS}) f
    ) paid
    """,  # noqa: S608 - interpolates constants of this program only
)
# Makes other counters wait until the recount is committed.
LOCK = Command("lock table brand_figures in exclusive mode")
CLEAR = Command("delete from brand_figures")
# Add direct payments of one merchant.
ADD = Command(
    f"""
    insert into brand_figures as b
        (merchant_id, month, method, brand, currency, payments, volume_minor)
    select :merchant_id, {MONTH.format("since")}, method, brand, currency, sum(payments),
        sum(volume_minor)
    from unnest(:since::bigint[], :method::text[], :brand::text[], :currency::text[],
        :payments::bigint[], :volume_minor::bigint[])
        as c (since, method, brand, currency, payments, volume_minor)
    group by 2, 3, 4, 5 order by 2, 3, 4, 5
    on conflict (merchant_id, month, method, brand, currency) do update set
        payments = b.payments + excluded.payments,
        volume_minor = b.volume_minor + excluded.volume_minor
    """  # noqa: S608 - interpolates constants of this program only
)
# Count everything again, from the counted entries and direct payments.
RECOUNT = Command(
    f"""
    insert into brand_figures (merchant_id, month, method, brand, currency, payments, volume_minor)
    select merchant_id, {MONTH.format("at")}, method, brand, currency, count(*), sum(amount_minor)
    from (
        select o.merchant_id, e.created_at as at,
            coalesce(a.method, o.payment_method, '') as method,
            coalesce(a.card_brand, '') as brand, o.currency, o.amount_minor
        from figure_heads h
        join entries e on e.merchant_id = h.merchant_id and e.currency = h.currency
            and e.number <= h.number and e.type = 'PAYMENT'
        join orders o on o.merchant_id = e.merchant_id and o.id = e.source_id
        left join payment_attempts a on a.merchant_id = o.merchant_id and a.id = o.paid_attempt_id
        union all
        select o.merchant_id, a.direct_counted_at, a.method, coalesce(a.card_brand, ''),
            o.currency, o.amount_minor
        from payment_attempts a
        join orders o on o.merchant_id = a.merchant_id and o.id = a.order_id
        where a.direct_counted_at is not null
    ) paid
    group by 1, 2, 3, 4, 5
    """  # noqa: S608 - interpolates constants of this program only
)
