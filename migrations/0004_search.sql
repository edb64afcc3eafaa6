-- Orders found by what stands in them (decisions 0060 and 0061): by e-mail, amount and metadata.
--
-- Opening a session writes one narrow row, search_changes; the worker indexes the order after the
-- commit, when there are enough of them to be worth it. Until then a search reads the order itself.

-- [orders] Where an order has a text: a term is the text as orders/terms.py compares it, a place the
-- field or fields of the order that it stands in. An order has one row for each of its texts.
create table search_terms (
    merchant_id text not null,
    term        text collate "C" not null check (length(term) <= 100),
    place       text collate "C" not null,
    created_at  bigint not null,  -- of the order
    order_id    text not null,
    primary key (merchant_id, term, place, created_at, order_id)
);

-- [orders] How many rows of search_terms there are by day, for those terms and places that have
-- many; any other is counted by reading it.
create table search_counts (
    merchant_id text not null,
    term        text collate "C" not null,
    place       text collate "C" not null,
    since       bigint not null check (since % 86400000 = 0),
    rows        bigint not null,
    primary key (merchant_id, term, place, since)
);

-- [orders] A merchant whose orders are indexed. Its lock orders the workers that do it.
create table search_heads (
    merchant_id text primary key
);

-- [orders] Orders that are to be indexed, since they are new (was is null) or have another e-mail
-- than before (was). Written by the triggers below, so that no statement can forget it, and no server
-- of another version. Without a primary key, as list_changes.
create table search_changes (
    merchant_id text not null,
    order_id    text not null,
    was         text
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
alter table search_changes replica identity full;
create index search_changes_by_merchant on search_changes (merchant_id, order_id);

-- [orders] Orders that were paid after their session had expired: those sessions stay EXPIRED, while
-- the session of every other paid order is COMPLETE. Few, so that lists of sessions can be read from
-- the indexes and counts of orders (decision 0061).
create table late_payments (
    merchant_id text not null,
    order_id    text not null,
    product_id  text not null,
    created_at  bigint not null,  -- of the order
    primary key (merchant_id, order_id),
    foreign key (merchant_id, order_id) references orders (merchant_id, id)
);

-- Those that are there. First, and again once no other transaction writes orders: the lock that a
-- new trigger takes is held for a moment only.
insert into search_changes (merchant_id, order_id) select merchant_id, id from orders;
create temporary table searched on commit drop as
    select coalesce(max(created_at), 0) - 86400000 as until from orders;

-- A new order is counted, and noted for the index: in one function, which costs less than two.
create or replace function count_new_order() returns trigger language plpgsql as $$
begin
    insert into list_changes (merchant_id, list, part, at, kind, was, rows)
    values (new.merchant_id, 'orders', new.product_id, new.created_at / 3600000 * 3600000,
        new.status, null, 1);
    insert into search_changes (merchant_id, order_id) values (new.merchant_id, new.id);
    return null;
end $$;

create function note_changed_email() returns trigger language plpgsql as $$
begin
    insert into search_changes (merchant_id, order_id, was)
    values (new.merchant_id, new.id, old.customer_email);
    return null;
end $$;
create trigger orders_note_changed_email after update of customer_email on orders
    for each row when (old.customer_email is distinct from new.customer_email)
    execute function note_changed_email();

create function note_late_payment() returns trigger language plpgsql as $$
begin
    insert into late_payments (merchant_id, order_id, product_id, created_at)
    values (new.merchant_id, new.id, new.product_id, new.created_at) on conflict do nothing;
    return null;
end $$;
create trigger orders_note_late_payment after update of status on orders
    for each row when (old.status in ('CLOSED', 'FAILED') and new.status = 'PAID')
    execute function note_late_payment();

insert into search_changes (merchant_id, order_id)
select o.merchant_id, o.id from orders o
where o.created_at > (select until from searched) and not exists (
    select from search_changes c where c.merchant_id = o.merchant_id and c.order_id = o.id);
insert into late_payments (merchant_id, order_id, product_id, created_at)
select o.merchant_id, o.id, o.product_id, o.created_at from orders o
join checkouts c on c.merchant_id = o.merchant_id and c.id = o.checkout_id
where c.status = 'EXPIRED' and o.paid_at is not null;
