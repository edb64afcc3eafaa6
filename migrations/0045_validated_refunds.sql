-- What stood in the table keeps the rules of the migration before, too. It is read for that under a lock
-- that lets everybody read and write.
alter table refunds validate constraint refunds_succeeded_has_its_time;
alter table refunds validate constraint refunds_source_check;
alter table refunds validate constraint refunds_made_at_the_provider_succeeded;
