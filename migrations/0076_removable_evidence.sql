-- [disputes] A file of evidence may be removed until the merchant has accepted or contested its
-- dispute: only then may the operator submit it to the bank. Files never change. A version before
-- this one removes none.
create function refuse_change_of_evidence() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' and exists (
            select from disputes
            where merchant_id = old.merchant_id and id = old.dispute_id
                and status = 'OPEN' and response is null) then
        return old;
    end if;
    raise exception '% rows are never updated, and only deleted before a response', tg_table_name
        using errcode = 'integrity_constraint_violation';
end $$;
drop trigger dispute_evidence_is_final on dispute_evidence;
create trigger dispute_evidence_is_final before update or delete on dispute_evidence
    for each row execute function refuse_change_of_evidence();
