-- The triggers of a distributed database (decision 0118): run by `opentill migrate` after the files with
-- numbers, each time, on a database whose tables are distributed.
--
-- Citus plans anew, for each shard, what a trigger does. It cannot plan a statement that reads both the
-- rows of a transition table and a distributed table. So these loop over the rows, and each of their
-- statements names one merchant, whose other rows are on the same node. What they do is what the
-- functions of the same names do in the migrations.

create or replace function count_deleted_orders() returns trigger language plpgsql as $$
declare
    change record;
begin
    for change in
        select merchant_id, product_id, created_at / 3600000 * 3600000 as at, status,
            count(*) as rows
        from old_rows group by 1, 2, 3, 4
    loop
        insert into list_changes (merchant_id, list, part, at, kind, was, rows)
        values (change.merchant_id, 'orders', change.product_id, change.at, null, change.status,
            change.rows);
    end loop;
    return null;
end $$;

create or replace function count_changed_orders() returns trigger language plpgsql as $$
declare
    change record;
begin
    for change in
        select merchant_id, product_id, created_at / 3600000 * 3600000 as at,
            new_rows.status as kind, old_rows.status as was, count(*) as rows
        from new_rows full join old_rows using (merchant_id, id, product_id, created_at)
        where new_rows.status is distinct from old_rows.status
        group by 1, 2, 3, 4, 5
    loop
        insert into list_changes (merchant_id, list, part, at, kind, was, rows)
        values (change.merchant_id, 'orders', change.product_id, change.at, change.kind, change.was,
            change.rows);
    end loop;
    return null;
end $$;

create or replace function check_and_count_entries() returns trigger language plpgsql as $$
declare
    last record;
    balance record;
    change record;
begin
    for last in
        select distinct on (merchant_id, currency) * from new_rows
        order by merchant_id, currency, number desc
    loop
        select b.entries, b.pending, b.available, b.frozen, b.reserve, b.last_at into balance
        from balances b where b.merchant_id = last.merchant_id and b.currency = last.currency;
        if (balance.entries, balance.pending, balance.available, balance.frozen, balance.reserve,
                balance.last_at) is distinct from
            (last.number, last.pending_after, last.available_after, last.frozen_after,
                last.reserve_after, last.created_at) then
            raise exception 'entry % of % in % does not show the balance', last.number,
                last.merchant_id, last.currency using errcode = 'foreign_key_violation';
        end if;
    end loop;
    for change in
        select merchant_id, created_at / 3600000 * 3600000 as at, type, count(*) as rows
        from new_rows group by 1, 2, 3
    loop
        insert into list_changes (merchant_id, list, part, at, kind, was, rows)
        values (change.merchant_id, 'entries', '', change.at, change.type, null, change.rows);
    end loop;
    return null;
end $$;

create or replace function sum_paid_uses() returns trigger language plpgsql as $$
declare
    sold record;
begin
    for sold in
        select u.merchant_id, u.payment_link_id, u.currency, count(*) as paid,
            sum(u.amount_minor) as paid_minor
        from uses_now u
        join uses_before was on was.merchant_id = u.merchant_id and was.order_id = u.order_id
        where u.state = 'PAID' and was.state <> 'PAID'
        group by 1, 2, 3 order by 1, 2, 3
    loop
        insert into payment_link_sales as sales
            (merchant_id, payment_link_id, currency, paid, paid_minor)
        values (sold.merchant_id, sold.payment_link_id, sold.currency, sold.paid, sold.paid_minor)
        on conflict (merchant_id, payment_link_id, currency) do update
            set paid = sales.paid + excluded.paid,
                paid_minor = sales.paid_minor + excluded.paid_minor;
    end loop;
    return null;
end $$;
