-- A payment whose last attempt the customer canceled at the bank is canceled, and not declined: no bank
-- has declined it. CLOSED orders of that kind get CANCELED as closed_as.

-- The codes of web/declines.py for cancellation; a text may follow the code.
create function is_customer_cancellation(reason text) returns boolean language sql immutable as $$
    select split_part(reason, ':', 1)
        in ('canceled', 'cancelled', 'customer_declined', 'transfer_rejected')
$$;

create or replace function note_closed_as() returns trigger language plpgsql as $$
begin
    if new.status <> 'CLOSED' then
        new.closed_as := null;
    elsif new.updated_at < (
        select expires_at from checkouts
        where merchant_id = new.merchant_id and id = new.checkout_id
    ) then
        new.closed_as := 'CANCELED';
    else
        new.closed_as := (
            select case when status not in ('DECLINED', 'REFUSED') then null
                when is_customer_cancellation(reason) then 'CANCELED'
                else 'DECLINED' end
            from payment_attempts
            where merchant_id = new.merchant_id and order_id = new.id
            order by created_at desc, id desc limit 1);
    end if;
    return new;
end $$;

create or replace function note_late_decline() returns trigger language plpgsql as $$
begin
    if exists (
        select from orders
        where merchant_id = new.merchant_id and id = new.order_id and status = 'CLOSED'
            and closed_as is null
    ) and not exists (
        select from payment_attempts
        where merchant_id = new.merchant_id and order_id = new.order_id
            and (created_at, id) > (new.created_at, new.id)
    ) then
        update orders
        set closed_as = case when is_customer_cancellation(new.reason) then 'CANCELED'
            else 'DECLINED' end
        where merchant_id = new.merchant_id and id = new.order_id and status = 'CLOSED'
            and closed_as is null;
    end if;
    return null;
end $$;
