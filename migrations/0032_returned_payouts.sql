-- A payout that was PAID may be FAILED later: the bank returned it. It keeps the time and the reference
-- of its payment. The version before reads such rows and makes none.

-- [payouts]
alter table payouts drop constraint payouts_paid_has_its_time;
alter table payouts drop constraint payouts_paid_has_its_reference;
alter table payouts add constraint payouts_paid_has_its_time check (case status
    when 'PENDING' then paid_at is null
    when 'PAID' then paid_at is not null
    else true end) not valid;
alter table payouts add constraint payouts_paid_has_its_reference
    check ((paid_at is not null) = (bank_reference <> '')) not valid;

-- The transitions of payouts/model.py: what has failed stays failed, so that its money comes back once.
create function refuse_payout_transition() returns trigger language plpgsql as $$
begin
    if (old.status, new.status) in (('PENDING', 'PAID'), ('PENDING', 'FAILED'), ('PAID', 'FAILED'))
    then
        return new;
    end if;
    raise exception 'payout % cannot become % after %', old.id, new.status, old.status
        using errcode = 'check_violation', table = 'payouts',
            constraint = 'payouts_take_their_transitions';
end $$;
create trigger payouts_take_their_transitions before update of status on payouts
    for each row when (old.status is distinct from new.status)
    execute function refuse_payout_transition();
