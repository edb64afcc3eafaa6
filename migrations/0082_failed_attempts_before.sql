-- in batches
-- The orders that can still be paid and whose last attempt failed before it was stored.
with batch as materialized (
    select merchant_id, id from orders
    where (merchant_id, id) > ($1, $2) and status = 'PENDING' and not attempt_failed
    order by merchant_id, id limit 500
), filled as (
    update orders o set attempt_failed = true
    from batch b
    where o.merchant_id = b.merchant_id and o.id = b.id and o.status = 'PENDING'
        and not o.attempt_failed and (
            select a.status in ('DECLINED', 'REFUSED') from payment_attempts a
            where a.merchant_id = b.merchant_id and a.order_id = b.id
            order by a.created_at desc, a.id desc limit 1)
)
select merchant_id, id from batch order by merchant_id desc, id desc limit 1;
