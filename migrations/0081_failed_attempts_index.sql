-- concurrently
-- The lists of payments whose last attempt failed, newest first, and their numbers.
create index concurrently orders_newest_with_failed_attempt on orders
    (merchant_id, created_at desc, id desc)
    where attempt_failed;
