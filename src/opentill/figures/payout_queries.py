"""SQL about the contents of a payout: what changed the available balance since the one before."""

from typing import Final

from opentill.db.query import Query
from opentill.figures.payout_model import PayoutItem, PayoutSum
from opentill.ledger import Entry

# The last payout of a currency before an entry.
PREVIOUS = Query(
    Entry,
    """
    select * from entries
    where merchant_id = :merchant_id and currency = :currency and type = 'PAYOUT'
        and from_account = 'available' and created_at <= :at and number < :before
    order by created_at desc, id desc limit 1
    """,
)
# An entry that changed the available balance: why, and by how much. If it settled a payment,
# `gross_minor` and `fee_minor` are the payment's. What is missing to the amount was taken before it
# settled: `lost_minor` and `dispute_fee_minor` by a lost dispute, and the rest was refunded. If
# that was more than the payment's net amount, such as a refund in full, the entry is a FREEZE of
# the order (orders/settlement/movements.py).
_ITEMS: Final = """
    select e.number, e.id, e.created_at, e.type, e.source_type, e.source_id,
        case
            when e.type = 'SETTLEMENT' or e.type = 'FREEZE' and e.source_type = 'order'
                then 'payments'
            when e.type like 'ROLLING_RESERVE%' then 'reserve'
            when e.source_type = 'payout' then 'payouts'
            when e.type = 'CHARGEBACK_FEE' then 'dispute_fees'
            when e.source_type = 'dispute' then 'disputes'
            when e.source_type in ('order', 'refund') then 'refunds'
            else 'adjustments'
        end as kind,
        case e.to_account when 'available' then e.amount_minor else - e.amount_minor end
            as amount_minor,
        paid.gross_minor, paid.fee_minor, coalesce(lost.lost_minor, 0) as lost_minor,
        coalesce(lost.dispute_fee_minor, 0) as dispute_fee_minor
    from entries e
    left join lateral (
        select (sum(p.amount_minor) filter (where p.type = 'PAYMENT'))::bigint as gross_minor,
            coalesce(sum(p.amount_minor) filter (where p.type = 'FEE'), 0)::bigint as fee_minor
        from entries p
        where p.merchant_id = e.merchant_id and p.source_type = 'order'
            and p.source_id = e.source_id and p.type in ('PAYMENT', 'FEE')
    ) paid on e.source_type = 'order' and e.type in ('SETTLEMENT', 'FREEZE')
    left join lateral (
        select (sum(l.amount_minor) filter (where l.type = 'CHARGEBACK'))::bigint as lost_minor,
            (sum(l.amount_minor) filter (where l.type = 'CHARGEBACK_FEE'))::bigint
                as dispute_fee_minor
        from disputes d
        join entries l on l.merchant_id = d.merchant_id and l.source_type = 'dispute'
            and l.source_id = d.id
        where d.merchant_id = e.merchant_id and d.order_id = e.source_id
            and l.type in ('CHARGEBACK', 'CHARGEBACK_FEE') and l.from_account = 'pending'
            and l.number < e.number
    ) lost on e.source_type = 'order' and e.type in ('SETTLEMENT', 'FREEZE')
    where e.merchant_id = :merchant_id and e.currency = :currency
        and e.number > :after and e.number < :before
        and 'available' in (e.from_account, e.to_account)
"""
SUMS = Query(
    PayoutSum,
    f"""
    select kind, count(*) as items, sum(amount_minor)::bigint as amount_minor,
        coalesce(sum(gross_minor), 0)::bigint as gross_minor,
        coalesce(sum(fee_minor), 0)::bigint as fee_minor,
        sum(lost_minor)::bigint as lost_minor,
        sum(dispute_fee_minor)::bigint as dispute_fee_minor,
        count(*) filter (where amount_minor
            <> gross_minor - fee_minor - lost_minor - dispute_fee_minor) as refunded_items,
        count(*) filter (where lost_minor > 0) as lost_items,
        count(*) filter (where dispute_fee_minor > 0) as dispute_fee_items
    from ({_ITEMS}) items
    group by kind
    """,  # noqa: S608 - interpolates constants of this program only
)
# Newest first.
PAGE = Query(PayoutItem, f"{_ITEMS} order by e.number desc limit :limit offset :offset")
# Oldest first, after an entry.
FOLLOWING = Query(PayoutItem, f"{_ITEMS} order by e.number limit :limit")
