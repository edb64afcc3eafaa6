-- concurrently
-- The lists of payments that were declined or canceled, newest first, and their numbers. Only closed
-- orders are in the index, so that a payment writes nothing there.
create index concurrently orders_newest_by_closed_as on orders
    (merchant_id, closed_as, created_at desc, id desc)
    where closed_as is not null;
