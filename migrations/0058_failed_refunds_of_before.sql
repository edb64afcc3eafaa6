-- Refunds that failed before they were shown as needing attention. They count as handled if a later refund
-- of the same amount succeeded, if nothing is left to refund, or if they failed over 90 days ago. Only failed refunds are read, by their index.
update refunds r set handled_at = l.succeeded_at, handled_by = l.id
from (
    select distinct on (f.merchant_id, f.id) f.merchant_id, f.id as failed, l.id, l.succeeded_at
    from refunds f
    join orders o on o.merchant_id = f.merchant_id and o.id = f.order_id
    join refunds l on l.merchant_id = f.merchant_id and l.order_id = f.order_id
        and l.status = 'SUCCEEDED'
        and (o.refunded_minor = o.amount_minor
            or (l.amount_minor = f.amount_minor and l.created_at >= f.failed_at))
    where f.status = 'FAILED' and f.handled_at is null
    order by f.merchant_id, f.id, l.succeeded_at
) l
where r.merchant_id = l.merchant_id and r.id = l.failed and r.handled_at is null;
update refunds set handled_at = failed_at, handled_by = ''
where status = 'FAILED' and handled_at is null
    and failed_at < floor(extract(epoch from now()) * 1000)::bigint - 90 * 86400000::bigint;
update orders o set refund_failed = true
from (
    select distinct merchant_id, order_id from refunds
    where status = 'FAILED' and handled_at is null
) r
where o.merchant_id = r.merchant_id and o.id = r.order_id and not o.refund_failed;
