-- concurrently
-- Payments found by the end of their id, as pages show it, and by the last groups of a receipt's number.
create index concurrently orders_by_end_of_id on orders (merchant_id, right(id, 4));
