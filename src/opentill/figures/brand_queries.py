"""SQL about payments and disputes by month, method, card brand and currency (decision 0147).

Payments are counted by ``queries.COUNT``. Disputes are few, so they are read when they are shown.
"""

from typing import Final

from opentill.db.query import Command, Query, Value
from opentill.figures.model import MonthOfDisputes, MonthOfPayments
from opentill.figures.queries import MONTH

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
    """
    select sums.payments is distinct from paid.payments
    from (select coalesce(sum(payments), 0) as payments from brand_figures) sums, (
        select coalesce(sum(f.payments), 0) as payments
        from figure_heads h cross join lateral (
            select payments from figures f
            where f.merchant_id = h.merchant_id and f.currency = h.currency
            order by f.since desc limit 1
        ) f
    ) paid
    """,
)
# Makes other counters wait until the recount is committed.
LOCK = Command("lock table brand_figures in exclusive mode")
CLEAR = Command("delete from brand_figures")
# Count everything again, from the counted entries.
RECOUNT = Command(
    f"""
    insert into brand_figures (merchant_id, month, method, brand, currency, payments, volume_minor)
    select o.merchant_id, {MONTH.format("e.created_at")},
        coalesce(a.method, o.payment_method, ''), coalesce(a.card_brand, ''), o.currency, count(*),
        sum(o.amount_minor)
    from figure_heads h
    join entries e on e.merchant_id = h.merchant_id and e.currency = h.currency
        and e.number <= h.number and e.type = 'PAYMENT'
    join orders o on o.merchant_id = e.merchant_id and o.id = e.source_id
    left join payment_attempts a on a.merchant_id = o.merchant_id and a.id = o.paid_attempt_id
    group by 1, 2, 3, 4, 5
    """  # noqa: S608 - interpolates constants of this program only
)
