-- concurrently
-- Refunds that succeeded and debited nothing: those of direct payments, which figures sum by time.
create index concurrently refunds_of_direct_payments on refunds (merchant_id, succeeded_at)
    where debit_minor = 0 and succeeded_at is not null;
