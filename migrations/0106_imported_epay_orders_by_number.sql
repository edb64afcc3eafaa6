-- concurrently
-- Imported orders found by the number of the old server. No other order is in the index.
create unique index concurrently epay_orders_by_old_number on epay_orders (merchant_id, old_trade_no)
    where old_trade_no is not null;
