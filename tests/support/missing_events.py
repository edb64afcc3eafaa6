"""Whether merchants were told all that happened, once: the events against everything else."""

from typing import Final

from opentill.db.database import Tx

_UNTOLD: Final = """
    with told as (
        select merchant_id, type, count(*) as n,
            coalesce(body::json #>> '{data,order_id}', body::json #>> '{data,payout_id}')
                as subject
        from events group by 1, 2, 4
    ), happened as (
        select merchant_id, order_id as subject, count(*) as n, case
            when event = 'confirmed' then 'order.paid'
            when event in ('refused', 'voided', 'expired') then 'order.closed' end as type
        from order_history
        where from_status <> to_status and event in ('confirmed', 'refused', 'voided', 'expired')
        group by 1, 2, 4
        union all
        select merchant_id, id, 1, 'order.settled' from orders where settled_at is not null
        union all
        select merchant_id, order_id, 1, case status when 'COMPLETE' then 'checkout.completed'
            else 'checkout.expired' end
        from checkouts where status <> 'OPEN'
        union all
        select merchant_id, order_id, count(*), case status when 'SUCCEEDED' then 'order.refunded'
            else 'refund.failed' end
        from refunds where status <> 'PROCESSING' group by 1, 2, 4
        union all
        select merchant_id, order_id, count(*), 'dispute.created' from disputes group by 1, 2
        union all
        select merchant_id, order_id,
            sum(case status when 'OPEN' then 0 when 'RECOVERED' then 2 else 1 end),
            'dispute.closed'
        from disputes where status <> 'OPEN' group by 1, 2
        union all
        select merchant_id, id, 1, case status when 'PAID' then 'payout.paid'
            else 'payout.failed' end
        from payouts where status <> 'PENDING'
    )
    select coalesce(h.merchant_id, t.merchant_id) as merchant, coalesce(h.subject, t.subject) as of,
        coalesce(h.type, t.type) as type, h.n as happened, t.n as told
    from happened h full join told t
        on (t.merchant_id, t.type, t.subject) = (h.merchant_id, h.type, h.subject)
    where h.n is distinct from t.n and not (
        -- What happened long ago is pruned, but for the last row; what was told may be kept longer.
        t.type in ('order.paid', 'order.closed') and not exists (
            select from order_history o
            where (o.merchant_id, o.order_id, o.number) = (t.merchant_id, t.subject, 1)))
"""


async def missing_events(tx: Tx) -> list[dict[str, object]]:
    """Return what was not told, told more than once, or told without having happened."""
    return [dict(row) for row in await tx.fetch(_UNTOLD)]
