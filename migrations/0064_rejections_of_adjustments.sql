-- [adjustments] Why somebody rejected an adjustment; its requester reads it. Adjustments that were
-- rejected before have none: their reason is in the audit log only.
alter table adjustments
    add column rejection text,
    add constraint adjustments_only_rejected_have_a_rejection
        check (rejection is null or status = 'REJECTED') not valid;
