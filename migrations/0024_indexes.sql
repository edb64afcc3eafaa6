-- concurrently
-- Indexes by which lists are read without reading through tables, built while others write
-- (decision 0103).

-- Second payments of an order that have not gone back: a handful of rows, whatever the table's size.
create index concurrently payment_attempts_duplicates on payment_attempts (updated_at, id)
    where status = 'DUPLICATE';

-- Notices that were given up.
create index concurrently epay_notifications_failed on epay_notifications (created_at)
    where state = 'FAILED';

-- Mails of a merchant by how they ended and to whom, newest first; and those of all merchants, the
-- last changed first, which serves what mails_old did.
create index concurrently mails_by_status on mails (merchant_id, status, id);
create index concurrently mails_by_recipient on mails (merchant_id, recipient, status, id);
create index concurrently mails_last_changed on mails (status, updated_at, id);
drop index concurrently mails_old;
