-- concurrently
-- The key of Epay orders as of 0042, and the few numbers that were submitted more than once.
create unique index concurrently epay_orders_by_submission
    on epay_orders (merchant_id, out_trade_no, submission);
create index concurrently epay_orders_again on epay_orders (created_at) where submission > 1;
