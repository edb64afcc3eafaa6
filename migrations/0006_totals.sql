-- How many rows the long lists have, without counting them (decision 0028): counts by filter and
-- time, and beside them the changes that the counts do not hold yet. The true number is always both
-- together, in whichever snapshot.

create table list_counts (
    merchant_id text not null,
    list        text not null check (list in ('orders', 'entries')),
    part        text not null,               -- orders: a product, or "" for all of them
    span        text not null check (span in ('all', 'day', 'hour')),
    since       bigint not null,             -- where its day or hour begins; 0 for all time
    kind        text not null,               -- orders: status; entries: type
    rows        bigint not null,
    primary key (merchant_id, list, part, span, since, kind)
);

-- Rows that came (kind), went (was) or changed. Written by triggers along with the rows
-- themselves: so a server of the version before counts too, while versions change.
create table list_changes (
    merchant_id text not null,
    list        text not null,
    part        text not null,
    at          bigint not null,
    kind        text,
    was         text,
    rows        bigint not null,
    id          uuid not null default gen_random_uuid(),  -- a trigger has none of ours
    primary key (merchant_id, list, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

create function count_order() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        insert into list_changes (merchant_id, list, part, at, kind, was, rows)
        values (new.merchant_id, 'orders', new.product_id, new.created_at, new.status, null, 1);
    elsif tg_op = 'UPDATE'
            and (new.product_id, new.created_at) = (old.product_id, old.created_at) then
        insert into list_changes (merchant_id, list, part, at, kind, was, rows)
        values (new.merchant_id, 'orders', new.product_id, new.created_at, new.status, old.status, 1);
    else  -- by hand only
        insert into list_changes (merchant_id, list, part, at, kind, was, rows)
        values (old.merchant_id, 'orders', old.product_id, old.created_at, null, old.status, 1);
        if tg_op = 'UPDATE' then
            insert into list_changes (merchant_id, list, part, at, kind, was, rows)
            values (new.merchant_id, 'orders', new.product_id, new.created_at, new.status, null, 1);
        end if;
    end if;
    return null;
end $$;
create trigger orders_are_counted after insert or delete on orders
    for each row execute function count_order();
create trigger changed_orders_are_counted after update on orders
    for each row when (old.status <> new.status or old.product_id <> new.product_id
        or old.created_at <> new.created_at)
    execute function count_order();

-- Entries never change.
create function count_entries() returns trigger language plpgsql as $$
begin
    insert into list_changes (merchant_id, list, part, at, kind, was, rows)
    select merchant_id, 'entries', '', created_at, type, null, count(*) from written
    group by merchant_id, created_at, type;
    return null;
end $$;
create trigger entries_are_counted after insert on entries
    referencing new table as written
    for each statement execute function count_entries();

-- What is there already. The triggers hold back who writes until this is committed.
insert into list_counts (merchant_id, list, part, span, since, kind, rows)
select merchant_id, list, counted.part, span, counted.since, kind, sum(rows)
from (
    select merchant_id, 'orders' as list, product_id as part,
        created_at / 3600000 * 3600000 as hour, status as kind, count(*) as rows
    from orders group by 1, 3, 4, 5
    union all
    select merchant_id, 'entries', '', created_at / 3600000 * 3600000, type, count(*)
    from entries group by 1, 4, 5
) as there
cross join lateral (
    select p.part, s.span, s.since
    from (select there.part union select '') as p (part)
    cross join (values ('all', 0), ('day', hour / 86400000 * 86400000), ('hour', hour))
        as s (span, since)
) as counted
group by merchant_id, list, counted.part, span, counted.since, kind;

-- A list by product and status.
create index orders_newest_by_product_and_status on orders
    (merchant_id, product_id, status, created_at desc, id desc);
