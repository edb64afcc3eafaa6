"""SQL that makes deliveries due again and numbers the resends for readers of events."""

from opentill.db.query import Query
from opentill.webhooks.model import Delivery, ResendResult

# Make the delivery of an event due now; create it if there is none. The resend gets the next number
# after the head, which is locked, and at least `:floor` (``catchup.lock_head``).
RESEND = Query(
    Delivery,
    """
    with sent as (
        insert into webhook_deliveries as d (merchant_id, endpoint_id, event_id, type, status,
            attempts, step, try_at, created_at, updated_at)
        select merchant_id, :endpoint_id, id, type, 'PENDING', 0, 0, :now, :now, :now from events
        where merchant_id = :merchant_id and id = :event_id
        on conflict (merchant_id, endpoint_id, event_id) do update
            set status = 'PENDING', step = 0, sent_early_failures = null, try_at = :now,
                updated_at = greatest(d.updated_at, :now)
        returning d.*
    ), head as (
        update event_heads set number = greatest(number, :floor::bigint) + 1
        where merchant_id = :merchant_id and exists (select from sent)
        returning number
    ), resent as (
        insert into event_resends (merchant_id, number, event_id)
        select sent.merchant_id, head.number, sent.event_id from sent, head
    )
    select * from sent
    """,
)
# Make the next batch of events of a range due now, in the order of their ids, beginning after
# `:after`; empty `:types` match all. The resends get the next numbers, as in RESEND.
RESEND_RANGE = Query(
    ResendResult,
    """
    with chosen as (
        select v.id, v.type from events v
        left join webhook_deliveries d on d.merchant_id = v.merchant_id
            and d.endpoint_id = :endpoint_id and d.event_id = v.id
        where v.merchant_id = :merchant_id and v.id > :after
            and v.created_at between :since and :until
            and (:types::text[] = '{}' or v.type = any (:types::text[]))
            and (not :failed_only::bool or d.status = 'FAILED')
        order by v.id limit :limit
    ), sent as (
        insert into webhook_deliveries as d (merchant_id, endpoint_id, event_id, type, status,
            attempts, step, try_at, created_at, updated_at)
        select :merchant_id, :endpoint_id, id, type, 'PENDING', 0, 0, :now, :now, :now from chosen
        on conflict (merchant_id, endpoint_id, event_id) do update
            set status = 'PENDING', step = 0, sent_early_failures = null, try_at = :now,
                updated_at = greatest(d.updated_at, :now)
    ), head as (
        update event_heads
        set number = greatest(number, :floor::bigint) + (select count(*) from chosen)
        where merchant_id = :merchant_id and exists (select from chosen)
        returning number
    ), resent as (
        insert into event_resends (merchant_id, number, event_id)
        select :merchant_id, head.number + 1 - row_number() over (order by chosen.id desc),
            chosen.id
        from chosen, head
    )
    select count(*) as count, max(id) as last from chosen
    """,
)
