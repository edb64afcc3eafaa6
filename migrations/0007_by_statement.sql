-- What looked at each row of a batch looks at the whole statement, once (decision 0031).

-- How many rows the lists have. A change notes the hour of its rows, which is all that the counts
-- want to know: a batch of payments of one merchant is one change. Orders come one by one.
drop trigger orders_are_counted on orders;
drop trigger changed_orders_are_counted on orders;
drop trigger entries_are_counted on entries;
drop function count_order;
drop function count_entries;

create function count_new_order() returns trigger language plpgsql as $$
begin
    insert into list_changes (merchant_id, list, part, at, kind, was, rows)
    values (new.merchant_id, 'orders', new.product_id, new.created_at / 3600000 * 3600000,
        new.status, null, 1);
    return null;
end $$;
create trigger orders_are_counted after insert on orders
    for each row execute function count_new_order();

create function count_gone_orders() returns trigger language plpgsql as $$
begin
    insert into list_changes (merchant_id, list, part, at, kind, was, rows)
    select merchant_id, 'orders', product_id, created_at / 3600000 * 3600000, null, status, count(*)
    from gone group by merchant_id, product_id, created_at / 3600000, status;
    return null;
end $$;
create trigger gone_orders_are_counted after delete on orders
    referencing old table as gone
    for each statement execute function count_gone_orders();

-- The full join is for changes by hand: of an order's product, time or key.
create function count_changed_orders() returns trigger language plpgsql as $$
begin
    insert into list_changes (merchant_id, list, part, at, kind, was, rows)
    select merchant_id, 'orders', product_id, created_at / 3600000 * 3600000, written.status,
        gone.status, count(*)
    from written full join gone using (merchant_id, id, product_id, created_at)
    where written.status is distinct from gone.status
    group by merchant_id, product_id, created_at / 3600000, written.status, gone.status;
    return null;
end $$;
create trigger changed_orders_are_counted after update on orders
    referencing old table as gone new table as written
    for each statement execute function count_changed_orders();

-- Entries: they are counted, and what the last one says of the balance must be the balance. That
-- is more than the foreign key said, which looked up the balance of each entry again at the commit.
create function entries_are_right() returns trigger language plpgsql as $$
declare
    wrong record;
begin
    select last.merchant_id, last.currency, last.number into wrong
    from (
        select distinct on (merchant_id, currency) * from written
        order by merchant_id, currency, number desc
    ) last
    left join balances b on b.merchant_id = last.merchant_id and b.currency = last.currency
    where (b.entries, b.pending, b.available, b.frozen, b.reserve, b.last_at) is distinct from
        (last.number, last.pending_after, last.available_after, last.frozen_after,
            last.reserve_after, last.created_at)
    limit 1;
    if found then
        raise exception 'entry % of % in % does not show the balance', wrong.number,
            wrong.merchant_id, wrong.currency using errcode = 'foreign_key_violation';
    end if;
    insert into list_changes (merchant_id, list, part, at, kind, was, rows)
    select merchant_id, 'entries', '', created_at / 3600000 * 3600000, type, null, count(*)
    from written group by merchant_id, created_at / 3600000, type;
    return null;
end $$;
create trigger entries_are_right after insert on entries
    referencing new table as written
    for each statement execute function entries_are_right();
alter table entries drop constraint entries_merchant_id_currency_fkey;

create function refuse_removal() returns trigger language plpgsql as $$
begin
    raise exception '% rows are never deleted, and never become another merchant''s or currency''s',
        tg_table_name using errcode = 'integrity_constraint_violation';
end $$;
create trigger balances_stay before delete or update of merchant_id, currency on balances
    for each row execute function refuse_removal();
create trigger balances_are_not_truncated before truncate on balances
    for each statement execute function refuse_removal();

-- A random key for each change opened a file for its randomness, and nobody ever asks for it. For
-- logical replication the whole row names it.
alter table list_changes drop constraint list_changes_pkey;
alter table list_changes drop column id;
alter table list_changes replica identity full;
create index list_changes_of_merchant on list_changes (merchant_id, list);
