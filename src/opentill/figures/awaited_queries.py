"""SQL about money that becomes available later: pending money and the reserve by due time."""

from opentill.db.query import Query
from opentill.figures.model import Awaited

# The amounts that become available before the first boundary (slot 0) and between two boundaries.
# The rest of the balance is due after the last boundary.
AWAITED = Query(
    Awaited,
    """
    select b.currency, a.account, slots.slot, slots.amount_minor
    from balances b
    cross join (values ('pending'), ('reserve')) as a (account)
    cross join lateral (
        select width_bucket(f.since, :boundaries::bigint[]) as slot,
            sum(f.amount_minor)::bigint as amount_minor
        from awaited_figures f
        where f.merchant_id = :merchant_id and f.currency = b.currency and f.account = a.account
            and f.since < (:boundaries::bigint[])[cardinality(:boundaries::bigint[])]
        group by 1
    ) slots
    where b.merchant_id = :merchant_id
    """,
)
# The awaited money of disputed orders by its due time, which is not available before the disputes
# are decided. The slots are those of AWAITED; the last one is
# after all boundaries. `:until`: the time of the first entry that is not counted.
DISPUTED = Query(
    Awaited,
    """
    select waits.currency, waits.account,
        width_bucket(waits.due_at / 900000 * 900000, :boundaries::bigint[]) as slot,
        sum(waits.minor)::bigint as amount_minor
    from (
        select settled_currency as currency, 'pending' as account, due_at,
            net_settled_minor - refund_debit_minor - charged_back_minor as minor
        from orders
        where merchant_id = :merchant_id and status = 'DISPUTED' and settled_at is null
            and not paid_directly and paid_at < :until
        union all
        select settled_currency, 'reserve', reserve_release_at, reserve_minor
        from orders
        where merchant_id = :merchant_id and status = 'DISPUTED' and reserve_status = 'HELD'
            and settled_at < :until
    ) waits
    group by 1, 2, 3
    """,
)
