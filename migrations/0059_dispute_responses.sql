-- [disputes] Whether the merchant accepts a dispute or contests it: who decided that and when. The
-- version before writes none of it.
alter table disputes
    add column response text,         -- null: the merchant has not decided
    add column responded_at bigint,
    add column responded_by text,
    add constraint disputes_response_check check (response in ('ACCEPTED', 'CONTESTED')) not valid,
    add constraint disputes_response_has_person_and_time check (
        (response is null) = (responded_at is null)
        and (response is null) = (responded_by is null)) not valid;
