-- Why an order is CLOSED, so that lists, filters and counts of payments distinguish declined and
-- canceled payments from those whose time has ended.

-- [orders] CANCELED: somebody ended the session before its time. DECLINED: the last payment attempt was
-- declined. Null: the time ended without an attempt, or the order is not CLOSED. Triggers keep it, so
-- that it is right for the orders that the version before closes.
alter table orders add column closed_as text;

-- Before an order is closed, its session still has the time at which it would have ended.
create function note_closed_as() returns trigger language plpgsql as $$
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
            select case when status in ('DECLINED', 'REFUSED') then 'DECLINED' end
            from payment_attempts
            where merchant_id = new.merchant_id and order_id = new.id
            order by created_at desc, id desc limit 1);
    end if;
    return new;
end $$;
create trigger orders_note_closed_as before update of status on orders
    for each row when ((new.status = 'CLOSED') <> (old.status = 'CLOSED'))
    execute function note_closed_as();

-- An attempt may be declined after its order was closed.
create function note_late_decline() returns trigger language plpgsql as $$
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
        update orders set closed_as = 'DECLINED'
        where merchant_id = new.merchant_id and id = new.order_id and status = 'CLOSED'
            and closed_as is null;
    end if;
    return null;
end $$;
create trigger payment_attempts_note_late_decline after update of status on payment_attempts
    for each row when (new.status in ('DECLINED', 'REFUSED')
        and old.status not in ('DECLINED', 'REFUSED'))
    execute function note_late_decline();

-- [list_counts] Orders whose status for people does not follow from their status alone are counted as a
-- list of their own, "shown": its kinds are both statuses. Nobody changes an order until the orders of
-- before are counted.
lock table orders in share row exclusive mode;
alter table list_counts drop constraint list_counts_list_check;
alter table list_counts add constraint list_counts_list_check
    check (list in ('orders', 'entries', 'shown')) not valid;

-- Null: the status for people follows from the status (orders/statuses.py).
create function shown_exception(
    status text, closed_as text, refund_failed boolean, refund_held_minor bigint,
    refunded_minor bigint, amount_minor bigint
) returns text language sql immutable as $$
    select status || ' ' || case
        when refund_failed then 'REFUND_FAILED'
        when status in ('PAID', 'SETTLED') and refund_held_minor > refunded_minor
            then 'REFUND_PENDING'
        when status in ('PAID', 'SETTLED') and refunded_minor > 0 and refunded_minor < amount_minor
            then 'PARTIALLY_REFUNDED'
        when closed_as = 'DECLINED' then 'FAILED'
        when closed_as = 'CANCELED' then 'REVOKED' end
$$;

create or replace function count_new_order() returns trigger language plpgsql as $$
begin
    insert into list_changes (merchant_id, list, part, at, kind, was, rows)
    values (new.merchant_id, 'orders', new.product_id, new.created_at / 3600000 * 3600000,
        new.status, null, 1);
    insert into search_changes (merchant_id, order_id) values (new.merchant_id, new.id);
    -- A new order has no exception, unless somebody inserts it in SQL.
    if new.refund_held_minor > 0 or new.refund_failed or new.closed_as is not null then
        insert into list_changes (merchant_id, list, part, at, kind, was, rows)
        select new.merchant_id, 'shown', new.product_id, new.created_at / 3600000 * 3600000, kind,
            null, 1
        from shown_exception(new.status, new.closed_as, new.refund_failed, new.refund_held_minor,
            new.refunded_minor, new.amount_minor) as kind
        where kind is not null;
    end if;
    return null;
end $$;

create or replace function count_deleted_orders() returns trigger language plpgsql as $$
begin
    insert into list_changes (merchant_id, list, part, at, kind, was, rows)
    select merchant_id, list, product_id, created_at / 3600000 * 3600000, null, was, count(*)
    from old_rows
    cross join lateral (values ('orders', status), ('shown', shown_exception(status, closed_as,
        refund_failed, refund_held_minor, refunded_minor, amount_minor))) as counted (list, was)
    where was is not null
    group by merchant_id, list, product_id, created_at / 3600000, was;
    return null;
end $$;

create or replace function count_changed_orders() returns trigger language plpgsql as $$
begin
    insert into list_changes (merchant_id, list, part, at, kind, was, rows)
    select merchant_id, list, product_id, created_at / 3600000 * 3600000, kind, was, count(*)
    from new_rows n full join old_rows o using (merchant_id, id, product_id, created_at)
    cross join lateral (values ('orders', n.status, o.status), ('shown',
        shown_exception(n.status, n.closed_as, n.refund_failed, n.refund_held_minor,
            n.refunded_minor, n.amount_minor),
        shown_exception(o.status, o.closed_as, o.refund_failed, o.refund_held_minor,
            o.refunded_minor, o.amount_minor))) as counted (list, kind, was)
    where kind is distinct from was
    group by merchant_id, list, product_id, created_at / 3600000, kind, was;
    return null;
end $$;

-- The conditions are those of partial indexes.
insert into list_changes (merchant_id, list, part, at, kind, was, rows)
select merchant_id, 'shown', product_id, created_at / 3600000 * 3600000, kind, null, count(*)
from (
    select * from orders where refund_failed
    union
    select * from orders where refund_held_minor > refunded_minor
    union
    select * from orders where refunded_minor > 0 and refunded_minor < amount_minor
) o
cross join lateral shown_exception(status, closed_as, refund_failed, refund_held_minor,
    refunded_minor, amount_minor) as kind
where kind is not null
group by merchant_id, product_id, created_at / 3600000, kind;
