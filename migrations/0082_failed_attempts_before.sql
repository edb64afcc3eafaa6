-- The orders that can still be paid and whose last attempt failed before it was stored.
update orders o set attempt_failed = true
where o.status = 'PENDING' and not o.attempt_failed and (
    select a.status in ('DECLINED', 'REFUSED') from payment_attempts a
    where a.merchant_id = o.merchant_id and a.order_id = o.id
    order by a.created_at desc, a.id desc limit 1);
