-- What stood in the table keeps the rules of returned payouts too: it is read under a lock that lets
-- everybody read and write, so this is a migration of its own.
alter table payouts validate constraint payouts_paid_has_its_time;
alter table payouts validate constraint payouts_paid_has_its_reference;
