-- A refund that failed needs attention until somebody has handled it.

-- [refunds] The version before writes neither column: its failed refunds need attention, too.
alter table refunds
    add column handled_at bigint,  -- when a failed refund was handled; null: not yet, or it has not failed
    add column handled_by text,    -- the person, or the id of the later refund that returned the money
    add constraint refunds_are_handled_by_somebody
        check ((handled_at is null) = (handled_by is null)) not valid,
    add constraint refunds_that_are_handled_have_failed
        check (handled_at is null or status = 'FAILED') not valid;

-- [orders] Whether a refund of the order has failed and nobody has handled it. A trigger keeps it, so
-- that it is right for the failures that the version before records.
alter table orders add column refund_failed boolean not null default false;

create function note_failed_refund() returns trigger language plpgsql as $$
declare
    failed boolean := exists (
        select from refunds
        where merchant_id = new.merchant_id and order_id = new.order_id and status = 'FAILED'
            and handled_at is null);
begin
    update orders set refund_failed = failed
    where merchant_id = new.merchant_id and id = new.order_id and refund_failed <> failed;
    return null;
end $$;
create trigger refunds_note_failed after update of status, handled_at on refunds
    for each row when (new.status = 'FAILED') execute function note_failed_refund();
