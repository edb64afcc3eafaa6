-- concurrently
-- Payouts of all merchants, newest first, by status or by amount; and disputes whose merchant's response
-- waits for staff.
create index concurrently payouts_of_all on payouts (status, created_at desc, id desc);
create index concurrently payouts_by_amount on payouts (amount_minor, currency, created_at desc, id desc);
create index concurrently disputes_responded on disputes (responded_at, id)
    where status = 'OPEN' and response is not null;
