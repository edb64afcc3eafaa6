-- in batches
-- The orders that were closed as declined before, although the customer had canceled the last attempt.
-- The trigger of orders counts each change.
with batch as materialized (
    select merchant_id, id from orders
    where (merchant_id, id) > ($1, $2) and status = 'CLOSED' and closed_as = 'DECLINED'
    order by merchant_id, id limit 500
), filled as (
    update orders o set closed_as = 'CANCELED'
    from batch b
    where o.merchant_id = b.merchant_id and o.id = b.id and o.status = 'CLOSED'
        and o.closed_as = 'DECLINED' and (
            select is_customer_cancellation(a.reason) from payment_attempts a
            where a.merchant_id = b.merchant_id and a.order_id = b.id
            order by a.created_at desc, a.id desc limit 1)
)
select merchant_id, id from batch order by merchant_id desc, id desc limit 1;
