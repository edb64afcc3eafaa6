-- Whether the last payment attempt of an order that can still be paid has failed, so that lists,
-- filters and counts of payments show it.

-- [orders] Whether the last payment attempt was declined or did not reach its gateway, and no other has
-- begun. Pages show it while the order is PENDING. Triggers keep it, so that it is right for the attempts
-- that the version before records.
alter table orders add column attempt_failed boolean not null default false;

-- Another attempt sets the order to CREATING first; every other status ends the order's chance too.
create function clear_failed_attempt() returns trigger language plpgsql as $$
begin
    new.attempt_failed := false;
    return new;
end $$;
create trigger orders_clear_failed_attempt before update of status on orders
    for each row when (old.attempt_failed and new.status <> old.status and new.status <> 'PENDING')
    execute function clear_failed_attempt();

-- The order becomes PENDING before or after its attempt is declined, in the same transaction.
create function note_failed_attempt() returns trigger language plpgsql as $$
begin
    if not exists (
        select from payment_attempts
        where merchant_id = new.merchant_id and order_id = new.order_id
            and (created_at, id) > (new.created_at, new.id)
    ) then
        update orders set attempt_failed = true
        where merchant_id = new.merchant_id and id = new.order_id
            and status in ('CREATING', 'PENDING') and not attempt_failed;
    end if;
    return null;
end $$;
create trigger payment_attempts_note_failed_attempt after update of status on payment_attempts
    for each row when (new.status in ('DECLINED', 'REFUSED')
        and old.status not in ('DECLINED', 'REFUSED'))
    execute function note_failed_attempt();

-- The function of six arguments stays for the version before. Null: the status for people follows from
-- the status (orders/statuses.py).
create function shown_exception(
    status text, closed_as text, attempt_failed boolean, refund_failed boolean,
    refund_held_minor bigint, refunded_minor bigint, amount_minor bigint
) returns text language sql immutable as $$
    select coalesce(
        shown_exception(status, closed_as, refund_failed, refund_held_minor, refunded_minor,
            amount_minor),
        case when status = 'PENDING' and attempt_failed then 'PENDING ATTEMPT_FAILED' end)
$$;

create or replace function count_new_order() returns trigger language plpgsql as $$
begin
    insert into list_changes (merchant_id, list, part, at, kind, was, rows)
    values (new.merchant_id, 'orders', new.product_id, new.created_at / 3600000 * 3600000,
        new.status, null, 1);
    insert into search_changes (merchant_id, order_id) values (new.merchant_id, new.id);
    -- A new order has no exception, unless somebody inserts it in SQL.
    if new.refund_held_minor > 0 or new.refund_failed or new.closed_as is not null
        or new.attempt_failed
    then
        insert into list_changes (merchant_id, list, part, at, kind, was, rows)
        select new.merchant_id, 'shown', new.product_id, new.created_at / 3600000 * 3600000, kind,
            null, 1
        from shown_exception(new.status, new.closed_as, new.attempt_failed, new.refund_failed,
            new.refund_held_minor, new.refunded_minor, new.amount_minor) as kind
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
        attempt_failed, refund_failed, refund_held_minor, refunded_minor, amount_minor)))
        as counted (list, was)
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
        shown_exception(n.status, n.closed_as, n.attempt_failed, n.refund_failed,
            n.refund_held_minor, n.refunded_minor, n.amount_minor),
        shown_exception(o.status, o.closed_as, o.attempt_failed, o.refund_failed,
            o.refund_held_minor, o.refunded_minor, o.amount_minor))) as counted (list, kind, was)
    where kind is distinct from was
    group by merchant_id, list, product_id, created_at / 3600000, kind, was;
    return null;
end $$;
