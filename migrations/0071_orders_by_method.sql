-- concurrently
-- The lists of payments by method. Only paid orders have one, so that an order that nobody pays
-- writes nothing there.
create index concurrently orders_newest_by_method on orders
    (merchant_id, payment_method, status, created_at desc, id desc)
    where payment_method is not null;
