-- in batches
-- Why orders were closed before it was stored. Orders that ended in time without a declined attempt are
-- not written: only those whose session was canceled, or whose last attempt was declined.
with batch as materialized (
    select merchant_id, id, checkout_id from orders
    where (merchant_id, id) > ($1, $2) and status = 'CLOSED' and closed_as is null
    order by merchant_id, id limit 500
), filled as (
    update orders o set closed_as = closed.closed_as
    from (
        select b.merchant_id, b.id, case
            when exists (
                select from order_history h
                join checkouts c on c.merchant_id = b.merchant_id and c.id = b.checkout_id
                where h.merchant_id = b.merchant_id and h.order_id = b.id and h.event = 'expired'
                    and h.at <= c.expires_at
                    and h.cause not in ('24 hours are over', 'its time is over')) then 'CANCELED'
            when (
                select a.status in ('DECLINED', 'REFUSED') from payment_attempts a
                where a.merchant_id = b.merchant_id and a.order_id = b.id
                order by a.created_at desc, a.id desc limit 1) then 'DECLINED' end as closed_as
        from batch b
    ) closed
    where o.merchant_id = closed.merchant_id and o.id = closed.id and o.status = 'CLOSED'
        and o.closed_as is null and closed.closed_as is not null
)
select merchant_id, id from batch order by merchant_id desc, id desc limit 1;

-- What 0077 added without reading the table holds for every row.
alter table list_counts validate constraint list_counts_list_check;
