-- Validates the constraint of 0064, which was added without reading the table.
alter table adjustments validate constraint adjustments_only_rejected_have_a_rejection;
