-- concurrently
-- Direct payments that are not counted yet. No other attempt is in the index.
create index concurrently payment_attempts_direct_uncounted on payment_attempts (merchant_id, updated_at)
    where status = 'SUCCEEDED' and prepaid_minor is not null and direct_counted_at is null;
