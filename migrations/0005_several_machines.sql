-- Retention: the history of orders may be pruned where the operator says so (OPENTILL_HISTORY_DAYS).
-- The database lets only rows go that are older than a year, and only to a transaction that says
-- that it prunes; the last row of an order, which explains its status, is left by the statement.
create function refuse_history_change() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' and current_setting('opentill.prunes_history', true) = 'yes'
            and old.at < extract(epoch from now()) * 1000 - 365 * 86400000::bigint then
        return old;
    end if;
    raise exception '% rows are never updated or deleted', tg_table_name
        using errcode = 'integrity_constraint_violation';
end $$;
drop trigger history_is_final on order_history;
create trigger history_is_final before update or delete on order_history
    for each row execute function refuse_history_change();
create index order_history_old on order_history (at) where number = 1;
