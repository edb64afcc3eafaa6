"""SQL of the refunds of direct payments, which no entry shows. They are few: summed when read.

The index is `refunds_of_direct_payments`. A refund that debits nothing is one of a direct payment,
or of a fraction of a minor unit.
"""

from typing import Final

from opentill.db.query import Query
from opentill.figures.model import DirectRefunds

# A refund is added when it succeeds and subtracted when it is reversed. `{0}` limits the merchants.
_CHANGES: Final = """
    select merchant_id, id, succeeded_at as at, 1 as sign from refunds
    where debit_minor = 0 and succeeded_at >= (:before::bigint[])[1] {0}
    union all
    select merchant_id, id, failed_at, -1 from refunds
    where debit_minor = 0 and succeeded_at is not null and status = 'FAILED'
        and failed_at >= (:before::bigint[])[1] {0}
"""
# The slot `n` is from the n-th boundary to the next one, counted from 1. The amount of a refund in
# the settlement currency is its share of the payment: the shares of all refunds add up to it.
_SUMS: Final = """
    with changes as (
        select * from ({0}) all_changes
        where at < (:before::bigint[])[cardinality(:before::bigint[])]
    )
    select o.settled_currency as currency, width_bucket(c.at, :before::bigint[]) as slot,
        sum(c.sign)::bigint as refunds,
        sum(c.sign * (
            round(o.gross_settled_minor::numeric * (sofar.minor + r.amount_minor) / o.amount_minor)
            - round(o.gross_settled_minor::numeric * sofar.minor / o.amount_minor)
        ))::bigint as refunded_minor
    from changes c
    join refunds r on r.merchant_id = c.merchant_id and r.id = c.id
    join orders o on o.merchant_id = r.merchant_id and o.id = r.order_id and o.paid_directly
    cross join lateral (
        select coalesce(sum(e.amount_minor), 0) as minor from refunds e
        where e.merchant_id = r.merchant_id and e.order_id = r.order_id
            and (e.succeeded_at, e.id) < (r.succeeded_at, r.id)
    ) sofar
    group by 1, 2 order by 1, 2
"""
OF_MERCHANT = Query(DirectRefunds, _SUMS.format(_CHANGES.format("and merchant_id = :merchant_id")))
OF_ALL = Query(DirectRefunds, _SUMS.format(_CHANGES.format("")))
