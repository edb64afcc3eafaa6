-- concurrently
-- Payouts of a merchant that failed lately, and those of all merchants that the bank returned.
create index concurrently payouts_failed on payouts (merchant_id, failed_at desc)
    where failed_at is not null;
create index concurrently payouts_returned on payouts (failed_at, merchant_id, id)
    where status = 'FAILED' and paid_at is not null;
