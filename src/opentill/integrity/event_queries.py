"""The integrity rule about events: each occurrence was reported by exactly one event.

contract.md#event-emitted. Events are kept for 90 days (``webhooks.KEEP_EVENTS_MS``), by the time in
their ids. The rule therefore covers objects created in the last 89 days: ids contain real time, so
that all events of such an order, refund, dispute or payout still exist, however the business clock
was moved. Orders with a pruned history, whose first row is missing, are excluded.
"""

from typing import Final

SENTENCE: Final = "what happened was reported by one event each time, and nothing else was"
# ``:source``, ``:event``, ``:target`` and ``:type`` are the columns of the table of order
# transitions, one row per emitted event. Both sides are summed instead of joined, so that a
# condition on the merchant is pushed down to every table (see ``queries.py``).
EVENTS: Final = """
    select merchant_id, subject,
        type || ': ' || sum(due) || ' expected, ' || sum(written) || ' written' as detail
    from (
        select h.merchant_id, h.order_id as subject, t.type, 1 as due, 0 as written
        from order_history h
        join unnest(:source::text[], :event::text[], :target::text[], :type::text[])
            as t (source, event, target, type)
            on (t.source, t.event, t.target) = (h.from_status, h.event, h.to_status)
        where h.order_id >= :first_order and exists (select from order_history f
            where (f.merchant_id, f.order_id, f.number) = (h.merchant_id, h.order_id, 1))
        union all
        select merchant_id, id, 'order.settled', 1, 0
        from orders where id >= :first_order and settled_at is not null
        union all
        select r.merchant_id, r.id, e.type, 1, 0
        from refunds r cross join lateral (values
            ('order.refunded', r.succeeded_at), ('refund.failed', r.failed_at)) as e (type, at)
        where r.id >= :first_refund and e.at is not null
        union all
        select d.merchant_id, d.id, e.type, e.due, 0
        from disputes d cross join lateral (values
            ('dispute.created', 1),
            ('dispute.closed', case d.status when 'OPEN' then 0 when 'RECOVERED' then 2 else 1 end)
        ) as e (type, due)
        where d.id >= :first_dispute
        union all
        select p.merchant_id, p.id, e.type, 1, 0
        from payouts p cross join lateral (values
            ('payout.paid', p.paid_at), ('payout.failed', p.failed_at)) as e (type, at)
        where p.id >= :first_payout and e.at is not null
        union all
        select merchant_id, subject, type, 0, 1
        from (
            select merchant_id, type, body::json -> 'data' ->> case
                when type in ('order.refunded', 'refund.failed') then 'refund_id'
                when type in ('dispute.created', 'dispute.closed') then 'dispute_id'
                when type in ('payout.paid', 'payout.failed') then 'payout_id'
                else 'order_id' end as subject
            from events where id >= :first_event
        ) as reported
        where split_part(subject, '_', 2) >= split_part(:first_order, '_', 2)
            and (type <> all (:type::text[]) or exists (select from order_history f
                where (f.merchant_id, f.order_id, f.number) = (reported.merchant_id, subject, 1)))
    ) as both_sides
    group by merchant_id, subject, type
    having sum(due) <> sum(written)
    """
